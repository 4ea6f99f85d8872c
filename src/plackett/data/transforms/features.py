r"""The transforms of features: scaling by training data, within lists, by logarithm or quantiles; missing values.

In this module, *train* means the training data. :class:`Standard` gives each feature mean 0 and deviation 1 over the
documents of train:

.. math:: x \leftarrow (x - \mu) / \sigma

A feature that is constant in train (:math:`\sigma = 0`) becomes 0. Means and deviations are the same to the last bit on
any number of threads: blocks of rows of fixed size are summed in parallel, their sums in order. Sums are float64 and
taken of :math:`x - x_0`, with :math:`x_0` the first value of the column: a constant column has exactly its value as
mean and exactly 0 as deviation, and a column far from zero loses no digits. NaN is ignored; a column without any value
has mean and deviation 0.

:class:`QueryMinMax` scales each feature of each list to [0, 1]:

.. math:: x_i \leftarrow \frac{x_i - \min_k x_k}{\max_k x_k - \min_k x_k}

with k over the documents of the list; a feature that is constant in the list becomes 0. There is nothing to fit.
LETOR's features are scaled this way (Qin, Liu, Xu & Li 2010, "LETOR: a benchmark collection for research on learning to
rank"); Zhu & Klabjan 2020 ("Listwise learning to rank by exploring unique ratings") scale every data set this way.

:class:`Log1p` compresses heavy tails by a signed logarithm:

.. math:: x \leftarrow \operatorname{sign}(x)\,\log(1 + |x|)

It keeps zeros, signs and order, and suits web features (counts, lengths) as inputs of nets (Qin et al. 2021, "Are
neural rankers still outperformed by gradient boosted decision trees?"). It is computed in float64 and rounded to
float32, so that differences between mathematical libraries almost never change the result.

:class:`Quantile` maps each feature to [0, 1] by its distribution in train.

The ``n_quantiles`` quantiles of train at equidistant levels from 0 to 1 are the knots of a
continuous piecewise-linear map from value to level. Quantiles that coincide (a feature with many
equal values, such as zeros) are one knot at the mean of their levels. Values outside the range of
train get the level of its nearer end. A feature that is constant in train becomes 0.

The map rises from knot to knot, so it keeps the order of values within the range of train.

:class:`Impute` replaces missing values (NaN) by one number per feature: a mean, a median or a constant.

A feature that has no value in train gets the constant ``value``. No columns are added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.errors import DataError, UsageError
from plackett.base.kernels import compiled
from plackett.base.ragged import Features, Offsets, as_offsets, offsets_from_sizes
from plackett.base.threads import run_parallel
from plackett.data.large_arrays import is_large, iter_blocks
from plackett.data.transforms.base import FittedTransform, StatelessTransform, Transform, require_dense

LARGEST = float(np.finfo(np.float32).max)
_BLOCK = 1 << 14  # values at a time, so that the float64 temporaries stay in the cache
BLOCK = 1024
"""Rows that are summed together; it determines the last bits of the result, so it is fixed."""


def means(features: Features) -> NDArray[np.float64]:
    """Mean of each column, ignoring NaN."""
    shift: NDArray[np.float64] = _first_values(features)
    return shift + _block_means(features, shift, square=False)


def deviations(features: Features, mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Population standard deviation of each column around its mean, ignoring NaN."""
    return np.sqrt(_block_means(features, mean, square=True))


def _block_means(features: Features, center: NDArray[np.float64], *, square: bool) -> NDArray[np.float64]:
    n_blocks = -(-len(features) // BLOCK)
    sums = np.zeros((n_blocks, features.shape[1]))
    counts = np.zeros((n_blocks, features.shape[1]))
    for rows in iter_blocks(features, multiple=BLOCK):
        blocks = slice(rows.start // BLOCK, -(-rows.stop // BLOCK))
        part, totals = features[rows], sums[blocks]
        run_parallel(_sum_blocks, len(totals), part, center, square, totals, counts[blocks])
    # add.reduce over the first axis of a C array adds row by row: a fixed order.
    total: NDArray[np.float64] = np.add.reduce(sums, axis=0)
    return total / np.maximum(np.add.reduce(counts, axis=0), 1.0)


@compiled
def _first_values(features):  # type: ignore[no-untyped-def]
    out = np.zeros(features.shape[1])
    for j in range(features.shape[1]):
        for i in range(features.shape[0]):
            if not np.isnan(features[i, j]):
                out[j] = features[i, j]
                break
    return out


@compiled
def _sum_blocks(first, last, features, center, square, sums, counts):  # type: ignore[no-untyped-def]
    n_docs, n_features = features.shape
    for block in range(first, last):
        total, count = sums[block], counts[block]
        for i in range(block * BLOCK, min((block + 1) * BLOCK, n_docs)):
            row = features[i]
            for j in range(n_features):
                present = not np.isnan(row[j])
                difference = np.float64(row[j]) - center[j] if present else 0.0
                total[j] += difference * difference if square else difference
                count[j] += 1.0 if present else 0.0


@dataclass(frozen=True, eq=False)
class Standard(Transform):
    """Subtract the mean of train and divide by its (population) standard deviation.

    Examples
    --------
    >>> import numpy as np
    >>> x, offsets = np.array([[1.0, 5.0], [3.0, 5.0]], np.float32), np.array([0, 2])
    >>> Standard().fit_features(x, offsets).apply(x, offsets).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """

    name: ClassVar[str] = "standard"

    def fit_features(self, features: Features | csr_array, offsets: Offsets) -> FittedStandard:
        matrix = require_dense(features, self.name)
        mean = means(matrix)
        return FittedStandard(mean, deviations(matrix, mean))


@dataclass(frozen=True, eq=False, repr=False)
class FittedStandard(FittedTransform):
    """Means and deviations of the features of train."""

    name: ClassVar[str] = "standard"
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]

    def __post_init__(self) -> None:
        self._check_fields(floats=["mean", "deviation"])
        if len(self.mean) != len(self.deviation):
            raise DataError(
                f"standard: {len(self.mean)} means but {len(self.deviation)} deviations; there "
                "must be one of each per feature."
            )
        if (self.deviation < 0).any():
            raise DataError("standard: deviations must not be negative.")

    def apply(self, features: Features | csr_array, offsets: Offsets) -> Features:
        matrix = require_dense(features, self.name, len(self.mean))
        out: NDArray[Any] = np.empty(matrix.shape, np.float32)
        run_parallel(_standardize, len(matrix), matrix, self.mean, self.deviation, out, least=BLOCK)
        return out

    def __repr__(self) -> str:
        return f"FittedStandard({len(self.mean)} features)"


@compiled
def _standardize(first, last, features, mean, deviation, out):  # type: ignore[no-untyped-def]
    for i in range(first, last):
        row, target = features[i], out[i]
        for j in range(features.shape[1]):
            difference = np.float64(row[j]) - mean[j]
            # 0 * NaN is NaN: a missing value of a constant feature stays missing.
            value = difference / deviation[j] if deviation[j] > 0.0 else 0.0 * difference
            # A value far outside train divided by a tiny deviation would overflow float32.
            value = LARGEST if value > LARGEST else value
            target[j] = -LARGEST if value < -LARGEST else value


@dataclass(frozen=True, eq=False)
class QueryMinMax(StatelessTransform):
    """Scale each feature to [0, 1] within each list; constant features become 0.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1.0], [3.0], [2.0], [7.0]], np.float32)
    >>> QueryMinMax().apply(x, np.array([0, 3, 4])).ravel().tolist()
    [0.0, 1.0, 0.5, 0.0]
    """

    name: ClassVar[str] = "query-minmax"
    uses_lists: ClassVar[bool] = True

    def apply(self, features: Features | csr_array, offsets: Offsets) -> Features:
        matrix = require_dense(features, self.name)
        out = np.empty(matrix.shape, np.float32)
        bounds = as_offsets(offsets, len(matrix))
        run_parallel(_scale_lists, len(bounds) - 1, matrix, bounds, out, least=_LEAST_LISTS)
        return out


_LEAST_LISTS = 20  # minimum number of lists per thread


@compiled
def _scale_lists(first, last, features, offsets, out):  # type: ignore[no-untyped-def]
    n_features = features.shape[1]
    for q in range(first, last):
        low = np.full(n_features, np.inf, np.float32)
        high = np.full(n_features, -np.inf, np.float32)
        for i in range(offsets[q], offsets[q + 1]):
            row = features[i]
            for j in range(n_features):
                # A comparison with NaN is false, so NaN never becomes the minimum or maximum.
                low[j] = row[j] if row[j] < low[j] else low[j]
                high[j] = row[j] if row[j] > high[j] else high[j]
        for i in range(offsets[q], offsets[q + 1]):
            row, target = features[i], out[i]
            for j in range(n_features):
                # float64: the range of float32 numbers may not fit in float32.
                width = np.float64(high[j]) - np.float64(low[j])
                above = np.float64(row[j]) - np.float64(low[j])
                # A constant feature has above = 0 (or NaN, which stays): 0 / 1 = 0.
                target[j] = above / (width if width > 0.0 else 1.0)


@dataclass(frozen=True, eq=False)
class Log1p(StatelessTransform):
    """Signed logarithm of each feature; with ``clip``, results are limited to [-clip, clip].

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[0.0, np.expm1(1.0), -np.expm1(3.0)]], np.float32)
    >>> Log1p(clip=2.0).apply(x, np.array([0, 1])).round(5).tolist()
    [[0.0, 1.0, -2.0]]
    """

    name: ClassVar[str] = "log1p"
    clip: float | None = None

    def __post_init__(self) -> None:
        if self.clip is None:
            return
        if type(self.clip) not in (int, float) or not 0 < self.clip <= LARGEST:
            raise UsageError(f"log1p: clip must be None or a positive number, got {self.clip!r}.")

    def fit_features(self, features: Features | csr_array, offsets: Offsets) -> Log1p:
        return self

    def apply(self, features: Features | csr_array, offsets: Offsets) -> Features | csr_array:
        if isinstance(features, csr_array):
            values = self._transform(features.data)
            parts = (values, features.indices.copy(), features.indptr.copy())
            return csr_array(parts, shape=features.shape)
        return self._transform(features.reshape(-1)).reshape(features.shape)

    def _transform(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        out = np.empty(len(values), np.float32)
        for start in range(0, len(values), _BLOCK):
            part = values[start : start + _BLOCK].astype(np.float64)
            logs = np.log1p(np.abs(part))
            if self.clip is not None:
                np.minimum(logs, self.clip, out=logs)
            out[start : start + _BLOCK] = np.where(part < 0, -logs, logs)
        return out


_COLUMN_BYTES = 256 << 20  # size of the columns that one pass over a file reads into memory


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
            raise UsageError(f"quantile: n_quantiles must be an integer of at least 2, got {self.n_quantiles!r}.")

    def fit_features(self, features: Features | csr_array, offsets: Offsets) -> FittedQuantile:
        columns = sorted_columns(require_dense(features, self.name))
        maps = [_knots(column, self.n_quantiles) for column in columns]
        empty = [np.empty(0)]
        return FittedQuantile(
            sizes=tuple(len(knots) for knots, _ in maps),
            knots=np.concatenate([knots for knots, _ in maps] or empty),
            levels=np.concatenate([levels for _, levels in maps] or empty),
        )


def _knots(column: NDArray[np.float32], n_quantiles: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The distinct quantiles of a sorted column and their levels; none if it is constant."""
    if len(column) == 0 or column[0] == column[-1]:
        return np.empty(0), np.empty(0)
    levels = np.linspace(0.0, 1.0, n_quantiles)
    knots, first, count = np.unique(quantiles(column, levels), return_index=True, return_counts=True)
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
        self._check_fields(floats=["knots", "levels"], counts=["sizes"])
        total = sum(self.sizes)
        if len(self.knots) != total or len(self.levels) != total:
            raise DataError(
                f"quantile: sizes require {total} knots and levels, got {len(self.knots)} and {len(self.levels)}."
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
        matrix = require_dense(features, self.name, len(self.sizes))
        out: NDArray[Any] = np.empty(matrix.shape, np.float32)
        arguments = matrix, offsets_from_sizes(self.sizes), self.knots, self.levels, out
        run_parallel(_interpolate, len(matrix), *arguments, least=_LEAST_ROWS)
        return out

    def __repr__(self) -> str:
        return f"FittedQuantile({len(self.sizes)} features, {len(self.knots)} knots)"


_LEAST_ROWS = 500  # minimum number of rows per thread


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


Strategy: TypeAlias = Literal["mean", "median", "constant"]
STRATEGIES: tuple[Strategy, ...] = ("mean", "median", "constant")


@dataclass(frozen=True, eq=False)
class Impute(Transform):
    """Replace NaN by the mean or the median of the feature in train, or by ``value``.

    Examples
    --------
    >>> import numpy as np
    >>> x, offsets = np.array([[1.0], [np.nan], [5.0]], np.float32), np.array([0, 3])
    >>> Impute("mean").fit_features(x, offsets).apply(x, offsets).ravel().tolist()
    [1.0, 3.0, 5.0]
    """

    name: ClassVar[str] = "impute"
    strategy: Strategy = "mean"
    value: float = 0.0
    """For "constant", and for features without any value in train."""

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise UsageError(f"impute: strategy must be one of {', '.join(STRATEGIES)}, got {self.strategy!r}.")
        if type(self.value) not in (int, float) or not abs(self.value) <= LARGEST:
            raise UsageError(f"impute: value must be a finite float32 number, got {self.value!r}.")

    def fit_features(self, features: Features | csr_array, offsets: Offsets) -> FittedImpute:
        matrix = require_dense(features, self.name)
        fill = np.full(matrix.shape[1], float(self.value))
        if self.strategy == "mean":
            absent = np.ones(matrix.shape[1], np.bool_)
            for rows in iter_blocks(matrix):
                absent &= np.isnan(matrix[rows]).all(axis=0)
            # Rounding may put the mean of the largest float32 numbers just above them.
            fill = np.where(absent, fill, np.clip(means(matrix), -LARGEST, LARGEST))
        if self.strategy == "median":
            half = np.array([0.5])
            for j, column in enumerate(sorted_columns(matrix)):
                fill[j] = quantiles(column, half)[0] if len(column) else fill[j]
        return FittedImpute(fill)


@dataclass(frozen=True, eq=False, repr=False)
class FittedImpute(FittedTransform):
    """The value that replaces missing values of each feature."""

    name: ClassVar[str] = "impute"
    fill: NDArray[np.float64]

    def __post_init__(self) -> None:
        self._check_fields(floats=["fill"])
        if (np.abs(self.fill) > LARGEST).any():
            raise DataError(f"impute: fill must be float32 numbers, up to {LARGEST:g}.")

    def apply(self, features: Features | csr_array, offsets: Offsets) -> Features:
        out = require_dense(features, self.name, len(self.fill)).copy()
        rows, columns = np.nonzero(np.isnan(out))
        out[rows, columns] = self.fill[columns]
        return out

    def __repr__(self) -> str:
        return f"FittedImpute({len(self.fill)} features)"
