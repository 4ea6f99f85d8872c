"""Random ensembles, awkward features, and scores by the libraries' rules in plain Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from plackett.models.ensembles import Ensemble
from plackett.models.ensembles.ensemble import Tree, assemble

N_FEATURES = 4
TINY = float(np.float32(1e-35))
# 31 and 32 lie in two words of a set; 2**31 is the first number that an int cannot hold.
SIZES = [0.0, -0.0, 1e-36, -1e-36, TINY, -TINY, 1.5e-35, 1e-45, 3.4e38, -3.4e38]
CATEGORIES = [-0.5, -1.0, -1.5, 1.0, 2.7, 31.0, 32.0, 63.9, 95.0, 1e9, 2.0**24, 2.0**31]
SPECIAL = np.array([*SIZES, *CATEGORIES, np.inf, -np.inf, np.nan], np.float32)
NUMERIC_DECISIONS = (0, 2, 4, 6, 8, 10)
NAN_DECISIONS = (8, 10)


def random_children(rng: np.random.Generator, n_leaves: int) -> tuple[Any, Any]:
    """Children of a tree grown by splitting leaves; nodes but the root are in random order."""
    n = n_leaves - 1
    left, right = np.zeros(n, np.int32), np.zeros(n, np.int32)
    place: list[tuple[Any, int]] = [(np.zeros(1, np.int32), 0)]
    number = np.concatenate([[0], 1 + rng.permutation(max(n - 1, 0))])
    for node in number[:n].tolist():
        # Sometimes the newest leaf, so that some trees are deep.
        at = len(place) - 1 if rng.random() < 0.3 else int(rng.integers(len(place)))
        side, parent = place[at]
        side[parent] = node
        place[at] = (left, node)
        place.append((right, node))
    for leaf, at in enumerate(rng.permutation(n_leaves).tolist()):
        side, parent = place[at]
        side[parent] = ~leaf
    return left, right


def random_tree(rng: np.random.Generator, n_leaves: int, library: str, categories: bool) -> Tree:
    """A tree of any shape with decisions of all kinds that the library knows."""
    n = n_leaves - 1
    left, right = random_children(rng, n_leaves)
    categorical = rng.random(n) < 0.3 if categories else np.zeros(n, bool)
    allowed = NUMERIC_DECISIONS if library == "lightgbm" else NAN_DECISIONS
    sizes = rng.integers(0, 4, int(categorical.sum()))
    chosen = np.full(n, -1, np.int32)
    chosen[categorical] = rng.permutation(len(sizes))
    return Tree(
        feature=rng.integers(0, N_FEATURES, n).astype(np.int32),
        threshold=thresholds(rng, n, library),
        decision=(rng.choice(allowed, n) + categorical).astype(np.uint8),
        left=left,
        right=right,
        category_set=chosen,
        leaf_values=rng.normal(size=n_leaves).astype(np.float32).astype(np.float64),
        set_offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        sets=rng.integers(0, 2**32, int(sizes.sum()), np.uint32),
    )


def thresholds(rng: np.random.Generator, n: int, library: str) -> Any:
    """Thresholds at, or one step of float64 beside, numbers that features take."""
    ordered = SPECIAL[~np.isnan(SPECIAL)]
    result = np.where(rng.random(n) < 0.5, rng.choice(ordered, n), rng.normal(size=n))
    result = np.append(result, 1e300)[: n + 1][rng.permutation(n + 1)][:n]
    if library == "xgboost":
        return result.clip(-3e38, 3e38).astype(np.float32).astype(np.float64)
    return np.where(rng.random(n) < 0.5, result, np.nextafter(result, rng.choice([-np.inf, np.inf])))


def random_ensemble(seed: int, sizes: list[int], *, library: Any = "lightgbm", categories: bool = True) -> Ensemble:
    """Trees of the given numbers of leaves."""
    rng = np.random.default_rng(seed)
    return assemble(
        [random_tree(rng, size, library, categories) for size in sizes],
        library=library,
        n_features=N_FEATURES,
        base_score=0.25 if library == "xgboost" else 0.0,
    )


def awkward_features(ensemble: Ensemble, n_docs: int, seed: int) -> Any:
    """Values equal to thresholds, their float32 neighbours, and special numbers."""
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore", under="ignore"):
        near = ensemble.threshold.astype(np.float32)
        pool = np.concatenate(
            [
                SPECIAL,
                near,
                np.nextafter(near, np.float32(-np.inf)),
                np.nextafter(near, np.float32(np.inf)),
                rng.normal(size=20).astype(np.float32),
                np.arange(0, 130, 7, dtype=np.float32),
            ]
        )
    return rng.choice(pool, (n_docs, ensemble.n_features)).astype(np.float32)


def plain_scores(ensemble: Ensemble, features: Any) -> Any:
    """Scores by the rules, one node after the other."""
    precision: Any = np.float32 if ensemble.library == "xgboost" else np.float64
    scores = np.full(len(features), ensemble.base_score, precision)
    for i, row in enumerate(features.tolist()):
        for tree in range(ensemble.n_trees):
            first, node = int(ensemble.node_offsets[tree]), 0
            if ensemble.node_offsets[tree + 1] == first:
                node = -1
            while node >= 0:
                at = first + node
                node = int((ensemble.left if goes_left(ensemble, at, row) else ensemble.right)[at])
            scores[i] += precision(ensemble.leaf_values[ensemble.leaf_offsets[tree] + ~node])
    return scores.astype(np.float64)


def goes_left(ensemble: Ensemble, at: int, row: list[float]) -> bool:
    x, bits = row[int(ensemble.feature[at])], int(ensemble.decision[at])
    categorical, default_left, missing = bool(bits & 1), bool(bits & 2), bits >> 2
    if ensemble.library == "xgboost":
        if math.isnan(x):
            return default_left
        if categorical:
            return 0 <= x < 2**24 and member(ensemble, at, int(x))
        return x <= float(ensemble.threshold[at])
    if abs(x) <= TINY:
        x = 0.0
    if categorical:
        return math.isfinite(x) and 0 <= int(x) < 2**31 and member(ensemble, at, int(x))
    if math.isnan(x) and missing != 2:
        x = 0.0
    if (missing == 1 and abs(x) <= TINY) or (missing == 2 and math.isnan(x)):
        return default_left
    return x <= float(ensemble.threshold[at])


def member(ensemble: Ensemble, at: int, category: int) -> bool:
    chosen = int(ensemble.category_set[at])
    words = ensemble.sets[ensemble.set_offsets[chosen] : ensemble.set_offsets[chosen + 1]]
    return category // 32 < len(words) and bool(int(words[category // 32]) >> category % 32 & 1)
