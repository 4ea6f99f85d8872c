r"""Each feature of each list scaled to [0, 1].

.. math:: x_i \leftarrow \frac{x_i - \min_k x_k}{\max_k x_k - \min_k x_k}

with k over the documents of the list; a feature that is constant in the list becomes 0. There is
nothing to fit: a list at serving time is scaled by itself.

LETOR's features come scaled this way (Qin, Liu, Xu & Li 2010, "LETOR: a benchmark collection for
research on learning to rank"); Zhu & Klabjan 2020 ("Listwise learning to rank by exploring unique
ratings") scale every set so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit, prange
from scipy.sparse import csr_array

from plackett.base.ragged import Features, Offsets, as_offsets
from plackett.data.transforms.base import FittedTransform, Transform, dense


@dataclass(frozen=True, eq=False)
class QueryMinMax(Transform, FittedTransform):
    """Scale each feature to [0, 1] within each list; constant features become 0.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1.0], [3.0], [2.0], [7.0]], np.float32)
    >>> QueryMinMax().apply(x, np.array([0, 3, 4])).ravel().tolist()
    [0.0, 1.0, 0.5, 0.0]
    """

    name: ClassVar[str] = "query-minmax"
    kind: ClassVar[str] = "parameters"

    def fit_features(
        self,
        features: Features | csr_array,
        offsets: Offsets,  # noqa: ARG002 - one signature for all transforms
    ) -> QueryMinMax:
        dense(features, self.name)
        return self

    def apply(self, features: Features | csr_array, offsets: Offsets) -> Features:
        matrix = dense(features, self.name)
        out = np.empty(matrix.shape, np.float32)
        _scale_lists(matrix, as_offsets(offsets, len(matrix)), out)
        return out


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _scale_lists(features, offsets, out):  # type: ignore[no-untyped-def]
    n_features = features.shape[1]
    for q in prange(len(offsets) - 1):
        low = np.full(n_features, np.inf, np.float32)
        high = np.full(n_features, -np.inf, np.float32)
        for i in range(offsets[q], offsets[q + 1]):
            row = features[i]
            for j in range(n_features):
                # A comparison with NaN is false, so NaN never becomes an end of the range.
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
