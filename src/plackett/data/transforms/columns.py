"""Quantiles of columns without NaN, a few columns at a time: no second copy of the matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from plackett.base.ragged import Features
from plackett.data.on_disk import is_large, walk

_COLUMN_BYTES = 256 << 20  # of the columns of a file that one pass over it takes into memory


def sorted_columns(features: Features) -> Iterator[NDArray[np.float32]]:
    """Each column in turn, sorted, without NaN."""
    for given in _columns(features):
        column = np.sort(given)  # NaN goes last; NumPy sorts float32 with SIMD
        yield column[: len(column) - np.count_nonzero(np.isnan(column))]


def _columns(features: Features) -> Iterator[NDArray[np.float32]]:
    """Columns as they are; of large features as many are gathered in a pass as there is room."""
    if not is_large(features):
        yield from features.T
        return
    at_once = max(1, _COLUMN_BYTES // (features.itemsize * len(features)))
    for first in range(0, features.shape[1], at_once):
        some = np.empty((min(at_once, features.shape[1] - first), len(features)), np.float32)
        for rows in walk(features):
            some[:, rows] = features[rows, first : first + at_once].T
        yield from some


def quantiles(column: NDArray[np.float32], levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Quantiles of a sorted column, interpolated linearly (definition 7 of Hyndman & Fan 1996)."""
    place = levels * (len(column) - 1)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, len(column) - 1)
    low, high = column[below].astype(np.float64), column[above].astype(np.float64)
    # Rounding must not carry a quantile past the value above it: quantiles rise.
    return np.minimum(low + (high - low) * (place - below), high)
