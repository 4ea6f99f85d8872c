"""From LETOR text on disk to an evaluated model at the size of MSLR-WEB30K, beside LightGBM, XGBoost and CatBoost.

    python benchmarks/end_to_end.py --folder DIR [--scale 1] [--trees 100] [--figure end_to_end.svg]

The synthetic web set with 18,900 training, 6,300 validation and 6,300 test lists: 3.77 million
documents, 136 features, about 4 GB of text. Each system runs in a process of its own, on all
processors: it reads the text with its own reader, bins the features, grows 100 trees of 64 leaves
with early stopping on NDCG@10 of the validation lists, scores the test lists, and NDCG@10 and ERR
are computed. LambdaRank takes pairs with one of the top 30 documents, LightGBM's default. Where a
library reads and bins in one go, or bins inside its training, the time is in the stage named.

What favors the peers: LightGBM cannot read query ids in this format, so it gets a copy without
them and a file of list sizes; labels and query ids of the test lists come from a NumPy file, and our
metrics measure all systems. Times: wall clock and processor seconds; memory: the peak of the
process. The files, twice the size of the text, stay in the folder for the next run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

LISTS = {"train": 18_900, "vali": 6_300, "test": 6_300}
STAGES = ("read", "bin", "train", "score", "evaluate")
METRICS = ["ndcg@10", "err"]
LEAVES, RATE, MIN_DOCUMENTS, PATIENCE, TRUNCATION = 64, 0.1, 50, 20, 30
SYSTEMS = ("plackett", "plackett, quantized", "lightgbm", "lightgbm, quantized", "xgboost", "catboost")


def make(folder: Path, scale: float) -> None:
    """Write the text, LightGBM's copy of it, and the labels and query ids of the test lists."""
    import plackett as pk

    done = folder / "scale.json"
    if done.exists() and json.loads(done.read_text()) == scale:
        return
    done.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, n_lists) in enumerate(LISTS.items()):
        data = pk.synthetic("web", n_lists=max(round(n_lists * scale), 5), seed=seed)
        path = folder / f"{name}.txt"
        pk.write(data, path)
        np.savez(folder / f"{name}.npz", labels=data.labels, query_ids=data.query_ids)
        copy = folder / f"{name}.lightgbm"
        copy.with_name(f"{copy.name}.query").write_text("\n".join(map(str, np.diff(data.offsets))))
        del data
        with path.open("rb") as text, copy.open("wb") as out:
            for line in text:
                label, _, features = line.split(b" ", 2)
                out.write(label + b" " + features)
    done.write_text(json.dumps(scale))


class Clock:
    """Wall and processor seconds of each stage."""

    def __init__(self) -> None:
        self.stages: dict[str, tuple[float, float]] = {}
        self._last = self._now()

    def _now(self) -> tuple[float, float]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return time.perf_counter(), used.ru_utime + used.ru_stime

    def skip(self) -> None:
        """Leave out the time since the end of the last stage."""
        self._last = self._now()

    def end(self, stage: str) -> None:
        now = self._now()
        wall, processor = self.stages.get(stage, (0.0, 0.0))
        self.stages[stage] = wall + now[0] - self._last[0], processor + now[1] - self._last[1]
        self._last = now


Result = tuple[Any, int]
"""Scores of the test lists, and the number of trees."""


def run_plackett(folder: Path, trees: int, clock: Clock, *, quantized: bool) -> Result:
    import plackett as pk
    from plackett.models.trees.training import BoostingLoop

    train, validation, test = (pk.read(folder / f"{name}.txt") for name in LISTS)
    clock.end("read")
    start_step = BoostingLoop.start_step

    def first_step(self: BoostingLoop, booster: Any) -> None:
        clock.end("bin")
        BoostingLoop.start_step = start_step  # type: ignore[method-assign]
        start_step(self, booster)

    BoostingLoop.start_step = first_step  # type: ignore[method-assign]
    ranker = pk.TreeRanker(
        pk.objectives.LambdaRank(truncation=TRUNCATION),
        trees=trees,
        leaves=LEAVES,
        learning_rate=RATE,
        min_documents=MIN_DOCUMENTS,
        patience=PATIENCE,
        quantized=quantized,
    )
    ranker.fit(train, validation, metric="ndcg@10")
    clock.end("train")
    scores = ranker.predict(test)
    clock.end("score")
    return scores, ranker.best_step_ or 0


def run_lightgbm(folder: Path, trees: int, clock: Clock, *, quantized: bool) -> Result:
    import lightgbm

    settings = {
        "objective": "lambdarank",
        "lambdarank_truncation_level": TRUNCATION,
        "metric": "ndcg",
        "eval_at": [10],
        "num_leaves": LEAVES,
        "learning_rate": RATE,
        "min_data_in_leaf": MIN_DOCUMENTS,
        "verbosity": -1,
    }
    if quantized:
        settings |= {"use_quantized_grad": True, "num_grad_quant_bins": 16, "quant_train_renew_leaf": True}
    train = lightgbm.Dataset(str(folder / "train.lightgbm"), params=settings)
    validation = train.create_valid(str(folder / "vali.lightgbm"))
    validation.construct()
    clock.end("read")  # and bin
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    booster = lightgbm.train(settings, train, trees, valid_sets=[validation], callbacks=[stop])
    clock.end("train")
    scores = booster.predict(str(folder / "test.lightgbm"))
    clock.end("score")  # and read
    return scores, booster.best_iteration or trees


def run_xgboost(folder: Path, trees: int, clock: Clock) -> Result:
    import xgboost

    train, validation, test = (xgboost.DMatrix(f"{folder / name}.txt?format=libsvm") for name in LISTS)
    clock.end("read")
    settings = {
        "objective": "rank:ndcg",
        "eval_metric": "ndcg@10",
        "tree_method": "hist",
        "grow_policy": "lossguide",
        "max_leaves": LEAVES,
        "max_depth": 0,
        "eta": RATE,
        "verbosity": 0,
    }
    booster = xgboost.train(
        settings, train, trees, evals=[(validation, "vali")], early_stopping_rounds=PATIENCE, verbose_eval=False
    )
    clock.end("train")  # and bin
    scores = booster.predict(test, iteration_range=(0, booster.best_iteration + 1))
    clock.end("score")
    return scores, booster.best_iteration + 1


def run_catboost(folder: Path, trees: int, clock: Clock) -> Result:
    import catboost

    train, validation, test = (catboost.Pool(f"libsvm://{folder / name}.txt") for name in LISTS)
    clock.end("read")
    model = catboost.CatBoost(
        {
            "loss_function": "QueryRMSE",  # the fastest of its ranking losses
            "eval_metric": "NDCG:top=10;type=Exp",
            "depth": 6,  # symmetric trees of 64 leaves
            "iterations": trees,
            "learning_rate": RATE,
            "od_type": "Iter",
            "od_wait": PATIENCE,
            "verbose": 0,
            "allow_writing_files": False,
        }
    )
    model.fit(train, eval_set=validation)
    clock.end("train")  # and bin
    scores = model.predict(test)
    clock.end("score")
    return scores, model.tree_count_


RUNS: dict[str, Callable[..., Result]] = {
    "plackett": lambda *a: run_plackett(*a, quantized=False),
    "plackett, quantized": lambda *a: run_plackett(*a, quantized=True),
    "lightgbm": lambda *a: run_lightgbm(*a, quantized=False),
    "lightgbm, quantized": lambda *a: run_lightgbm(*a, quantized=True),
    "xgboost": run_xgboost,
    "catboost": run_catboost,
}


def run(system: str, folder: Path, trees: int) -> None:
    """Run one system in this process and print its record."""
    warnings.simplefilter("ignore")
    clock = Clock()
    scores, n_trees = RUNS[system](folder, trees, clock)
    import plackett as pk

    with np.load(folder / "test.npz") as test:
        labels, query_ids = test["labels"], test["query_ids"]
    pk.evaluate(labels[:10], np.arange(10.0), query_ids[:10], METRICS)  # peers need not wait for our imports
    clock.skip()
    values = pk.evaluate(labels, np.asarray(scores), query_ids, METRICS)
    clock.end("evaluate")
    # Not getrusage: its peak includes that of the process this one was started from.
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 2**20
    print(json.dumps({"system": system, "stages": clock.stages, "trees": n_trees, "peak": peak, "metrics": values}))


def show(records: list[dict[str, Any]]) -> None:
    print(f"\n{'seconds, wall':<22}" + "".join(f"{s:>10}" for s in (*STAGES, "total", "processor")), end="")
    print(f"{'GiB':>7}{'trees':>7}{'NDCG@10':>9}{'ERR':>8}")
    for record in records:
        walls = [record["stages"].get(stage, (0.0, 0.0))[0] for stage in STAGES]
        processor = sum(both[1] for both in record["stages"].values())
        cells = "".join(f"{wall:>10.1f}" if wall else f"{'':>10}" for wall in walls)
        print(f"{record['system']:<22}{cells}{sum(walls):>10.1f}{processor:>10.1f}{record['peak']:>7.2f}", end="")
        ndcg, err = record["metrics"].values()
        print(f"{record['trees']:>7}{ndcg:>9.4f}{err:>8.4f}")
    ours = [total(r) for r in records if r["system"].startswith("plackett")]
    peers = [total(r) for r in records if not r["system"].startswith("plackett")]
    if ours and peers:
        print(f"wall time of the fastest peer over ours: {min(peers) / min(ours):.2f}")
    for system, first in (("", "plackett"), (", quantized", "plackett, quantized")):
        seconds = {r["system"]: sum(both[1] for both in r["stages"].values()) for r in records}
        if {first, f"lightgbm{system}"} <= seconds.keys():
            ratio = seconds[f"lightgbm{system}"] / seconds[first]
            print(f"processor time of lightgbm{system} over ours: {ratio:.2f}")


def total(record: dict[str, Any]) -> float:
    return sum(wall for wall, _ in record["stages"].values())


def draw(records: list[dict[str, Any]], path: Path) -> None:
    """Stacked bars: processor seconds of the stages of each system, which other work on the machine hardly changes."""
    from plackett.experiments.figures import COLORS, style

    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 0.9 + 0.36 * len(records)))
        axes = figure.subplots()
        names = [record["system"] for record in records]
        left = np.zeros(len(records))
        for stage, color in zip(STAGES, COLORS, strict=False):
            widths = np.array([record["stages"].get(stage, (0.0, 0.0))[1] for record in records])
            axes.barh(names, widths, left=left, color=color, label=stage, height=0.6)
            left += widths
        for place, record in enumerate(records):
            axes.text(left[place], place, f" {left[place]:.0f} s, {record['peak']:.1f} GiB", va="center", fontsize=8)
        axes.set_xlim(0, 1.25 * left.max())
        axes.invert_yaxis()
        axes.set_xlabel("processor seconds")
        axes.grid(axis="x")
        figure.legend(loc="outside upper left", ncols=len(STAGES), fontsize=8)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="for the text: 9 GB at full scale")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the lists")
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--json", type=Path, help="file for the records; those of other systems in it are kept")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(options.run, options.folder, options.trees)
        return
    make(options.folder, options.scale)
    records = {}
    if options.json and options.json.exists():
        records = {record["system"]: record for record in json.loads(options.json.read_text())}
    for system in options.systems:
        command = [sys.executable, __file__, "--run", system, "--folder", str(options.folder)]
        command += ["--trees", str(options.trees)]
        variables = {"OMP_WAIT_POLICY": "passive", **os.environ}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=variables)
        records[system] = json.loads(done.stdout.strip().splitlines()[-1])
        print(f"{system}: {total(records[system]):.1f} s, load {os.getloadavg()[0]:.1f}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(list(records.values()), indent=1))
    ordered = [records[system] for system in SYSTEMS if system in records]
    show(ordered)
    if options.figure:
        draw(ordered, options.figure)


if __name__ == "__main__":
    main()
