r"""Trees in the one form that every target can be written from.

A document goes left if :math:`x \le t`, with x and t float32, or if x is missing and the node says
so. For float32 features that is all there is in the trees of LightGBM and XGBoost but sets of
categories:

- a float64 threshold has the same answers as the largest float32 not above it;
- XGBoost's :math:`x < t` is :math:`x \le t'` with the float32 below t;
- LightGBM takes values up to 1e-35 in size for zero, so a threshold among them is moved to that
  border;
- where LightGBM knows no missing values it reads NaN as zero: NaN goes where zero goes.

Thresholds are held within the range of finite float32 numbers. A feature whose value is the
largest float32 itself may then go the other way, at nodes that no other number passes.

Thresholds on transformed features as thresholds on the features themselves.

Every transform of single features rises with the feature, so :math:`T(x) \le t` is :math:`x \le t'`
with t' the largest float32 for which it holds. It is found by bisection over the float32 numbers in
their order, 32 steps for any transform: exact, whatever the transform rounds.

Trees as nested objects, built from the leaves up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import UsageError
from plackett.data.transforms import FittedTransform
from plackett.models.ensembles import Ensemble
from plackett.models.ensembles.layout import (
    CATEGORICAL,
    DEFAULT_LEFT,
    MISSING_NAN,
    MISSING_ZERO,
    missing_type,
)

LARGEST = np.finfo(np.float32).max
TINY = np.float32(1e-35)
"""Values up to this size are zero to LightGBM."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Trees:
    """Regression trees; arrays are laid out as in :class:`~plackett.models.ensembles.Ensemble`."""

    n_features: int
    nodes: NDArray[np.int64]
    leaves: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    nan_left: NDArray[np.bool_]
    """Whether a missing value goes left, per inner node."""
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    values: NDArray[np.float64]
    """Of each leaf."""
    base: float = 0.0
    """Added to every score."""

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.nodes) - 1

    @property
    def zero_left(self) -> NDArray[np.bool_]:
        """Whether zero goes left, per inner node."""
        return self.threshold >= 0

    def scaled(self, factor: float) -> Trees:
        """The same trees with scores times ``factor``."""
        if factor == 1.0:
            return self
        return replace(self, values=self.values * factor, base=self.base * factor)

    def with_base_as_tree(self) -> Trees:
        """The base score as a first tree of one leaf, for targets that have no base score."""
        if self.base == 0.0:
            return self
        return replace(
            self,
            nodes=np.concatenate([[0], self.nodes]),
            leaves=np.concatenate([[0], self.leaves + 1]),
            values=np.concatenate([[self.base], self.values]),
            base=0.0,
        )


def joined(trees: Sequence[Trees]) -> Trees:
    """The sum of several ensembles as one."""
    if len(trees) == 1:
        return trees[0]
    return Trees(
        n_features=trees[0].n_features,
        nodes=_offsets([np.diff(each.nodes) for each in trees]),
        leaves=_offsets([np.diff(each.leaves) for each in trees]),
        feature=np.concatenate([each.feature for each in trees]),
        threshold=np.concatenate([each.threshold for each in trees]),
        nan_left=np.concatenate([each.nan_left for each in trees]),
        left=np.concatenate([each.left for each in trees]),
        right=np.concatenate([each.right for each in trees]),
        values=np.concatenate([each.values for each in trees]),
        base=float(sum(each.base for each in trees)),
    )


def from_ensemble(ensemble: Ensemble) -> Trees:
    """Trees of an ensemble; refused where it has sets of categories or odd zeros."""
    if (ensemble.decision & CATEGORICAL).any():
        raise UsageError(
            "the model has splits on categories, which this form cannot hold; export it as "
            "lightgbm-text, or fit it without categorical features."
        )
    threshold = single_below(ensemble.threshold)
    if ensemble.library == "lightgbm":
        threshold = _around_zero(ensemble.threshold, threshold)
    return Trees(
        n_features=ensemble.n_features,
        nodes=ensemble.nodes,
        leaves=ensemble.leaves,
        feature=ensemble.feature,
        threshold=threshold,
        nan_left=_nan_left(ensemble, zero_left=threshold >= 0),
        left=ensemble.left,
        right=ensemble.right,
        values=ensemble.leaf_values,
        base=ensemble.base_score,
    )


def _nan_left(ensemble: Ensemble, *, zero_left: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether each node sends missing values left; zeros that are missing must go with them."""
    default_left = (ensemble.decision & DEFAULT_LEFT) != 0
    missing = missing_type(ensemble.decision)
    odd = (missing == MISSING_ZERO) & (default_left != zero_left)
    if odd.any():
        raise UsageError(
            "the model was fitted with zero_as_missing and sends zeros against the order of "
            f"values at {int(odd.sum())} splits; only lightgbm-text holds that."
        )
    return np.where(missing == MISSING_NAN, default_left, zero_left)


def single_below(threshold: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest float32 that is not above each threshold."""
    with np.errstate(over="ignore", under="ignore"):
        near = threshold.astype(np.float32)
        below = np.nextafter(near, np.float32(-np.inf))
    return np.clip(np.where(near > threshold, below, near), -LARGEST, LARGEST)


def _around_zero(
    threshold: NDArray[np.float64], single: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Move thresholds among the values that LightGBM takes for zero to the border of these."""
    upper = (threshold >= 0) & (threshold <= TINY)
    lower = (threshold < 0) & (threshold >= -TINY)
    single = np.where(upper, TINY, single)
    return np.where(lower, np.nextafter(-TINY, np.float32(-np.inf)), single)


def _offsets(sizes: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)


_SIGN = np.int64(0x7FFFFFFF)
_STEPS = 33  # halve the 2^32 numbers between the ends until two neighbours are left


def before_transforms(trees: Trees, transforms: Sequence[FittedTransform]) -> Trees:
    """Trees that give the same scores to features that the transforms have not been applied to."""
    if not transforms or not len(trees.feature):
        return trees
    place = _places(trees.feature, trees.n_features)

    def transformed(values: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the features of the nodes become."""
        rows = int(place.max()) + 1
        matrix = np.zeros((rows, trees.n_features), np.float32)
        matrix[place, trees.feature] = values
        for each in transforms:
            matrix = np.asarray(each.apply(matrix, np.array([0, rows], np.int64)))
        return np.asarray(matrix[place, trees.feature])

    missing = transformed(np.full(len(trees.feature), np.nan, np.float32))
    return replace(
        trees,
        threshold=_largest(lambda values: transformed(values) <= trees.threshold, len(place)),
        nan_left=np.where(np.isnan(missing), trees.nan_left, missing <= trees.threshold),
    )


def _largest(
    goes_left: Callable[[NDArray[np.float32]], NDArray[np.bool_]], n: int
) -> NDArray[np.float32]:
    """The largest float32 of which each of n falling conditions holds."""
    first, last = _rank(-LARGEST), _rank(LARGEST)
    low = np.full(n, first - 1, np.int64)  # it holds here, or nowhere
    high = np.full(n, last + 1, np.int64)  # from here on it does not
    for _ in range(_STEPS):
        middle = np.clip((low + high) // 2, first, last)
        holds = goes_left(_number(middle))
        low = np.where(holds, np.maximum(middle, low), low)
        high = np.where(holds, high, np.minimum(middle, high))
    return _number(np.maximum(low, first))


def _places(feature: NDArray[np.int32], n_features: int) -> NDArray[np.int64]:
    """How many nodes before it ask for the same feature, for each node."""
    order = np.argsort(feature, kind="stable")
    first = np.searchsorted(feature[order], np.arange(n_features))
    place = np.empty(len(feature), np.int64)
    place[order] = np.arange(len(feature)) - first[feature[order]]
    return place


def _rank(value: np.float32) -> int:
    """The place of a float32 number among all, zero at 0."""
    bits = int(np.float32(value).view(np.int32))
    return bits if bits >= 0 else -(bits & int(_SIGN))


def _number(rank: NDArray[np.int64]) -> NDArray[np.float32]:
    bits = np.where(rank >= 0, rank, -rank).astype(np.int32).view(np.float32)
    return np.where(rank >= 0, bits, -bits)


T = TypeVar("T")
_DEEPEST = 400  # of what readers of JSON and XML take, Python's own among them


def nested(
    trees: Trees,
    tree: int,
    *,
    leaf: Callable[[int, int], T],
    split: Callable[[int, int, T, T], T],
) -> T:
    """One tree as an object.

    Parameters
    ----------
    trees, tree
        Which tree of which ensemble.
    leaf
        Makes the object of a leaf out of its place in ``trees.values`` and its depth.
    split
        Makes that of an inner node out of its place in ``trees.feature``, its depth, and the
        objects of its children.
    """
    first, last = int(trees.nodes[tree]), int(trees.nodes[tree + 1])
    first_leaf = int(trees.leaves[tree])
    if first == last:
        return leaf(first_leaf, 0)
    depth = {0: 0}
    order, waiting = [], [0]
    while waiting:
        node = waiting.pop()
        order.append(node)
        for child in (int(trees.left[first + node]), int(trees.right[first + node])):
            depth[child] = depth[node] + 1
            if depth[child] > _DEEPEST:
                raise UsageError(
                    f"tree {tree} is more than {_DEEPEST} splits deep, too deep for nested text; "
                    "export as lightgbm-text, xgboost-json or onnx."
                )
            if child >= 0:
                waiting.append(child)
    made: dict[int, T] = {}
    for node in reversed(order):
        left, right = (
            made.pop(child) if child >= 0 else leaf(first_leaf + ~child, depth[child])
            for child in (int(trees.left[first + node]), int(trees.right[first + node]))
        )
        made[node] = split(first + node, depth[node], left, right)
    return made[0]
