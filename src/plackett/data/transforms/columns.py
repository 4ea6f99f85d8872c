"""Quantiles of columns without NaN, one column at a time: no second copy of the matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from plackett.base.types import Features


def sorted_columns(features: Features) -> Iterator[NDArray[np.float32]]:
    """Each column in turn, sorted, without NaN."""
    for j in range(features.shape[1]):
        column = np.sort(features[:, j])  # NaN goes last; NumPy sorts float32 with SIMD
        yield column[: len(column) - np.count_nonzero(np.isnan(column))]


def quantiles(column: NDArray[np.float32], levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Quantiles of a sorted column, interpolated linearly (definition 7 of Hyndman & Fan 1996)."""
    place = levels * (len(column) - 1)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, len(column) - 1)
    low, high = column[below].astype(np.float64), column[above].astype(np.float64)
    # Rounding must not carry a quantile past the value above it: quantiles rise.
    return np.minimum(low + (high - low) * (place - below), high)
