r"""Heavy tails drawn in: a signed logarithm.

.. math:: x \leftarrow \operatorname{sign}(x)\,\log(1 + |x|)

It keeps zeros, signs and order, needs no fitting, and is what web features (counts, lengths) need
before a net sees them. Computed in float64 and rounded to float32, so that the last bits of
different mathematical libraries almost never show.

Qin et al. 2021, "Are neural rankers still outperformed by gradient boosted decision trees?".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.errors import UsageError
from plackett.base.ragged import Features, Offsets
from plackett.data.transforms.base import FittedTransform, Transform

_LARGEST = float(np.finfo(np.float32).max)
_BLOCK = 1 << 14  # values at a time, so that the float64 temporaries stay in the cache


@dataclass(frozen=True, eq=False)
class Log1p(Transform, FittedTransform):
    """Signed logarithm of each feature; with ``clip``, results are held within [-clip, clip].

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[0.0, np.expm1(1.0), -np.expm1(3.0)]], np.float32)
    >>> Log1p(clip=2.0).apply(x, np.array([0, 1])).round(5).tolist()
    [[0.0, 1.0, -2.0]]
    """

    name: ClassVar[str] = "log1p"
    kind: ClassVar[str] = "parameters"
    clip: float | None = None

    def __post_init__(self) -> None:
        if self.clip is None:
            return
        if type(self.clip) not in (int, float) or not 0 < self.clip <= _LARGEST:
            raise UsageError(f"log1p: clip must be None or a positive number, got {self.clip!r}.")

    def fit_features(
        self,
        features: Features | csr_array,  # noqa: ARG002 - one signature for all transforms
        offsets: Offsets,  # noqa: ARG002
    ) -> Log1p:
        return self

    def apply(self, features: Features | csr_array, offsets: Offsets) -> Features | csr_array:  # noqa: ARG002
        if isinstance(features, csr_array):
            values = self._values(features.data)
            parts = (values, features.indices.copy(), features.indptr.copy())
            return csr_array(parts, shape=features.shape)
        return self._values(features.reshape(-1)).reshape(features.shape)

    def _values(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        out = np.empty(len(values), np.float32)
        for start in range(0, len(values), _BLOCK):
            part = values[start : start + _BLOCK].astype(np.float64)
            size = np.log1p(np.abs(part))
            if self.clip is not None:
                np.minimum(size, self.clip, out=size)
            out[start : start + _BLOCK] = np.where(part < 0, -size, size)
        return out
