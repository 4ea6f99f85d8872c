"""What a comparison costs beyond the fits it consists of.

Run ``python benchmarks/comparing.py``; ``--help`` lists the options. Three tree systems are
compared over folds of the built-in web-search set, in this process, with every step of ``plackett
compare``: the forecast, the trials with their durable store, the tests of significance, the
tables and the report. The time beyond the sum of the fits' own times is what the comparison adds.
It is given as wall time, which other programs lengthen, and as processor time, which counts every
core.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import plackett as pk
from plackett.experiments.compare import run_plan
from plackett.experiments.plan import Plan, forecast, plan_comparison
from plackett.experiments.report.write import write_files
from plackett.experiments.store import RunStore

MODELS = ("lambdamart", "xendcg-mart", "listnet-mart")


class Timed(pk.TreeRanker):
    """Adds up the processor time of its fits."""

    spent: ClassVar[float] = 0.0

    def fit(self, *arguments: Any, **options: Any) -> pk.TreeRanker:
        start = time.process_time()
        try:
            return super().fit(*arguments, **options)
        finally:
            Timed.spent += time.process_time() - start


def measure(plan: Plan, folder: Path) -> dict[str, float]:
    """Seconds of each stage, and of the fits alone."""
    marks = [time.perf_counter()]
    began = time.process_time()
    with RunStore(folder / "runs.db") as store:
        expected = forecast(plan, store=store).seconds
        marks.append(time.perf_counter())
        Timed.spent = 0.0  # the fits of the forecast are no part of the comparison
        found = run_plan(plan, store=store, scratch=folder)
        marks.append(time.perf_counter())
        fits = sum(store.finished(job.identity for job in plan.trials).values())
    write_files(found, folder)
    marks.append(time.perf_counter())
    processor = time.process_time() - began - Timed.spent
    stages = zip(("forecast", "trials and tests", "report"), pairwise(marks), strict=True)
    seconds = {name: end - start for name, (start, end) in stages}
    overhead = marks[-1] - marks[0] - fits
    used = {"processor fits": Timed.spent, "processor overhead": processor}
    return seconds | {"expected": expected, "fits": fits, "overhead": overhead} | used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lists", type=int, default=1000)
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--folds", type=int, default=5)
    arguments = parser.parse_args()
    data = pk.synthetic("web", n_lists=arguments.lists, seed=0)
    systems = {
        name: Timed().set_params(**pk.recipe(name, trees=arguments.trees, patience=arguments.trees).get_params())
        for name in MODELS
    }
    for ranker in systems.values():  # compile what is compiled once
        ranker.clone().set_params(trees=1).fit(data.lists(0, 20), data.lists(20, 40))
    plan = plan_comparison(data, systems, protocol=f"folds:{arguments.folds}")
    with tempfile.TemporaryDirectory() as folder:
        seconds = measure(plan, Path(folder))
    shares = {
        "share": round(seconds["overhead"] / seconds["fits"], 4),
        "processor share": round(seconds["processor overhead"] / seconds["processor fits"], 4),
    }
    rounded = {name: round(value, 3) for name, value in seconds.items()}
    print(json.dumps({"trials": len(plan.trials), **rounded, **shares}))


if __name__ == "__main__":
    main()
