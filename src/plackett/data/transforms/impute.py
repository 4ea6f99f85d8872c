"""Replace missing values (NaN) by one number per feature: a mean, a median or a constant.

A feature that has no value in train gets the constant ``value``. No columns are added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import Features, Offsets
from plackett.data.large_arrays import iter_blocks
from plackett.data.transforms.base import (
    FittedTransform,
    Transform,
    check_width,
    finite_floats,
    require_dense,
)
from plackett.data.transforms.quantile import quantiles, sorted_columns
from plackett.data.transforms.scaling import LARGEST, means

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
            raise UsageError(
                f"impute: strategy must be one of {', '.join(STRATEGIES)}, got {self.strategy!r}."
            )
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
        fill = finite_floats(self.fill, "impute: fill")
        if len(fill) and np.abs(fill).max() > LARGEST:
            raise DataError(f"impute: fill must be float32 numbers, up to {LARGEST:g}.")
        object.__setattr__(self, "fill", fill)  # the dataclass is frozen

    def apply(self, features: Features | csr_array, offsets: Offsets) -> Features:
        matrix = require_dense(features, self.name)
        check_width(matrix, len(self.fill), self.name)
        out = matrix.copy()
        rows, columns = np.nonzero(np.isnan(out))
        out[rows, columns] = self.fill[columns]
        return out

    def __repr__(self) -> str:
        return f"FittedImpute({len(self.fill)} features)"
