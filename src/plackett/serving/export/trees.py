r"""Trees in the representation from which every target is written.

A document goes left if :math:`x \le t`, with x and t float32, or if x is missing and the node sends missing values
left. For float32 features this covers all trees of LightGBM and XGBoost except sets of categories:

- a float64 threshold gives the same answers as the largest float32 not above it;
- XGBoost's :math:`x < t` is :math:`x \le t'` with the float32 below t;
- LightGBM reads values up to 1e-35 in size as zero, so a threshold in this range is moved to its limit;
- if a LightGBM node has no missing values, it reads NaN as zero: NaN goes to the same side as zero.

Thresholds are clipped to the finite float32 numbers. At nodes that send all other numbers to one side, the
lowest or the largest float32 number may then go to the other side.

Thresholds on transformed features become thresholds on the features themselves. Every transform of single features is
increasing, so :math:`T(x) \le t` is :math:`x \le t'` with t' the largest float32 for which it holds. Bisection over the
ordered float32 numbers finds it in 33 steps, exactly, whatever rounding the transform does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import UsageError
from plackett.base.ragged import offsets_from_sizes
from plackett.data.transforms import FittedTransform
from plackett.models.ensembles import Ensemble, scoring

LARGEST = np.finfo(np.float32).max
TINY = np.float32(1e-35)
"""LightGBM reads values up to this size as zero."""
_CONCATENATED = ("feature", "threshold", "nan_left", "left", "right", "values")


@dataclass(frozen=True, eq=False, kw_only=True)
class Trees:
    """Regression trees; arrays are laid out as in :class:`~plackett.models.ensembles.Ensemble`."""

    n_features: int
    node_offsets: NDArray[np.int64]
    leaf_offsets: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    nan_left: NDArray[np.bool_]
    """For each inner node, whether a missing value goes left."""
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    values: NDArray[np.float64]
    base: float = 0.0
    """Added to every score."""

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.node_offsets) - 1

    @property
    def nan_differs_from_zero(self) -> NDArray[np.bool_]:
        """For each inner node, whether a missing value goes to another side than zero."""
        return self.nan_left != (self.threshold >= 0)

    def scale(self, factor: float) -> Trees:
        """The same trees with scores times ``factor``."""
        return replace(self, values=self.values * factor, base=self.base * factor)

    def with_base_as_tree(self) -> Trees:
        """The same trees with the base score as a first tree of one leaf."""
        if self.base == 0.0:
            return self
        return replace(
            self,
            node_offsets=np.concatenate([[0], self.node_offsets]),
            leaf_offsets=np.concatenate([[0], self.leaf_offsets + 1]),
            values=np.concatenate([[self.base], self.values]),
            base=0.0,
        )


def concatenate(trees: Sequence[Trees]) -> Trees:
    """Join several ensembles into one whose score is their sum."""
    return Trees(
        n_features=trees[0].n_features,
        node_offsets=offsets_from_sizes(np.concatenate([np.diff(part.node_offsets) for part in trees])),
        leaf_offsets=offsets_from_sizes(np.concatenate([np.diff(part.leaf_offsets) for part in trees])),
        base=float(sum(part.base for part in trees)),
        **{name: np.concatenate([getattr(part, name) for part in trees]) for name in _CONCATENATED},
    )


def from_ensemble(ensemble: Ensemble) -> Trees:
    """Convert an ensemble; raise UsageError if it has sets of categories, or zeros that break the order of values."""
    if (ensemble.decision & scoring.CATEGORICAL).any():
        raise UsageError(
            "the model has splits on categories, which this target does not support; export it as "
            "lightgbm-text, or fit it without categorical features."
        )
    threshold = to_float32_threshold(ensemble.threshold)
    if ensemble.library == "lightgbm":  # move thresholds to the limits of the values that it reads as zero
        is_tiny, is_below = np.abs(ensemble.threshold) <= TINY, ensemble.threshold < 0
        threshold = np.where(is_tiny, np.where(is_below, np.nextafter(-TINY, np.float32(-np.inf)), TINY), threshold)
    return Trees(
        n_features=ensemble.n_features,
        node_offsets=ensemble.node_offsets,
        leaf_offsets=ensemble.leaf_offsets,
        feature=ensemble.feature,
        threshold=threshold,
        nan_left=_nan_left(ensemble, zero_left=threshold >= 0),
        left=ensemble.left,
        right=ensemble.right,
        values=ensemble.leaf_values,
        base=ensemble.base_score,
    )


def _nan_left(ensemble: Ensemble, *, zero_left: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether each node sends missing values left; zeros that count as missing go with them."""
    default_left = (ensemble.decision & scoring.DEFAULT_LEFT) != 0
    missing = scoring.missing_type(ensemble.decision)
    out_of_order = (missing == scoring.MISSING_ZERO) & (default_left != zero_left)
    if out_of_order.any():
        raise UsageError(
            "the model was fitted with zero_as_missing and sends zeros against the order of "
            f"values at {int(out_of_order.sum())} splits; only lightgbm-text supports that."
        )
    return np.where(missing == scoring.MISSING_NAN, default_left, zero_left)


def to_float32_threshold(threshold: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest finite float32 that is not above each threshold."""
    return np.clip(scoring.round_down(threshold), -LARGEST, LARGEST)


def next_above(threshold: NDArray[np.float32]) -> NDArray[np.float32]:
    """The thresholds t' for which x < t' equals x <= t, for float32 x."""
    with np.errstate(over="ignore", under="ignore"):
        above = np.nextafter(threshold, np.float32(np.inf))
    return np.minimum(above, LARGEST)


_STEPS = 33  # bisections of the 2^32 float32 numbers


def undo_transforms(trees: Trees, transforms: Sequence[FittedTransform]) -> Trees:
    """Convert trees on transformed features to trees on the original features."""
    if not transforms or not len(trees.feature):
        return trees
    row = _count_earlier(trees.feature, trees.n_features)
    n_rows = int(row.max()) + 1

    def transform(values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Transform one value per node, as a value of the node's feature."""
        matrix = np.zeros((n_rows, trees.n_features), np.float32)
        matrix[row, trees.feature] = values
        for fitted in transforms:
            matrix = np.asarray(fitted.apply(matrix, np.array([0, n_rows], np.int64)))
        return np.asarray(matrix[row, trees.feature])

    missing = transform(np.full(len(trees.feature), np.nan, np.float32))
    return replace(
        trees,
        threshold=_find_largest(lambda values: transform(values) <= trees.threshold, len(row)),
        nan_left=np.where(np.isnan(missing), trees.nan_left, missing <= trees.threshold),
    )


def _find_largest(goes_left: Callable[[NDArray[np.float32]], NDArray[np.bool_]], n: int) -> NDArray[np.float32]:
    """For each of n decreasing conditions, find the largest float32 for which it holds."""
    last = int(LARGEST.view(np.int32))
    first = -last
    low = np.full(n, first - 1, np.int64)  # the condition holds here, or nowhere
    high = np.full(n, last + 1, np.int64)  # the condition does not hold from here on
    for _ in range(_STEPS):
        middle = np.clip((low + high) // 2, first, last)
        holds = goes_left(_from_rank(middle))
        low = np.where(holds, np.maximum(middle, low), low)
        high = np.where(holds, high, np.minimum(middle, high))
    return _from_rank(np.maximum(low, first))


def _count_earlier(feature: NDArray[np.int32], n_features: int) -> NDArray[np.int64]:
    """For each node, the number of earlier nodes with the same feature."""
    order = np.argsort(feature, kind="stable")
    first = np.searchsorted(feature[order], np.arange(n_features))
    earlier = np.empty(len(feature), np.int64)
    earlier[order] = np.arange(len(feature)) - first[feature[order]]
    return earlier


def _from_rank(rank: NDArray[np.int64]) -> NDArray[np.float32]:
    """The float32 numbers at positions among all float32 numbers, 0 for zero."""
    bits = np.where(rank >= 0, rank, -rank).astype(np.int32).view(np.float32)
    return np.where(rank >= 0, bits, -bits)


T = TypeVar("T")
_MAX_DEPTH = 400  # readers of JSON and XML, Python's among them, limit nesting


class Position(NamedTuple):
    """The position of an inner node or a leaf."""

    tree: int
    at: int
    """Index of a leaf in ``Trees.values``, of an inner node in ``Trees.feature`` and the other arrays."""
    number: int
    """The same, counted within the tree."""
    depth: int


def fold_trees(trees: Trees, *, leaf: Callable[[Position], T], split: Callable[[Position, T, T], T]) -> list[T]:
    """Build a nested object from each tree: ``split`` makes the object of an inner node from those of its children."""

    def build(tree: int, node: int, depth: int) -> T:
        if depth > _MAX_DEPTH:
            raise UsageError(
                f"tree {tree} is more than {_MAX_DEPTH} splits deep, too deep for nested text; "
                "export as lightgbm-text, xgboost-json or onnx."
            )
        if node < 0:
            return leaf(Position(tree, int(trees.leaf_offsets[tree]) + ~node, ~node, depth))
        at = int(trees.node_offsets[tree]) + node
        left, right = build(tree, int(trees.left[at]), depth + 1), build(tree, int(trees.right[at]), depth + 1)
        return split(Position(tree, at, node, depth), left, right)

    return [build(tree, 0 if n_inner else ~0, 0) for tree, n_inner in enumerate(np.diff(trees.node_offsets))]
