"""Training time and memory of tree recipes beside LightGBM's own ranking objectives.

    python benchmarks/trees.py [--trees 40] [--rounds 3] [--leaves 63 400] [--only times memory stages]

The synthetic web set: about 240,000 documents with 136 features. Ours and the peer's fits take
turns in one process, each from raw features to a model, on 2 threads; the ratio is that of the
smallest times. Once with the same flags on both sides (deterministic, column-wise histograms) and
once with LightGBM as it is by default. Quantized: gradients in 16 bins and leaf values from the exact
ones, in LightGBM with its own objective, too. NDCG@10 is on other lists of the same kind, without early
stopping. Memory is the peak of a process of its own that opens the data and does one fit. Stages:
processor seconds of one fit with validation lists, and of a cross-fit, whose five members share bins.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import plackett as pk
from plackett.data.dataset import Dataset

THREADS = 2
FREE = "lambdamart, no flags"  # what the flags that make models repeatable cost
QUANTIZED, THEIR_QUANTIZED = "lambdamart, quantized", "lambdarank, quantized"
OURS = ("lambdamart", FREE, QUANTIZED, "e-lambdamart", "e-lambdaloss-mart", "xendcg-mart")
PEERS = {"lambdarank": OURS[:5], "rank_xendcg": ("xendcg-mart",)}
SAME_FLAGS = {"deterministic": True, "force_col_wise": True}
LEARNING_RATE = 0.05
MIN_DOCUMENTS = 50


def ours(name: str, train: Dataset, trees: int, leaves: int, validation: Dataset | None = None) -> Any:
    ranker = pk.recipe(name.split(",")[0], trees=trees, leaves=leaves, min_documents=MIN_DOCUMENTS, threads=THREADS)
    # What is compared is the work per tree: all lists, all features, as the peer does it.
    ranker.set_params(list_fraction=1.0, feature_fraction=1.0, learning_rate=LEARNING_RATE)
    if name == FREE:
        ranker.set_params(lightgbm={"deterministic": False, "force_col_wise": False})
    if name == QUANTIZED:
        ranker.set_params(quantized=True)
    return ranker.fit(train, validation)


def peer(objective: str, train: Dataset, trees: int, leaves: int, flags: dict[str, Any]) -> Any:
    import lightgbm

    data = lightgbm.Dataset(train.features, train.labels, group=np.diff(train.offsets))
    settings: dict[str, Any] = {
        "objective": objective.split(",")[0],
        "num_leaves": leaves,
        "learning_rate": LEARNING_RATE,
        "min_data_in_leaf": MIN_DOCUMENTS,
        # The recipes neither normalise nor leave out pairs; the work should be the same.
        "lambdarank_norm": False,
        "lambdarank_truncation_level": 10_000,
        "num_threads": THREADS,
        "verbosity": -1,
        "metric": "None",
        **flags,
    }
    if objective == THEIR_QUANTIZED:
        settings |= {"use_quantized_grad": True, "num_grad_quant_bins": 16, "quant_train_renew_leaf": True}
    return lightgbm.train(settings, data, trees)


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def compare(options: argparse.Namespace) -> None:
    data = pk.synthetic("web", n_lists=2500, seed=1)
    train, test = pk.split(data, (0.8, 0.2), seed=0)
    print(f"{train.n_docs:,} documents, {options.trees} trees, {THREADS} threads")
    for name in OURS:
        ours(name, train.lists(0, 50), 2, 7)  # compiles
    for leaves in options.leaves:
        for flags in (SAME_FLAGS, {}):
            rows(train, test, leaves, flags, options)


def rows(train: Dataset, test: Dataset, leaves: int, flags: dict[str, Any], options: argparse.Namespace) -> None:
    def work(name: str) -> Callable[[], Any]:
        if name in OURS:
            return lambda: ours(name, train, options.trees, leaves)
        return lambda: peer(name, train, options.trees, leaves, flags)

    best: dict[str, float] = {}
    models: dict[str, Any] = {}
    for _ in range(options.rounds):
        for name in (*PEERS, THEIR_QUANTIZED, *OURS):
            taken, models[name] = seconds(work(name))
            best[name] = min(taken, best.get(name, np.inf))
    print(f"\n{leaves} leaves, LightGBM with {'the same flags' if flags else 'its defaults'}")
    print(f"{'':<22}{'seconds':>9}{'ratio':>8}{'NDCG@10':>9}")
    for against, names in PEERS.items():
        for name in (against, *((THEIR_QUANTIZED,) if against == "lambdarank" else ()), *names):
            model = models[name]
            scores = model.predict(test if name in OURS else test.features)
            ndcg = pk.evaluate(scores, test, "ndcg@10")["ndcg@10"]
            print(f"{name:<22}{best[name]:>9.2f}{best[name] / best[against]:>8.2f}{ndcg:>9.4f}")


def stages(options: argparse.Namespace) -> None:
    """Where a fit spends its time: bins, gradients, the metric after each tree, and the rest, LightGBM's trees."""
    from plackett.models.trees.training import BoostingLoop

    spent = dict.fromkeys(("bins", "gradients", "metric"), 0.0)
    data = pk.synthetic("web", n_lists=2500, seed=1)
    train, validation = pk.split(data, (0.8, 0.2), seed=0)
    methods = {name: getattr(BoostingLoop, name) for name in ("start_step", "finish_step", "_objective")}

    def timed(stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            start = time.process_time()
            result = work(*arguments)
            spent[stage] += time.process_time() - start
            return result

        return run

    def start_step(self: BoostingLoop, booster: Any) -> None:
        if self.step == 0:
            spent["bins"] = time.process_time() - begin
        methods["start_step"](self, booster)

    changed = {
        "start_step": start_step,
        "finish_step": timed("metric", methods["finish_step"]),
        "_objective": lambda self: timed("gradients", methods["_objective"](self)),
    }
    for name in ("lambdamart", QUANTIZED, "e-lambdamart"):
        ours(name, train.lists(0, 50), 2, 7)  # compiles
        spent |= dict.fromkeys(spent, 0.0)
        for method, function in changed.items():
            setattr(BoostingLoop, method, function)
        begin = time.process_time()
        ours(name, train, options.trees, 63, validation)
        total = time.process_time() - begin
        for method, function in methods.items():
            setattr(BoostingLoop, method, function)
        cells = "".join(f"{stage} {s:.2f} s ({s / total:.1%}), " for stage, s in spent.items())
        print(f"{name:<22}{cells}in all {total:.2f} s")
    crossfit_stages(train, options)


def crossfit_stages(train: Dataset, options: argparse.Namespace) -> None:
    """Time of a cross-fit, and of its bins: of all lists once, then a subset for each member."""
    from plackett.models.trees import lightgbm_data

    spent = 0.0
    make = lightgbm_data.make_lightgbm_datasets

    def timed(*arguments: Any) -> Any:
        nonlocal spent
        start = time.process_time()
        result = make(*arguments)
        spent += time.process_time() - start
        return result

    lightgbm_data.make_lightgbm_datasets = timed
    ranker = pk.recipe("lambdamart", trees=options.trees, leaves=63, min_documents=MIN_DOCUMENTS, threads=THREADS)
    begin = time.process_time()
    pk.CrossFit(ranker, folds=5).fit(train)
    total = time.process_time() - begin
    lightgbm_data.make_lightgbm_datasets = make
    print(f"{'cross-fit, 5 members':<22}bins {spent:.2f} s ({spent / total:.1%}), in all {total:.2f} s")


def memory(options: argparse.Namespace) -> None:
    """Peak memory of one fit in a process of its own, which only reads the data from a file."""
    peaks = {}
    with tempfile.TemporaryDirectory() as folder:
        pk.write(pk.synthetic("web", n_lists=2000, seed=1), f"{folder}/web.pkdata")
        for what in ("nothing", "lambdarank", "lambdamart", "e-lambdamart"):
            command = [sys.executable, __file__, "--peak", what, "--data", f"{folder}/web.pkdata"]
            command += ["--trees", str(options.trees)]
            done = subprocess.run(command, capture_output=True, check=True)
            peaks[what] = json.loads(done.stdout)
    print("\npeak memory, MB: above that of a process with the libraries only, and in all")
    base = peaks.pop("nothing")
    for what, peak in peaks.items():
        ratio = peak / peaks["lambdarank"]
        print(f"{what:<14}{peak - base:>9.0f}{peak:>9.0f}   ratio {ratio:.2f}")


def peak(what: str, path: str, trees: int) -> None:
    import lightgbm  # noqa: F401 - so that all processes have the same libraries in memory

    data = pk.read(path)
    if what == "lambdarank":
        peer(what, data, trees, 63, SAME_FLAGS)
    elif what != "nothing":
        ours(what, data, trees, 63)
    # Not getrusage: its peak includes that of the process this one was started from.
    status = Path("/proc/self/status").read_text()
    print(int(status.split("VmHWM:")[1].split()[0]) / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trees", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--leaves", type=int, nargs="+", default=[63, 400])
    parts = ("times", "memory", "stages")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    parser.add_argument("--data", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        peak(options.peak, options.data, options.trees)
        return
    for part in options.only:
        {"times": compare, "memory": memory, "stages": stages}[part](options)


if __name__ == "__main__":
    main()
