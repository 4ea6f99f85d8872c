r"""Thresholds on transformed features as thresholds on the features themselves.

Every transform of single features rises with the feature, so :math:`T(x) \le t` is :math:`x \le t'`
with t' the largest float32 for which it holds. It is found by bisection over the float32 numbers in
their order, 32 steps for any transform: exact, whatever the transform rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from plackett.data.transforms import FittedTransform
from plackett.serving.export.trees import LARGEST, Trees

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
