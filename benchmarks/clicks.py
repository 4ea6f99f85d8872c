"""Learning from position-biased clicks: how much propensity weights recover.

A weak ranker, trained on a handful of lists, shows the top of each training list to users of the
position-based model (examination 1/rank), with a little noise in its order. Models learn from these
clicks as they are (naive), weighted by the true propensities (given) and by estimated ones (em),
and for comparison from clicks of users who examine every position shown (unbiased), and from the
labels. All are measured by NDCG@10 against the labels of other lists.

    python benchmarks/clicks.py [--lists 250] [--impressions 200] [--seeds 5] [--by query]
        [--clip 0.2] [--only listnet]

The last two columns say how much of the loss that the bias causes, unbiased less naive, the weights
win back.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial

import numpy as np

import plackett as pk
from plackett.data.clicks import PositionModel, Propensities, estimate_by_em, simulate

METRIC = "ndcg@10"
N_TEST, N_LOGGER = 300, 5
TOP, TEMPERATURE, ETA = 20, 0.5, 1.0
SETTINGS = ("labels", "unbiased", "naive", "given", "em")
TRANSFORMS = ("log1p", "standard")


def trees(objective: str) -> pk.TreeRanker:
    return pk.TreeRanker(objective=objective, trees=60, learning_rate=0.1, leaves=16, seed=0, threads=1)


SYSTEMS: dict[str, Callable[[], pk.models.ranker.Ranker]] = {
    "lambdarank, trees": lambda: trees("lambdarank"),
    "xendcg, trees": lambda: trees("xendcg"),
    "listnet, linear": lambda: pk.LinearRanker(objective="listnet", C=10.0, transforms=TRANSFORMS),
}


def parts(n_lists: int, seed: int) -> tuple[pk.Dataset, pk.Dataset, pk.Dataset]:
    """Lists to learn from, for the ranker that is in use, and to measure on."""
    whole = pk.synthetic("web", n_lists=n_lists + N_LOGGER + N_TEST, seed=seed)
    order = np.random.default_rng(seed).permutation(whole.n_lists)
    edges = np.cumsum([n_lists, N_LOGGER])
    train, logger, test = (whole.select(each) for each in np.split(order, edges))
    return train, logger, test


def training_sets(
    train: pk.Dataset, logger: pk.Dataset, given: argparse.Namespace, seed: int
) -> tuple[dict[str, pk.Dataset], Propensities]:
    ranker = pk.LinearRanker(objective="listnet", C=0.1, transforms=TRANSFORMS).fit(logger)
    scores = ranker.predict(train)
    options = {
        "impressions": given.impressions,
        "scores": scores / scores.std(),
        "temperature": TEMPERATURE,
        "top": TOP,
        "seed": seed,
    }
    log = simulate(train, PositionModel(eta=ETA), **options)
    unbiased = simulate(train, PositionModel(eta=0.0), **options)
    found = estimate_by_em(log)
    make = partial(pk.Dataset.from_clicks, by=given.by)
    weighted = partial(make, clip=given.clip)
    sets = {
        "labels": train,
        "unbiased": make(unbiased, train),
        "naive": make(log, train),
        "given": weighted(log, train, propensities=Propensities.power(ETA, TOP)),
        "em": weighted(log, train, propensities=found),
    }
    return sets, found


def measured(sets: dict[str, pk.Dataset], test: pk.Dataset, only: str) -> dict[str, dict[str, float]]:
    result: dict[str, dict[str, float]] = {}
    for name, made in SYSTEMS.items():
        if not name.startswith(only):
            continue
        fitted = {setting: made().fit(sets[setting]) for setting in SETTINGS}
        result[name] = {
            setting: pk.evaluate(ranker.predict(test), test, [METRIC])[METRIC] for setting, ranker in fitted.items()
        }
    return result


def won_back(row: dict[str, float], setting: str) -> float:
    return (row[setting] - row["naive"]) / (row["unbiased"] - row["naive"])


def show(trials: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    head = [*SETTINGS, "given wins back", "em wins back"]
    print(f"\n| {METRIC}, mean of {len(trials)} seeds | {' | '.join(head)} |")
    print(f"|---|{'---|' * len(head)}")
    means = {}
    for name in trials[0]:
        row = {s: float(np.mean([t[name][s] for t in trials])) for s in SETTINGS}
        spread = {s: float(np.std([t[name][s] for t in trials])) for s in SETTINGS}
        cells = [f"{row[s]:.4f} ± {spread[s]:.4f}" for s in SETTINGS]
        shares = [f"{won_back(row, s):.0%}" for s in ("given", "em")]
        print(f"| {name} | {' | '.join(cells + shares)} |")
        means[name] = row
    return means


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lists", type=int, default=250)
    parser.add_argument("--impressions", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--by", choices=("query", "impression"), default="query")
    parser.add_argument("--clip", type=float)
    parser.add_argument("--only", default="", help="Systems whose names begin with this.")
    parser.add_argument("--json")
    given = parser.parse_args()
    trials = []
    for seed in range(given.seeds):
        start = time.perf_counter()
        train, logger, test = parts(given.lists, seed)
        sets, found = training_sets(train, logger, given, seed)
        trials.append(measured(sets, test, given.only))
        error = np.abs(found.values * np.arange(1, TOP + 1) ** ETA - 1.0)
        print(
            f"seed {seed}: {time.perf_counter() - start:.0f} s; estimated propensities are off by "
            f"{np.median(error):.0%} (median over positions), at most {error.max():.0%}",
            flush=True,
        )
        for name, row in trials[-1].items():
            print(f"  {name}: " + ", ".join(f"{s} {v:.4f}" for s, v in row.items()), flush=True)
    means = show(trials)
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"trials": trials, "means": means}, file, indent=1)


if __name__ == "__main__":
    main()
