r"""Map each feature to [0, 1] by its distribution in train.

The ``n_quantiles`` quantiles of train at equidistant levels from 0 to 1 are the knots of a
continuous piecewise-linear map from value to level. Quantiles that coincide (a feature with many
equal values, such as zeros) are one knot at the mean of their levels. Values outside the range of
train get the level of its nearer end. A feature that is constant in train becomes 0.

The map rises from knot to knot, so it keeps the order of values within the range of train.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.errors import DataError, UsageError
from plackett.base.kernels import compiled
from plackett.base.ragged import Features, Offsets, offsets_from_sizes
from plackett.base.threads import run_parallel
from plackett.data.large_arrays import is_large, iter_blocks
from plackett.data.transforms.base import (
    FittedTransform,
    Transform,
    check_width,
    finite_floats,
    require_dense,
)

_COLUMN_BYTES = 256 << 20  # of columns that one pass over a file reads into memory


def sorted_columns(features: Features) -> Iterator[NDArray[np.float32]]:
    """Yield each column, sorted, without NaN."""
    for values in _iter_columns(features):
        column = np.sort(values)  # NaN goes last; NumPy sorts float32 with SIMD
        yield column[: len(column) - np.count_nonzero(np.isnan(column))]


def _iter_columns(features: Features) -> Iterator[NDArray[np.float32]]:
    """Yield each column; of large features, each pass reads as many as fit in memory."""
    if not is_large(features):
        yield from features.T
        return
    step = max(1, _COLUMN_BYTES // (features.itemsize * len(features)))
    for first in range(0, features.shape[1], step):
        columns = np.empty((min(step, features.shape[1] - first), len(features)), np.float32)
        for rows in iter_blocks(features):
            columns[:, rows] = features[rows, first : first + step].T
        yield from columns


def quantiles(column: NDArray[np.float32], levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Quantiles of a sorted column, interpolated linearly (definition 7 of Hyndman & Fan 1996)."""
    position = levels * (len(column) - 1)
    below = np.floor(position).astype(np.int64)
    above = np.minimum(below + 1, len(column) - 1)
    low, high = column[below].astype(np.float64), column[above].astype(np.float64)
    # Rounding must not make a quantile larger than the value above it.
    return np.minimum(low + (high - low) * (position - below), high)


@dataclass(frozen=True, eq=False)
class Quantile(Transform):
    """Map each feature to its level among the quantiles of train.

    Examples
    --------
    >>> import numpy as np
    >>> x, offsets = np.array([[1.0], [10.0], [100.0]], np.float32), np.array([0, 3])
    >>> Quantile(n_quantiles=3).fit_features(x, offsets).apply(x, offsets).ravel().tolist()
    [0.0, 0.5, 1.0]
    """

    name: ClassVar[str] = "quantile"
    n_quantiles: int = 1000

    def __post_init__(self) -> None:
        if type(self.n_quantiles) is not int or self.n_quantiles < 2:
            raise UsageError(
                f"quantile: n_quantiles must be an integer of at least 2, got {self.n_quantiles!r}."
            )

    def fit_features(self, features: Features | csr_array, offsets: Offsets) -> FittedQuantile:
        columns = sorted_columns(require_dense(features, self.name))
        maps = [_knots(column, self.n_quantiles) for column in columns]
        empty = [np.empty(0)]
        return FittedQuantile(
            sizes=tuple(len(knots) for knots, _ in maps),
            knots=np.concatenate([knots for knots, _ in maps] or empty),
            levels=np.concatenate([levels for _, levels in maps] or empty),
        )


def _knots(
    column: NDArray[np.float32], n_quantiles: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The distinct quantiles of a sorted column and their levels; none if it is constant."""
    if len(column) == 0 or column[0] == column[-1]:
        return np.empty(0), np.empty(0)
    levels = np.linspace(0.0, 1.0, n_quantiles)
    knots, first, count = np.unique(
        quantiles(column, levels), return_index=True, return_counts=True
    )
    return knots, 0.5 * (levels[first] + levels[first + count - 1])


@dataclass(frozen=True, eq=False, repr=False)
class FittedQuantile(FittedTransform):
    """Knots and levels of all features, one feature after the other."""

    name: ClassVar[str] = "quantile"
    sizes: tuple[int, ...]
    """Number of knots of each feature; 0 where train was constant."""
    knots: NDArray[np.float64]
    levels: NDArray[np.float64]

    def __post_init__(self) -> None:
        set_ = object.__setattr__  # the dataclass is frozen
        if not isinstance(self.sizes, (list, tuple)) or any(
            type(n) is not int or n < 0 for n in self.sizes
        ):
            raise DataError("quantile: sizes must be a list of integers, zero or greater.")
        set_(self, "sizes", tuple(self.sizes))
        set_(self, "knots", finite_floats(self.knots, "quantile: knots"))
        set_(self, "levels", finite_floats(self.levels, "quantile: levels"))
        self._check()

    def _check(self) -> None:
        total = sum(self.sizes)
        if len(self.knots) != total or len(self.levels) != total:
            raise DataError(
                f"quantile: sizes require {total} knots and levels, got {len(self.knots)} and "
                f"{len(self.levels)}."
            )
        if len(self.levels) and (self.levels.min() < 0 or self.levels.max() > 1):
            raise DataError("quantile: levels must lie from 0 to 1.")
        inner = np.ones(total, np.bool_)
        starts = offsets_from_sizes(self.sizes)[:-1]
        inner[starts[starts < total]] = False  # the first knot of a feature follows no other
        for what, values in (("knots", self.knots), ("levels", self.levels)):
            if (np.diff(values)[inner[1:]] <= 0).any():
                raise DataError(f"quantile: the {what} of a feature must rise.")

    def apply(self, features: Features | csr_array, offsets: Offsets) -> Features:
        matrix = require_dense(features, self.name)
        check_width(matrix, len(self.sizes), self.name)
        out: NDArray[Any] = np.empty(matrix.shape, np.float32)
        arguments = matrix, offsets_from_sizes(self.sizes), self.knots, self.levels, out
        run_parallel(_interpolate, len(matrix), *arguments, least=_LEAST_ROWS)
        return out

    def __repr__(self) -> str:
        return f"FittedQuantile({len(self.sizes)} features, {len(self.knots)} knots)"


_LEAST_ROWS = 500  # that are worth a thread


@compiled
def _interpolate(begin, end, features, starts, knots, levels, out):  # type: ignore[no-untyped-def]
    for i in range(begin, end):
        for j in range(features.shape[1]):
            value = np.float64(features[i, j])
            first, last = starts[j], starts[j + 1] - 1
            if np.isnan(value):
                out[i, j] = np.nan
            elif last < first:
                out[i, j] = 0.0
            elif value <= knots[first]:
                out[i, j] = levels[first]
            elif value >= knots[last]:
                out[i, j] = levels[last]
            else:
                low, high = first, last  # knots[low] <= value < knots[high]
                while high - low > 1:
                    middle = (low + high) // 2
                    if knots[middle] <= value:
                        low = middle
                    else:
                        high = middle
                share = (value - knots[low]) / (knots[high] - knots[low])
                out[i, j] = levels[low] + share * (levels[high] - levels[low])
