"""What quantized gradients and fewer samples of noise bring and cost: NDCG@10 over five seeds.

    python benchmarks/fast_trees.py [--data OHSUMED MQ2007 ...] [--seeds 5]

Each data folder has LETOR's folds; seed s trains on four fifths of a fold's training lists, stops on
the fifth, and is measured on the fold's validation lists: test lists are not read. The synthetic web
set is always measured. ``quantized`` is 16 bins with exact leaf values; both forms then use all
features, because LightGBM cannot quantize with a sample of them. Milliseconds are processor time per
tree, with trees of patience.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import plackett as pk
from plackett.data.dataset import Dataset

ALL = {"feature_fraction": 1.0}
SYSTEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "lambdamart": ("lambdamart", ALL),
    "lambdamart, quantized": ("lambdamart", ALL | {"quantized": True}),
    "xendcg-mart": ("xendcg-mart", ALL),
    "xendcg-mart, quantized": ("xendcg-mart", ALL | {"quantized": True}),
    "e-lambdamart, 8 samples": ("e-lambdamart", {}),
    "e-lambdamart, 4 samples": ("e-lambdamart", {"samples": 4}),
    "e-lambdamart, 2 samples": ("e-lambdamart", {"samples": 2}),
}
PATIENCE = 40


def lists_of(folder: Path | None, seed: int) -> tuple[Dataset, Dataset, Dataset]:
    """Lists to train on, to stop on and to measure on."""
    if folder is None:
        train, stop, measured = pk.split(pk.synthetic("web", n_lists=500, seed=seed), (0.5, 0.15, 0.35), seed=0)
        return train, stop, measured
    folds = pk.read_folds(folder)
    fold = folds[seed % len(folds)]
    train, stop = pk.split(fold.train, (0.8, 0.2), seed=seed)
    return train, stop, fold.validation


def fit(system: str, seed: int, train: Dataset, stop: Dataset) -> tuple[Any, float]:
    """A fitted ranker and its milliseconds per tree."""
    recipe, settings = SYSTEMS[system]
    ranker = pk.recipe(recipe, seed=seed, trees=250, learning_rate=0.1, patience=PATIENCE)
    settings = dict(settings)
    if "samples" in settings:
        settings["objective"] = replace(ranker.objective, samples=settings.pop("samples"))
    ranker.set_params(**settings)
    start = time.process_time()
    ranker.fit(train, stop)
    return ranker, 1000 * (time.process_time() - start) / (ranker.best_step_ + PATIENCE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for folder in (*options.data, None):
        values: dict[str, list[float]] = {system: [] for system in SYSTEMS}
        costs: dict[str, list[float]] = {system: [] for system in SYSTEMS}
        for seed in range(options.seeds):
            train, stop, measured = lists_of(folder, seed)
            for system in SYSTEMS:
                ranker, cost = fit(system, seed, train, stop)
                values[system].append(pk.evaluate(ranker.predict(measured), measured)["ndcg@10"])
                costs[system].append(cost)
        print(f"\n{'synthetic web set' if folder is None else folder.name}, {options.seeds} seeds")
        print(f"{'':<26}{'NDCG@10':>9}{'difference':>12}{'deviation':>11}{'ms/tree':>9}")
        for system in SYSTEMS:
            base = "e-lambdamart, 8 samples" if "samples" in system else system.split(",")[0]
            differences = np.subtract(values[system], values[base])
            print(f"{system:<26}{np.mean(values[system]):>9.4f}", end="")
            spread = differences.std(ddof=1) if options.seeds > 1 else 0.0
            print(f"{differences.mean():>+12.4f}{spread:>11.4f}{np.mean(costs[system]):>9.1f}")


if __name__ == "__main__":
    main()
