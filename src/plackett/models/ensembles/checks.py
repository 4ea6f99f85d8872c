"""What makes arrays an ensemble of trees.

Model files come from anywhere. Nothing in them is trusted: compiled loops index by what stands
here, so that every index is checked once, before the first of them runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.models.ensembles.decisions import (
    CATEGORICAL,
    KNOWN_BITS,
    MISSING_NAN,
    missing_type,
)
from plackett.models.ensembles.order import Order, depth_first

if TYPE_CHECKING:
    from plackett.models.ensembles.ensemble import Ensemble

LIBRARIES = ("lightgbm", "xgboost")
_MOST = np.iinfo(np.int32).max

_OF_NODES: dict[str, Any] = {
    "feature": np.int32,
    "threshold": np.float64,
    "decision": np.uint8,
    "left": np.int32,
    "right": np.int32,
    "category_set": np.int32,
}
_OTHERS: dict[str, Any] = {
    "nodes": np.int64,
    "leaves": np.int64,
    "leaf_values": np.float64,
    "set_offsets": np.int64,
    "sets": np.uint32,
}


def check(ensemble: Ensemble) -> Order:
    """Refuse what is not an ensemble of trees; return the order of its nodes."""
    if ensemble.library not in LIBRARIES:
        raise DataError(f"library {ensemble.library!r}; known are {', '.join(LIBRARIES)}.")
    if not 0 <= ensemble.n_features <= _MOST:
        raise DataError(f"{ensemble.n_features} features; 0 to {_MOST} are allowed.")
    names = ensemble.feature_names
    if names is not None and len(names) != ensemble.n_features:
        raise DataError(f"{len(names)} feature names for {ensemble.n_features} features.")
    if not np.isfinite(ensemble.base_score):
        raise DataError(f"base score {ensemble.base_score}; it must be finite.")
    _check_types(ensemble)
    _check_sizes(ensemble)
    _check_decisions(ensemble)
    _check_children(ensemble)
    return _check_trees(ensemble)


def _check_types(ensemble: Ensemble) -> None:
    for name, dtype in {**_OF_NODES, **_OTHERS}.items():
        array = getattr(ensemble, name)
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype != dtype:
            raise DataError(f"{name} must be a one-dimensional array of {np.dtype(dtype)}.")
        if len(array) > _MOST:
            raise DataError(f"{name} has {len(array)} entries; {_MOST} are allowed.")


def _check_offsets(name: str, offsets: NDArray[np.int64], total: int) -> None:
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != total or (np.diff(offsets) < 0).any():
        raise DataError(f"{name} must rise from 0 to {total}.")


def _check_sizes(ensemble: Ensemble) -> None:
    n_nodes = len(ensemble.feature)
    for name in _OF_NODES:
        if len(getattr(ensemble, name)) != n_nodes:
            found = len(getattr(ensemble, name))
            raise DataError(f"{name} has {found} entries for {n_nodes} inner nodes.")
    _check_offsets("nodes", ensemble.nodes, n_nodes)
    _check_offsets("leaves", ensemble.leaves, len(ensemble.leaf_values))
    _check_offsets("set_offsets", ensemble.set_offsets, len(ensemble.sets))
    if len(ensemble.leaves) != len(ensemble.nodes):
        raise DataError("nodes and leaves must have the same length.")
    inner, leaves = np.diff(ensemble.nodes), np.diff(ensemble.leaves)
    wrong = np.flatnonzero(leaves != inner + 1)
    if len(wrong):
        t = wrong[0]
        raise DataError(
            f"tree {t} has {inner[t]} inner nodes and {leaves[t]} leaves; a binary tree has one "
            "leaf more than inner nodes."
        )


def _refuse(ensemble: Ensemble, wrong: NDArray[np.bool_], what: str, values: Any) -> None:
    """Name the first inner node where something is wrong."""
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        tree = int(np.searchsorted(ensemble.nodes, at, side="right")) - 1
        node = at - int(ensemble.nodes[tree])
        raise DataError(f"tree {tree}, node {node}: {what}, got {values[at]}.")


def _check_decisions(ensemble: Ensemble) -> None:
    feature, decision, chosen = ensemble.feature, ensemble.decision, ensemble.category_set
    outside = (feature < 0) | (feature >= ensemble.n_features)
    allowed = f"split features must be 0 to {ensemble.n_features - 1}"
    _refuse(ensemble, outside, allowed, feature)
    unknown = ((decision & ~np.uint8(KNOWN_BITS)) != 0) | (missing_type(decision) > MISSING_NAN)
    _refuse(ensemble, unknown, "unknown decision type", decision)
    categorical = (decision & CATEGORICAL) != 0
    n_sets = len(ensemble.set_offsets) - 1
    outside = categorical & ((chosen < 0) | (chosen >= n_sets))
    _refuse(ensemble, outside, f"sets of categories must be 0 to {n_sets - 1}", chosen)
    _refuse(ensemble, ~categorical & (chosen != -1), "a node without categories has set -1", chosen)
    unordered = ~categorical & np.isnan(ensemble.threshold)
    _refuse(ensemble, unordered, "thresholds must be numbers", ensemble.threshold)


def _check_children(ensemble: Ensemble) -> None:
    counts = np.diff(ensemble.nodes)
    n_nodes = np.repeat(counts, counts)
    for name in ("left", "right"):
        child = getattr(ensemble, name)
        outside = (child >= n_nodes) | (child < -(n_nodes + 1))
        _refuse(ensemble, outside, f"its {name} child is not in the tree", child)


def _check_trees(ensemble: Ensemble) -> Order:
    wrong = np.flatnonzero(~np.isfinite(ensemble.leaf_values))
    if len(wrong):
        tree = int(np.searchsorted(ensemble.leaves, wrong[0], side="right")) - 1
        leaf = int(wrong[0] - ensemble.leaves[tree])
        value = ensemble.leaf_values[wrong[0]]
        raise DataError(f"tree {tree}, leaf {leaf}: leaf values must be finite, got {value}.")
    order, tree, node = depth_first(
        ensemble.nodes, ensemble.leaves, left=ensemble.left, right=ensemble.right
    )
    if tree >= 0:
        n_nodes = int(ensemble.nodes[tree + 1] - ensemble.nodes[tree])
        what = f"node {node}" if node < n_nodes else f"leaf {node - n_nodes}"
        raise DataError(
            f"tree {tree}, {what}: in a tree every node but the root has exactly one parent; this "
            "one has none or several."
        )
    return order
