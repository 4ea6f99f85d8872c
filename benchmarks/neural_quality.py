"""How well the neural recipes rank OHSUMED and MQ2007: five folds, several seeds, paired tests.

    python benchmarks/neural_quality.py run DATA --out runs.jsonl     # may be killed and run again
    python benchmarks/neural_quality.py page DATA --out runs.jsonl --page docs/results/neural.md

DATA is a folder with OHSUMED and MQ2007_partial. Each (set, system, seed, fold) is one line of the
file and is not run again; ``--worker 0/2`` and ``--worker 1/2`` share the work. Weights are chosen
on the validation part of each fold; the test part is only scored.
"""

from __future__ import annotations

import argparse
import base64
import json
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import plackett as pk
from neural_systems import METRICS, SIDE, SYSTEMS, System
from plackett.data.folds import Fold

Job = tuple[str, str, int, int]
"""Set, system, seed, number of the fold."""


def jobs(options: argparse.Namespace) -> Iterator[Job]:
    """Everything to run, seed by seed, so that whole seeds are left when it is stopped."""
    main = [name for name in options.systems if name not in SIDE]
    side = [name for name in options.systems if name in SIDE]
    for seed in range(options.seeds):
        for name in options.sets:
            yield from ((name, system, seed, fold) for system in main for fold in range(5))
    for seed in range(options.side_seeds if "OHSUMED" in options.sets else 0):
        yield from (("OHSUMED", system, seed, fold) for system in side for fold in range(5))


def done(path: Path) -> set[Job]:
    return {(r["set"], r["system"], r["seed"], r["fold"]) for r in records(path)}


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of the file; one that a killed process left half written is passed over."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("}\n"):
                yield json.loads(line)


def packed(scores: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(scores.astype(np.float32).tobytes())).decode()


def unpacked(text: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), np.float32)


def run(options: argparse.Namespace) -> None:
    import torch

    torch.set_num_threads(1)
    folds: dict[str, list[Fold]] = {}
    mine, of = (int(part) for part in options.worker.split("/"))
    finished = done(options.out)
    for place, job in enumerate(jobs(options)):
        if place % of != mine or job in finished:
            continue
        name, system, seed, fold = job
        if name not in folds:
            folds[name] = pk.read_folds(options.data / name)
        record = {"set": name, "system": system, "seed": seed, "fold": fold}
        record |= one_run(SYSTEMS[system], folds[name][fold], name, seed)
        with options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def one_run(system: System, fold: Fold, name: str, seed: int) -> dict[str, Any]:
    ranker = system.make(name, seed)
    start = time.process_time()
    ranker.fit(fold.train, fold.validation, metric=system.metric)
    seconds = time.process_time() - start
    scores = system.score(ranker, fold)
    learned = {}
    if isinstance(ranker, (pk.NeuralRanker, pk.BoostedNeuralRanker)):
        curve = ranker.curves_["validation"]["ndcg@5"] if "ndcg@5" in system.metric else []
        learned = {"epochs": ranker.epochs_, "nets": len(ranker.networks_)}
        learned |= {"curve": [round(value, 4) for value in curve]}
    return {
        "seconds": round(seconds, 2),
        **learned,
        "test": {m: round(v, 5) for m, v in pk.evaluate(scores, fold.test, METRICS).items()},
        "scores": packed(scores),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["run", "page"])
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=["OHSUMED", "MQ2007_partial"])
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--side-seeds", type=int, default=3, help="of the side studies")
    parser.add_argument("--worker", default="0/1")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--speed", type=Path, help="what neural.py --json printed, for the page")
    options = parser.parse_args()
    if options.command == "run":
        run(options)
        return
    from neural_page import page

    found = [r | {"scores": unpacked(r["scores"])} for r in records(options.out)]
    figures = None if options.page is None else options.page.parent
    text = page(found, options.data, speed=options.speed, figures=figures)
    print(text) if options.page is None else options.page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
