"""Try settings of cross-fitted trees on validation lists, for the table of trials in docs/results/auto.md.

    python benchmarks/auto_trials.py DATA... [--folds 2] [--documents 12] [--only TEXT] [--store FOLDER]

Each trial is cross-fitted on the training lists of a fold and measured on its validation lists; test
lists are not read. Outcomes are lines of ``trials.jsonl`` in the store, and a rerun goes on where the
last one stopped. The scores of the members are kept beside it, so that other sums can be tried.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

import plackett as pk
from auto_results import STORE, processor_time, read_outcomes
from plackett.models.crossfit import standardize, with_threads
from plackett.models.recipes.search_spaces import with_settings
from plackett.models.trees import TreeRanker, ranker as tree_ranker
from symmetric_trees import SymmetricTrees

METRICS = ("ndcg@5", "ndcg@10")
_SMOOTH = {"lightgbm.path_smooth": 10.0}
_LINEAR = {"C": tuple(10.0**k for k in range(-4, 4))}
_QUICK_NET = {"learning_rate": 1e-3, "batch_lists": 8, "epochs": 40, "patience": 8}
_LOSS = "e-lambdaloss-mart"
TRIALS: dict[str, tuple[Any, dict[str, Any], int]] = {
    "as it is": (_LOSS, {}, 5),
    "path_smooth 10": (_LOSS, _SMOOTH, 5),
    "lambda_l2 10": (_LOSS, {"lightgbm.lambda_l2": 10.0}, 5),
    "one sample for the gradient": (_LOSS, {"objective.samples": 1}, 5),
    "e-xendcg": ("e-xendcg-mart", {}, 5),
    "e-xendcg, path_smooth 10": ("e-xendcg-mart", _SMOOTH, 5),
    "CatBoost": ("catboost-yetirank", {}, 5),
    "stopped on the next part": (_LOSS, {}, 5),
    "8 members, stopped on the next part": (_LOSS, {}, 8),
    "10 members, stopped on the next part": (_LOSS, {}, 10),
    "10 members": (_LOSS, {}, 10),
    "10 members, half of the lists per tree": (_LOSS, {"list_fraction": 0.5}, 10),
    "yetirank": ("yetirank-mart", {}, 5),
    "symmetric trees": (SymmetricTrees(objective=pk.recipe(_LOSS).objective), {}, 5),
    "symmetric trees, yetirank": (SymmetricTrees(), {}, 5),
    "extra_trees": (_LOSS, {"lightgbm.extra_trees": True}, 5),
    "depth 6": (_LOSS, {"leaves": 64, "lightgbm.max_depth": 6}, 5),
    "depth 6, lambda_l2 10": (_LOSS, {"leaves": 64, "lightgbm.max_depth": 6, "lightgbm.lambda_l2": 10.0}, 5),
    "16 leaves": (_LOSS, {"leaves": 16}, 5),
    "16 leaves, path_smooth 30": (_LOSS, {"leaves": 16, "lightgbm.path_smooth": 30.0}, 5),
    "32 leaves, path_smooth 30": (_LOSS, {"leaves": 32, "lightgbm.path_smooth": 30.0}, 5),
    "32 leaves, path_smooth 100": (_LOSS, {"leaves": 32, "lightgbm.path_smooth": 100.0}, 5),
    "features drawn per node": (_LOSS, {"lightgbm.feature_fraction_bynode": 0.5}, 5),
    "Bayesian bootstrap of lists": (_LOSS, {"list_fraction": 0.5}, 5),
    "learning rate .03": (_LOSS, {"learning_rate": 0.03}, 5),
    "path_smooth 10, extra_trees": (_LOSS, _SMOOTH | {"lightgbm.extra_trees": True}, 5),
    "list-means": (_LOSS, {}, 5),
    "list-context": (_LOSS, {}, 5),
    "e-xendcg, path_smooth 10, list-context": ("e-xendcg-mart", _SMOOTH, 5),
    "CatBoost, list-context": ("catboost-yetirank", {}, 5),
    "uRank": ("urank", _QUICK_NET, 5),
    "uRank, list-context": ("urank", _QUICK_NET, 5),
    "LambdaLoss net": ("lambdaloss-net", _QUICK_NET | {"dropout": 0.1}, 5),
    "LambdaLoss net, list-context": ("lambdaloss-net", _QUICK_NET | {"dropout": 0.1}, 5),
    "e-lambdamart, path_smooth 10": ("e-lambdamart", _SMOOTH, 5),
    "e-lambdamart, path_smooth 10, list-context": ("e-lambdamart", _SMOOTH, 5),
    "E[ApproxNDCG] net": ("e-approxndcg-net", _QUICK_NET, 5),
    "E[ApproxNDCG] net, list-context": ("e-approxndcg-net", _QUICK_NET, 5),
    "ListNet, linear": ("listnet-linear", _LINEAR, 5),
    "ListNet, linear, list-context": ("listnet-linear", _LINEAR, 5),
}
TRANSFORMS = ("list-means", "list-context")
BOOTSTRAP = "Bayesian bootstrap of lists"
NEXT = "stopped on the next part"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--folds", type=int, default=2, help="folds of each data set to use")
    parser.add_argument("--documents", type=int, help="shorten lists to this many documents, drawn at random")
    parser.add_argument("--only", default="", help="only trials whose name contains this")
    parser.add_argument("--store", type=Path, default=STORE)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in TRIALS:
        for path in options.data:
            for number in range(options.folds):
                key = (set_name(path, options.documents), number, name)
                known = {(t["data"], t["fold"], t["trial"]) for t in read_outcomes(options.store, "trials.jsonl")}
                if options.only in name and key not in known:
                    _run(options.store, path, number, name, options.documents)


def set_name(path: Path, documents: int | None) -> str:
    """How tables call a data set."""
    return path.name if documents is None else f"{path.name}, {documents} documents a list"


def shorten(data: pk.Dataset, documents: int) -> pk.Dataset:
    """Keep at most this many documents of each list; the draw depends on the list only, not on its fold."""
    kept = []
    for start, stop in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        rng = np.random.default_rng(abs(hash(float(data.features[start].sum()))) % 2**32)
        kept.append(np.sort(start + rng.permutation(stop - start)[:documents]))
    rows = np.concatenate(kept)
    return pk.Dataset.from_arrays(data.features[rows], data.labels[rows], data.query_ids[rows])


def _run(store: Path, path: Path, number: int, name: str, documents: int | None = None) -> None:
    fold = pk.read_folds(path)[number]
    train, data = fold.train, fold.validation
    if documents is not None:
        train, data = shorten(train, documents), shorten(data, documents)
    recipe, settings, folds = TRIALS[name]
    ranker = with_settings(pk.recipe(recipe), settings) if isinstance(recipe, str) else recipe
    ranker = with_threads(ranker, 1)
    start = processor_time()
    if name == BOOTSTRAP:
        tree_ranker.sample_lists, saved = _weigh_lists, tree_ranker.sample_lists
    stop_on = "next" if name.endswith(NEXT) else "held-out"
    transforms = tuple(transform for transform in TRANSFORMS if name.endswith(transform))
    crossfit = pk.CrossFit(ranker, folds=folds, stop_on=stop_on, transforms=transforms)
    crossfit.fit(train, metric="ndcg@10")
    if name == BOOTSTRAP:
        tree_ranker.sample_lists = saved
    seconds = processor_time() - start
    prepared = crossfit._prepare(data)
    scores = np.stack([m.predict(prepared) / s for m, s in zip(crossfit.members_, crossfit.scales_, strict=True)])
    file = store / "trial-scores" / f"{set_name(path, documents)}-{number}-{name}.npy"
    file.parent.mkdir(parents=True, exist_ok=True)
    np.save(file, scores)
    single = [pk.per_list(row, data, list(METRICS)) for row in scores]
    whole = {how: pk.per_list(combine(scores, data, how), data, list(METRICS)) for how in ("scale", "list", "rank")}
    trees = [m._ensemble.n_trees for m in crossfit.members_ if isinstance(m, TreeRanker)]
    outcome = {
        "data": set_name(path, documents),
        "fold": number,
        "trial": name,
        "seconds": round(seconds, 1),
        "trees": float(np.mean(trees)) if trees else None,
        "single": {m: _plain(np.mean([row[m] for row in single], axis=0)) for m in METRICS},
        **{how: {m: _plain(v) for m, v in values.items()} for how, values in whole.items()},
    }
    with (store / "trials.jsonl").open("a") as lines:
        lines.write(json.dumps(outcome) + "\n")
    print(
        set_name(path, documents),
        number,
        name,
        *(f"{np.nanmean(whole['scale'][m]):.4f}" for m in METRICS),
        f"{seconds:.0f} s",
        flush=True,
    )


def combine(scores: np.ndarray, data: pk.Dataset, how: str) -> np.ndarray:
    """The sum of members: of scores, of scores standardized in each list, or of ranks."""
    order = data.order
    if how == "scale":
        return scores.sum(axis=0)
    if how == "list":
        return sum(order.restore(standardize(order.sort(row), order.offsets)) for row in scores)
    return sum(order.restore(_ranks(order.sort(row), order.offsets)) for row in scores)


def _ranks(scores: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    lists = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((scores, lists))
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(len(scores)) - np.repeat(offsets[:-1], np.diff(offsets))
    return ranks


def _weigh_lists(gradients: Any, offsets: np.ndarray, keys: np.ndarray, *, fraction: float, seed: int) -> Any:  # noqa: ARG001
    """Weigh the lists of each tree by draws from the exponential distribution, as CatBoost does."""

    def weighted(scores: Any, step: int) -> tuple[Any, Any]:
        gradient, curvature = gradients(scores, step)
        draws = np.random.default_rng([seed, step]).exponential(size=len(keys)).astype(np.float32)
        weights = np.repeat(draws, np.diff(offsets))
        return gradient * weights, curvature * weights

    return weighted


def _plain(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(x) else round(float(x), 6) for x in values]


if __name__ == "__main__":
    main()
