"""How well tree recipes rank beside LightGBM's, XGBoost's and CatBoost's own rankers.

    python benchmarks/quality.py choose DATA --out choice.jsonl  # each may be killed and run again
    python benchmarks/quality.py run DATA --out runs.jsonl
    python benchmarks/quality.py page DATA --out runs.jsonl --choice choice.jsonl --page PAGE.md

DATA is a folder with data sets in folds. Each (set, system, seed, fold) is one line of the file and
is not run again; ``--worker 0/2`` and ``--worker 1/2`` share the work. Everything is chosen on the
validation part of a fold; the test part is only scored. ``choose`` compares recipes without any
test list: it stops on a quarter of the training lists and scores the validation part.
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
from plackett.data.folds import Fold
from quality_systems import SYSTEMS

Job = tuple[str, str, int, int]
"""Set, system, seed, number of the fold."""
FOLDS = 5


def jobs(options: argparse.Namespace) -> Iterator[Job]:
    """Everything to run, seed by seed, so that an early stop leaves whole seeds."""
    for seed in range(options.seeds):
        for name in options.sets:
            for system in options.systems or SYSTEMS:
                for fold in range(FOLDS):
                    yield name, system, seed, fold


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of the file; one that a killed process left half written is passed over."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("}\n"):
                record = json.loads(line)
                packed = zlib.decompress(base64.b64decode(record["scores"]))
                yield record | {"scores": np.frombuffer(packed, np.float64)}


def run(options: argparse.Namespace) -> None:
    folds: dict[str, list[Fold]] = {}
    mine, of = (int(part) for part in options.worker.split("/"))
    finished = {(r["set"], r["system"], r["seed"], r["fold"]) for r in records(options.out)}
    for place, job in enumerate(jobs(options)):
        if place % of != mine or job in finished:
            continue
        name, system, seed, fold = job
        if name not in folds:
            folds[name] = pk.read_folds(options.data / name)
            if options.command == "choose":
                folds[name] = [_without_test(each) for each in folds[name]]
        start = time.process_time()
        found = SYSTEMS[system](folds[name][fold], seed)
        found["seconds"] = round(time.process_time() - start, 2)
        scores = zlib.compress(found["scores"].astype(np.float64).tobytes())
        found["scores"] = base64.b64encode(scores).decode()
        record = {"set": name, "system": system, "seed": seed, "fold": fold, **found}
        with options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def _without_test(fold: Fold) -> Fold:
    """A fold that stops on a quarter of its training lists and is judged by its validation part."""
    train, stop = pk.split(fold.train, (0.75, 0.25), seed=0)
    return Fold(fold.name, train, stop, fold.validation)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["choose", "run", "page"])
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=["OHSUMED", "MQ2007_partial"])
    parser.add_argument("--systems", nargs="+", choices=list(SYSTEMS), metavar="SYSTEM")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--worker", default="0/1")
    parser.add_argument("--choice", type=Path, help="page: what choose has found")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    if options.command != "page":
        run(options)
        return
    from quality_page import page

    choice = list(records(options.choice)) if options.choice else []
    text = page(list(records(options.out)), choice, options.data)
    print(text) if options.page is None else options.page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
