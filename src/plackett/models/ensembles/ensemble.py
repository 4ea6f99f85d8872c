r"""An ensemble of regression trees as a value: flat arrays, checked once, scored at once.

The score of a document is the base score plus the value of the leaf it reaches in each tree, added
in the order of the trees. Shrinkage is already part of the leaf values. At an inner node the
document goes left if :math:`x \le t`, or if its category is in the node's set; *decision* bits say
what happens to missing values, in LightGBM's spelling:

=====  =====================================================================================
bit    meaning
=====  =====================================================================================
0      a set of categories decides, not a threshold
1      missing values go left
2, 3   what is missing: 0 nothing (NaN is read as zero), 1 zero and NaN, 2 NaN
=====  =====================================================================================

Two libraries differ in more than the file: ``library`` says whose rules hold.

================================  ===========================  ==============================
rule                              ``lightgbm``                 ``xgboost``
================================  ===========================  ==============================
sums                              float64                      float32
values up to 1e-35 in size        zero                         themselves
categories between -1 and 0       category 0                   no category
absent entries of a sparse row    zero                         missing
================================  ===========================  ==============================

What makes arrays an ensemble of trees.

Model files come from anywhere. Nothing in them is trusted: compiled loops index by what stands
here, so that every index is checked once, before the first of them runs.

Trees one by one, as files hold them, joined into one ensemble.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.ragged import Scores
from plackett.models.ensembles.layout import (
    CATEGORICAL,
    KNOWN_BITS,
    MISSING_NAN,
    Layout,
    Order,
    depth_first,
    lay_out,
    missing_type,
)
from plackett.models.ensembles.scoring import score

LIBRARIES = ("lightgbm", "xgboost")
_MOST = np.iinfo(np.int32).max

_NODE_TYPES: dict[str, Any] = {
    "feature": np.int32,
    "threshold": np.float64,
    "decision": np.uint8,
    "left": np.int32,
    "right": np.int32,
    "category_set": np.int32,
}
_OTHER_TYPES: dict[str, Any] = {
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
    for name, dtype in {**_NODE_TYPES, **_OTHER_TYPES}.items():
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
    for name in _NODE_TYPES:
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


@dataclass(frozen=True, eq=False, kw_only=True)
class Ensemble:
    """Regression trees in flat arrays.

    Arrays over inner nodes hold those of the first tree, then those of the second, and so on;
    children are counted within their tree. Construction copies nothing but makes the arrays
    read-only, and raises :class:`~plackett.base.errors.DataError` on anything that is not a tree.

    Parameters
    ----------
    library
        Whose rules hold, ``lightgbm`` or ``xgboost``.
    n_features
        Columns of the features it scores.
    nodes, leaves
        Offsets of each tree's inner nodes and leaves, one more than trees.
    feature, threshold, decision
        Of each inner node; the threshold of a node with categories is not looked at.
    left, right
        Children of each inner node: ``c >= 0`` is an inner node of the same tree, ``~c`` a leaf.
    category_set
        The set of each inner node, or -1.
    leaf_values
        Of each leaf.
    set_offsets, sets
        Words of each set of categories; bit b of word w stands for category 32 w + b.
    base_score
        Added first.
    feature_names
        If known.
    """

    library: Literal["lightgbm", "xgboost"]
    n_features: int
    nodes: NDArray[np.int64]
    leaves: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    decision: NDArray[np.uint8]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    category_set: NDArray[np.int32]
    leaf_values: NDArray[np.float64]
    set_offsets: NDArray[np.int64]
    sets: NDArray[np.uint32]
    base_score: float = 0.0
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                value = np.ascontiguousarray(value).view()
                value.flags.writeable = False
                object.__setattr__(self, name, value)
        object.__setattr__(self, "_order", check(self))

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.nodes) - 1

    def predict(self, features: Any, *, n_threads: int | None = None) -> Scores:
        """Scores of documents, the same to the bit on any number of threads.

        Parameters
        ----------
        features
            One row per document: an array or a SciPy sparse matrix. Arrays of float32 take the
            fast path. For LightGBM's models, float64 values are compared as they are, as LightGBM
            does; for XGBoost's they are rounded to float32 first, as XGBoost does.
        n_threads
            Threads at most; None takes Numba's number.

        Returns
        -------
        scores
            What ``Booster.predict(features, raw_score=True)`` of LightGBM gives, or
            ``output_margin=True`` of XGBoost; float64.
        """
        return score(self, features, n_threads=n_threads)

    @cached_property
    def layout(self) -> Layout:
        """Questions and trees in the form that the compiled loops read."""
        order: Order = self.__dict__["_order"]
        return lay_out(self, order)

    def __repr__(self) -> str:
        largest = int(np.diff(self.leaves).max(initial=0))
        return (
            f"Ensemble({self.library}, {self.n_trees} trees of up to {largest} leaves, "
            f"{self.n_features} features)"
        )


_NODE_FIELDS = ("feature", "threshold", "decision", "left", "right", "category_set")


class Tree(NamedTuple):
    """Arrays of one tree; :class:`~plackett.models.ensembles.Ensemble` says what they mean."""

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    decision: NDArray[np.uint8]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    category_set: NDArray[np.int32]
    leaf_values: NDArray[np.float64]
    set_offsets: NDArray[np.int64]
    sets: NDArray[np.uint32]


def assemble(
    trees: Sequence[Tree],
    *,
    library: Literal["lightgbm", "xgboost"],
    n_features: int,
    feature_names: tuple[str, ...] | None = None,
    base_score: float = 0.0,
) -> Ensemble:
    """Join trees; sets of categories are renumbered over all trees."""
    for number, tree in enumerate(trees):
        _check_tree(tree, number)
    category_sets, set_offsets = _renumbered(trees)
    return Ensemble(
        library=library,
        n_features=n_features,
        nodes=_offsets([len(tree.feature) for tree in trees]),
        leaves=_offsets([len(tree.leaf_values) for tree in trees]),
        feature=_joined([tree.feature for tree in trees], np.int32),
        threshold=_joined([tree.threshold for tree in trees], np.float64),
        decision=_joined([tree.decision for tree in trees], np.uint8),
        left=_joined([tree.left for tree in trees], np.int32),
        right=_joined([tree.right for tree in trees], np.int32),
        category_set=_joined(category_sets, np.int32),
        leaf_values=_joined([tree.leaf_values for tree in trees], np.float64),
        set_offsets=set_offsets,
        sets=_joined([tree.sets for tree in trees], np.uint32),
        base_score=base_score,
        feature_names=feature_names,
    )


def _renumbered(trees: Sequence[Tree]) -> tuple[list[NDArray[Any]], NDArray[np.int64]]:
    """Set of each node counted over all trees, and the words of all sets."""
    first_set = _offsets([len(tree.set_offsets) - 1 for tree in trees])
    first_word = _offsets([len(tree.sets) for tree in trees])
    category_sets = [
        np.where(tree.category_set < 0, tree.category_set, tree.category_set + first)
        for tree, first in zip(trees, first_set, strict=False)
    ]
    ends = [tree.set_offsets[1:] + first for tree, first in zip(trees, first_word, strict=False)]
    return category_sets, _joined([np.zeros(1, np.int64), *ends], np.int64)


def _check_tree(tree: Tree, number: int) -> None:
    """Refuse arrays that do not fit each other, before they are joined with others."""
    n_nodes = len(tree.leaf_values) - 1
    for name in _NODE_FIELDS:
        found = len(getattr(tree, name))
        if found != n_nodes:
            raise DataError(
                f"tree {number}: {name} has {found} entries for {n_nodes + 1} leaves; a binary "
                "tree has one leaf more than inner nodes."
            )
    offsets, n_words = tree.set_offsets, len(tree.sets)
    if (
        not len(offsets)
        or offsets[0] != 0
        or offsets[-1] != n_words
        or (np.diff(offsets) < 0).any()
    ):
        raise DataError(f"tree {number}: offsets of its sets must rise from 0 to {n_words}.")


def _offsets(sizes: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _joined(parts: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype)
