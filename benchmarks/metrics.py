"""Speed of metrics: NDCG@10 and ERR@10 together, against NDCG@10 alone in other tools.

Run ``python benchmarks/metrics.py``; ``--help`` lists the options. All tools see the same scores
and labels: lists of 120 documents on average with a long tail, labels 0 to 4. Only evaluation is
timed, never the conversion into a tool's own form. The tools take turns, and each keeps its fastest
turn, so that load on the machine at one moment does not favor one of them.
"""

from __future__ import annotations

import os

# Idle threads of one tool would otherwise keep spinning through the first part of another's turn.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import argparse
import gc
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numba
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from plackett.base.ragged import offsets_from_sizes
from plackett.metrics import evaluate

LARGEST_LIST = 1200
SPREAD = 0.8  # of the logarithm of a list's size
LABEL_SHARES = (0.52, 0.32, 0.13, 0.02, 0.01)  # roughly those of MSLR-WEB30K
LIMITED_ROUNDS = 3  # of tools that take seconds


@dataclass(frozen=True)
class Data:
    """Random scored lists."""

    scores: NDArray[np.float64]
    labels: NDArray[np.float32]
    offsets: NDArray[np.int64]
    weights: None = None
    document_ids: None = None
    keys: None = None


@dataclass(frozen=True)
class Contender:
    """Something to time; its value must be that of our metric ``spelling``, if given."""

    name: str
    work: Callable[[], float]
    spelling: str | None = None
    rounds: int | None = None


def make_data(n_lists: int, mean_size: float, seed: int) -> Data:
    rng = np.random.default_rng(seed)
    center = math.log(mean_size) - SPREAD**2 / 2
    sizes = np.clip(rng.lognormal(center, SPREAD, n_lists), 1, LARGEST_LIST).astype(np.int64)
    labels = rng.choice(len(LABEL_SHARES), sizes.sum(), p=LABEL_SHARES).astype(np.float32)
    return Data(0.5 * labels + rng.normal(size=len(labels)), labels, offsets_from_sizes(sizes))


def ours(data: Data, spellings: list[str]) -> Contender:
    name = "plackett " + " + ".join(spellings)
    return Contender(name, lambda: evaluate(data.scores, data, spellings)[spellings[0]])


def lightgbm_ndcg(data: Data, threads: int) -> Contender:
    """LightGBM's C++ metric alone.

    A booster without trees keeps the initial scores of its validation set as its predictions, so
    ``eval_valid`` neither predicts nor trains: it calls the metric on the scores at hand.
    """
    import lightgbm

    quiet = {"verbose": -1, "min_data_in_leaf": 1, "feature_pre_filter": False}
    train = lightgbm.Dataset(np.array([[0.0], [1.0]]), label=[0, 1], group=[2], init_score=[0.0, 0.0], params=quiet)
    valid = lightgbm.Dataset(
        np.zeros((len(data.labels), 1), np.float32),
        label=data.labels,
        group=np.diff(data.offsets),
        init_score=data.scores,
        reference=train,
        params=quiet,
    )
    options = {"objective": "lambdarank", "metric": "ndcg", "eval_at": [10], "num_threads": threads}
    booster = lightgbm.Booster({**options, **quiet}, train)
    booster.add_valid(valid, "valid")
    return Contender("LightGBM ndcg@10", lambda: float(booster.eval_valid()[0][2]), "ndcg@10:lightgbm")


def per_query(data: Data, values: NDArray[np.generic]) -> dict[str, dict[str, float]]:
    texts = [f"d{i}" for i in range(LARGEST_LIST)]
    return {
        f"q{q}": dict(zip(texts, values[a:b].tolist(), strict=False)) for q, (a, b) in enumerate(pairwise(data.offsets))
    }


def trec_ndcg(data: Data) -> Contender:
    """trec_eval's C code through pytrec_eval; it has no ERR, and its gain is the label."""
    import pytrec_eval

    judged = per_query(data, data.labels.astype(int))
    evaluator = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10"})
    run = per_query(data, data.scores)

    def work() -> float:
        return float(np.mean([v["ndcg_cut_10"] for v in evaluator.evaluate(run).values()]))

    spelling = "ndcg@10:gain=identity:rounding=float32:empty=0"
    return Contender("pytrec_eval ndcg@10", work, spelling, LIMITED_ROUNDS)


def ranx_ndcg(data: Data) -> Contender:
    """Numba code of ranx, parallel over queries; it has no ERR."""
    from ranx import Qrels, Run, evaluate as ranx_evaluate

    qrels = Qrels.from_dict(per_query(data, data.labels.astype(int)))
    run = Run.from_dict(per_query(data, data.scores))

    def work() -> float:
        return float(ranx_evaluate(qrels, run, "ndcg_burges@10"))

    return Contender("ranx ndcg@10", work, "ndcg@10:empty=0", LIMITED_ROUNDS)


def contenders(data: Data, threads: int, skip: list[str]) -> list[Contender]:
    chosen = [ours(data, ["ndcg@10", "err@10"]), ours(data, ["ndcg@10"])]
    makers: dict[str, Callable[[], Contender]] = {
        "lightgbm": lambda: lightgbm_ndcg(data, threads),
        "pytrec_eval": lambda: trec_ndcg(data),
        "ranx": lambda: ranx_ndcg(data),
    }
    for name, maker in makers.items():
        if name in skip:
            continue
        try:
            chosen.append(maker())
        except ImportError:
            Console(stderr=True).print(f"{name} is not installed and left out")
    return chosen


def measure(chosen: list[Contender], rounds: int) -> list[float]:
    """Seconds of the fastest turn of each."""
    gc.disable()  # as timeit does: millions of dictionary entries of other tools are around
    fastest = [math.inf] * len(chosen)
    for turn in range(rounds + 1):  # the first one compiles and warms up
        for i, contender in enumerate(chosen):
            if turn > (contender.rounds or rounds):
                continue
            start = time.perf_counter()
            contender.work()
            if turn:
                fastest[i] = min(fastest[i], time.perf_counter() - start)
    return fastest


def check(chosen: list[Contender], data: Data) -> None:
    """Refuse to compare the speed of different numbers."""
    for contender in chosen:
        if contender.spelling is not None:
            mean = evaluate(data.scores, data, contender.spelling)
            if not math.isclose(*mean.values(), contender.work(), rel_tol=1e-6):
                raise SystemExit(f"{contender.name} gives another value than {mean}")


def report(chosen: list[Contender], seconds: list[float], data: Data, as_json: bool) -> None:
    rows = [
        {"what": c.name, "milliseconds": 1e3 * s, "times_ours": s / seconds[0]}
        for c, s in zip(chosen, seconds, strict=True)
    ]
    if as_json:
        shape = {"n_lists": len(data.offsets) - 1, "n_docs": len(data.labels)}
        Console().print_json(json.dumps({**shape, "results": rows}))
        return
    title = f"{len(data.offsets) - 1:,} lists, {len(data.labels):,} documents"
    table = Table("what", "milliseconds", "times ours", title=title)
    for row in rows:
        table.add_row(row["what"], f"{row['milliseconds']:.1f}", f"{row['times_ours']:.1f}")
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lists", type=int, default=30_000)
    parser.add_argument("--mean-size", type=float, default=120.0)
    parser.add_argument("--threads", type=int, default=min(2, numba.config.NUMBA_NUM_THREADS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", nargs="*", default=[], help="lightgbm, pytrec_eval, ranx")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    numba.set_num_threads(options.threads)
    data = make_data(options.lists, options.mean_size, options.seed)
    chosen = contenders(data, options.threads, options.skip)
    check(chosen, data)
    report(chosen, measure(chosen, options.rounds), data, options.json)


if __name__ == "__main__":
    main()
