r"""An ensemble of regression trees: flat arrays, checked when they are put together.

The score of a document is the base score plus the value of the leaf it reaches in each tree, added in the order of the
trees. Shrinkage is already part of the leaf values. At an inner node the document goes left if :math:`x \le t`, or if
its category is in the node's set; *decision* bits say what happens to missing values, encoded as in LightGBM:

=====  =====================================================================================
bit    meaning
=====  =====================================================================================
0      a set of categories decides, not a threshold
1      missing values go left
2, 3   what is missing: 0 nothing (NaN is read as zero), 1 zero and NaN, 2 NaN
=====  =====================================================================================

The rules of the libraries differ; ``library`` selects them.

================================  ===============  ===============  ===============
rule                              ``lightgbm``     ``xgboost``      ``catboost``
================================  ===============  ===============  ===============
sums                              float64          float32          float64
float64 features                  as they are      as float32       as float32
values up to 1e-35 in size        zero             themselves       themselves
categories between -1 and 0       category 0       no category      not read
absent entries of a sparse row    zero             missing          zero
================================  ===============  ===============  ===============

Model files are not trusted. Compiled loops use the arrays as indices, so every index is checked once,
before the first loop runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.ragged import Scores, offsets_from_sizes
from plackett.models.ensembles import scoring

LIBRARIES = ("lightgbm", "xgboost", "catboost")
_MAX_COUNT = np.iinfo(np.int32).max

_NODE_TYPES: dict[str, Any] = {
    "feature": np.int32,
    "threshold": np.float64,
    "decision": np.uint8,
    "left": np.int32,
    "right": np.int32,
    "category_set": np.int32,
}
_OTHER_TYPES: dict[str, Any] = {
    "node_offsets": np.int64,
    "leaf_offsets": np.int64,
    "leaf_values": np.float64,
    "set_offsets": np.int64,
    "sets": np.uint32,
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Ensemble:
    """Regression trees in flat arrays.

    Arrays over inner nodes hold those of the first tree, then those of the second, and so on;
    children are counted within their tree. Construction makes the arrays read-only without copying
    them, and raises :class:`~plackett.base.errors.DataError` if they do not describe trees.

    Parameters
    ----------
    library
        The library whose rules apply: ``lightgbm``, ``xgboost`` or ``catboost``.
    n_features
        Number of features.
    node_offsets, leaf_offsets
        Offsets of each tree's inner nodes and leaves, one more than trees.
    feature, threshold, decision
        Of each inner node; the threshold of a node with categories is ignored.
    left, right
        Children of each inner node: ``c >= 0`` is an inner node of the same tree, ``~c`` a leaf.
    category_set
        The set of each inner node, or -1.
    leaf_values
        Value of each leaf.
    set_offsets, sets
        Words of each set of categories; bit b of word w stands for category 32 w + b.
    base_score
        The constant from which the sum for each document starts.
    feature_names
        If known.
    """

    library: Literal["lightgbm", "xgboost", "catboost"]
    n_features: int
    node_offsets: NDArray[np.int64]
    leaf_offsets: NDArray[np.int64]
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
        object.__setattr__(self, "_order", _check(self))

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.node_offsets) - 1

    def predict(self, features: Any, *, n_threads: int | None = None) -> Scores:
        """Score documents; the result does not depend on the number of threads.

        Parameters
        ----------
        features
            One row per document: an array or a SciPy sparse matrix. Arrays of float32 take the fast path. LightGBM's
            models compare float64 values, the others round them to float32 first, as the libraries do.
        n_threads
            Maximum number of threads; by default Numba's.

        Returns
        -------
        scores
            float64, equal to ``Booster.predict(features, raw_score=True)`` of LightGBM, or
            ``output_margin=True`` of XGBoost, or CatBoost's raw values.
        """
        return scoring.score(self, features, n_threads=n_threads)

    @cached_property
    def layout(self) -> scoring.Layout:
        """The arrays that the compiled loops read."""
        order: scoring.TreeOrder = self.__dict__["_order"]
        return scoring.make_layout(self, order)

    def __repr__(self) -> str:
        largest = int(np.diff(self.leaf_offsets).max(initial=0))
        return f"Ensemble({self.library}, {self.n_trees} trees of up to {largest} leaves, {self.n_features} features)"


class Tree(NamedTuple):
    """Arrays of one tree, as in :class:`~plackett.models.ensembles.Ensemble`."""

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
    library: Literal["lightgbm", "xgboost", "catboost"],
    n_features: int,
    feature_names: tuple[str, ...] | None = None,
    base_score: float = 0.0,
) -> Ensemble:
    """Join trees; sets of categories get numbers that are unique in the ensemble."""
    for number, tree in enumerate(trees):
        _check_tree(tree, number)
    return _join(
        trees,
        [len(tree.feature) for tree in trees],
        [len(tree.leaf_values) for tree in trees],
        [tree.leaf_values for tree in trees],
        library=library,
        n_features=n_features,
        feature_names=feature_names,
        base_score=base_score,
    )


def merge(ensembles: Sequence[tuple[Ensemble, float]]) -> Ensemble:
    """One ensemble whose score is the sum of several of the same library, each times its factor."""
    first = ensembles[0][0]
    parts = [ensemble for ensemble, _ in ensembles]
    if any((e.library, e.n_features) != (first.library, first.n_features) for e in parts):
        raise DataError("only ensembles of one library and number of features can be merged.")
    return _join(
        parts,
        np.concatenate([np.diff(part.node_offsets) for part in parts]),
        np.concatenate([np.diff(part.leaf_offsets) for part in parts]),
        [ensemble.leaf_values * factor for ensemble, factor in ensembles],
        library=first.library,
        n_features=first.n_features,
        feature_names=first.feature_names,
        base_score=float(sum(ensemble.base_score * factor for ensemble, factor in ensembles)),
    )


def _join(
    parts: Sequence[Tree | Ensemble], n_nodes: Any, n_leaves: Any, values: Sequence[NDArray[Any]], **rest: Any
) -> Ensemble:
    """One ensemble of all parts, given the sizes of their trees; sets are numbered over all of them."""
    types = {**_NODE_TYPES, "sets": np.uint32}
    arrays: dict[str, Any] = {
        name: _concatenate([getattr(part, name) for part in parts], dtype) for name, dtype in types.items()
    }
    first_set = offsets_from_sizes([len(part.set_offsets) - 1 for part in parts])
    first_word = offsets_from_sizes([len(part.sets) for part in parts])
    numbers = [np.where(p.category_set < 0, -1, p.category_set + n) for p, n in zip(parts, first_set, strict=False)]
    arrays["category_set"] = _concatenate(numbers, np.int32)
    ends = [part.set_offsets[1:] + first for part, first in zip(parts, first_word, strict=False)]
    return Ensemble(
        node_offsets=offsets_from_sizes(n_nodes),
        leaf_offsets=offsets_from_sizes(n_leaves),
        leaf_values=_concatenate(values, np.float64),
        set_offsets=_concatenate([np.zeros(1, np.int64), *ends], np.int64),
        **arrays,
        **rest,
    )


def numeric_tree(
    feature: NDArray[Any],
    threshold: NDArray[np.float64],
    nan_left: NDArray[np.bool_],
    children: NDArray[Any],
    values: NDArray[np.float64],
) -> Tree:
    """A tree without categories; ``children`` has a left and a right one for each node."""
    return Tree(
        feature=feature,
        threshold=threshold,
        decision=scoring.decision_bits(np.zeros(len(feature), np.bool_), nan_left, scoring.MISSING_NAN),
        left=children[:, 0].astype(np.int32),
        right=children[:, 1].astype(np.int32),
        category_set=np.full(len(feature), -1, np.int32),
        leaf_values=values,
        set_offsets=np.zeros(1, np.int64),
        sets=np.empty(0, np.uint32),
    )


def collect_nodes(
    root: Any, read: Callable[[Any], tuple[Any, tuple[Any, Any] | None]]
) -> tuple[list[Any], NDArray[np.int64], list[Any]]:
    """Splits, children and leaves of nested nodes, without recursion.

    ``read`` returns what a node holds, and its left and right part; None if it is a leaf.
    """
    splits: list[Any] = []
    children: list[list[int]] = []
    leaves: list[Any] = []
    todo: list[tuple[Any, int, int]] = [(root, -1, 0)]
    while todo:
        node, parent, side = todo.pop()
        content, parts = read(node)
        if parts is None:
            number = ~len(leaves)
            leaves.append(content)
        else:
            number = len(splits)
            splits.append(content)
            children.append([0, 0])
            todo += [(parts[1], number, 1), (parts[0], number, 0)]
        if parent >= 0:
            children[parent][side] = number
    return splits, np.array(children, np.int64).reshape(-1, 2), leaves


def _check_tree(tree: Tree, number: int) -> None:
    """Raise DataError if the arrays of a tree do not match, before they are joined with others."""
    n_nodes = len(tree.leaf_values) - 1
    for name in _NODE_TYPES:
        count = len(getattr(tree, name))
        if count != n_nodes:
            raise DataError(
                f"tree {number}: {name} has {count} entries for {n_nodes + 1} leaves; a binary "
                "tree has one leaf more than inner nodes."
            )
    _check_offsets(f"tree {number}: offsets of its sets", tree.set_offsets, len(tree.sets))


def _concatenate(parts: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype)


def _check(ensemble: Ensemble) -> scoring.TreeOrder:
    """Raise DataError if the arrays do not describe trees; return the order of their nodes."""
    if ensemble.library not in LIBRARIES:
        raise DataError(f"library {ensemble.library!r}; known are {', '.join(LIBRARIES)}.")
    if not 0 <= ensemble.n_features <= _MAX_COUNT:
        raise DataError(f"{ensemble.n_features} features; 0 to {_MAX_COUNT} are allowed.")
    names = ensemble.feature_names
    if names is not None and len(names) != ensemble.n_features:
        raise DataError(f"{len(names)} feature names for {ensemble.n_features} features.")
    if not np.isfinite(ensemble.base_score):
        raise DataError(f"base score {ensemble.base_score}; it must be finite.")
    _check_types(ensemble)
    _check_sizes(ensemble)
    _check_nodes(ensemble)
    return _check_trees(ensemble)


def _check_types(ensemble: Ensemble) -> None:
    for name, dtype in {**_NODE_TYPES, **_OTHER_TYPES}.items():
        array = getattr(ensemble, name)
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype != dtype:
            raise DataError(f"{name} must be a one-dimensional array of {np.dtype(dtype)}.")
        if len(array) > _MAX_COUNT:
            raise DataError(f"{name} has {len(array)} entries; {_MAX_COUNT} are allowed.")


def _check_offsets(name: str, offsets: NDArray[np.int64], total: int) -> None:
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != total or (np.diff(offsets) < 0).any():
        raise DataError(f"{name} must rise from 0 to {total}.")


def _check_sizes(ensemble: Ensemble) -> None:
    n_nodes = len(ensemble.feature)
    for name in _NODE_TYPES:
        if (count := len(getattr(ensemble, name))) != n_nodes:
            raise DataError(f"{name} has {count} entries for {n_nodes} inner nodes.")
    _check_offsets("node_offsets", ensemble.node_offsets, n_nodes)
    _check_offsets("leaf_offsets", ensemble.leaf_offsets, len(ensemble.leaf_values))
    _check_offsets("set_offsets", ensemble.set_offsets, len(ensemble.sets))
    if len(ensemble.leaf_offsets) != len(ensemble.node_offsets):
        raise DataError("node_offsets and leaf_offsets must have the same length.")
    inner, leaves = np.diff(ensemble.node_offsets), np.diff(ensemble.leaf_offsets)
    wrong = np.flatnonzero(leaves != inner + 1)
    if len(wrong):
        t = wrong[0]
        raise DataError(
            f"tree {t} has {inner[t]} inner nodes and {leaves[t]} leaves; a binary tree has one "
            "leaf more than inner nodes."
        )


def _raise_if(ensemble: Ensemble, wrong: NDArray[np.bool_], rule: str, values: Any) -> None:
    """Raise DataError that names the first inner node for which ``wrong`` is true."""
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        tree = int(np.searchsorted(ensemble.node_offsets, at, side="right")) - 1
        node = at - int(ensemble.node_offsets[tree])
        raise DataError(f"tree {tree}, node {node}: {rule}, got {values[at]}.")


def _check_nodes(ensemble: Ensemble) -> None:
    feature, decision, sets = ensemble.feature, ensemble.decision, ensemble.category_set
    outside = (feature < 0) | (feature >= ensemble.n_features)
    allowed = f"split features must be 0 to {ensemble.n_features - 1}"
    _raise_if(ensemble, outside, allowed, feature)
    unknown = ((decision & ~np.uint8(scoring.KNOWN_BITS)) != 0) | (scoring.missing_type(decision) > scoring.MISSING_NAN)
    _raise_if(ensemble, unknown, "unknown decision type", decision)
    categorical = (decision & scoring.CATEGORICAL) != 0
    n_sets = len(ensemble.set_offsets) - 1
    outside = categorical & ((sets < 0) | (sets >= n_sets))
    _raise_if(ensemble, outside, f"sets of categories must be 0 to {n_sets - 1}", sets)
    _raise_if(ensemble, ~categorical & (sets != -1), "a node without categories has set -1", sets)
    unordered = ~categorical & np.isnan(ensemble.threshold)
    _raise_if(ensemble, unordered, "thresholds must be numbers", ensemble.threshold)
    counts = np.diff(ensemble.node_offsets)
    n_nodes = np.repeat(counts, counts)
    for name in ("left", "right"):
        child = getattr(ensemble, name)
        outside = (child >= n_nodes) | (child < -(n_nodes + 1))
        _raise_if(ensemble, outside, f"its {name} child is not in the tree", child)


def _check_trees(ensemble: Ensemble) -> scoring.TreeOrder:
    wrong = np.flatnonzero(~np.isfinite(ensemble.leaf_values))
    if len(wrong):
        tree = int(np.searchsorted(ensemble.leaf_offsets, wrong[0], side="right")) - 1
        leaf = int(wrong[0] - ensemble.leaf_offsets[tree])
        value = ensemble.leaf_values[wrong[0]]
        raise DataError(f"tree {tree}, leaf {leaf}: leaf values must be finite, got {value}.")
    return scoring.depth_first(ensemble.node_offsets, ensemble.leaf_offsets, left=ensemble.left, right=ensemble.right)
