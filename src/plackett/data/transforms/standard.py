r"""Each feature with mean 0 and deviation 1 over the documents of train.

.. math:: x \leftarrow (x - \mu) / \sigma

A feature that is constant in train (:math:`\sigma = 0`) becomes 0: nothing was learned of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.errors import DataError
from plackett.base.ragged import Features, Offsets
from plackett.data.transforms.base import (
    FittedTransform,
    Transform,
    check_width,
    dense,
    finite_floats,
)
from plackett.data.transforms.moments import deviations, means

_LARGEST = float(np.finfo(np.float32).max)


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

    def fit_features(
        self,
        features: Features | csr_array,
        offsets: Offsets,  # noqa: ARG002 - one signature for all transforms
    ) -> FittedStandard:
        matrix = dense(features, self.name)
        mean = means(matrix)
        return FittedStandard(mean, deviations(matrix, mean))


@dataclass(frozen=True, eq=False, repr=False)
class FittedStandard(FittedTransform):
    """Means and deviations of the features of train."""

    name: ClassVar[str] = "standard"
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]

    def __post_init__(self) -> None:
        set_ = object.__setattr__  # the one way to convert a field of a frozen dataclass
        set_(self, "mean", finite_floats(self.mean, "standard: mean"))
        set_(self, "deviation", finite_floats(self.deviation, "standard: deviation"))
        if len(self.mean) != len(self.deviation):
            raise DataError(
                f"standard: {len(self.mean)} means but {len(self.deviation)} deviations; there "
                "must be one of each per feature."
            )
        if (self.deviation < 0).any():
            raise DataError("standard: deviations must not be negative.")

    def apply(self, features: Features | csr_array, offsets: Offsets) -> Features:  # noqa: ARG002
        matrix = dense(features, self.name)
        check_width(matrix, len(self.mean), self.name)
        out: NDArray[Any] = np.empty(matrix.shape, np.float32)
        _standardise(matrix, self.mean, self.deviation, out)
        return out

    def __repr__(self) -> str:
        return f"FittedStandard({len(self.mean)} features)"


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _standardise(features, mean, deviation, out):  # type: ignore[no-untyped-def]
    for i in prange(features.shape[0]):
        row, target = features[i], out[i]
        for j in range(features.shape[1]):
            difference = np.float64(row[j]) - mean[j]
            # 0 * NaN is NaN: a missing value of a constant feature stays missing.
            value = difference / deviation[j] if deviation[j] > 0.0 else 0.0 * difference
            # A value far outside train over a tiny deviation would overflow float32.
            value = _LARGEST if value > _LARGEST else value
            target[j] = -_LARGEST if value < -_LARGEST else value
