"""Products of float32 features with float64 vectors, without a float64 copy of the features.

NumPy would convert the whole matrix first, and BLAS sums in float32 in an order that depends on
the number of threads. Here sums are float64 and run over blocks of a fixed size, so the result has
the same bits on any number of threads.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.types import Features, Scores

_BLOCK = 2048  # rows whose partial sums are kept apart


def times(features: Features | csr_array, weights: NDArray[np.float64]) -> Scores:
    """The product X w: one number per document."""
    if isinstance(features, csr_array):
        return np.asarray(features @ weights, dtype=np.float64)
    out = np.empty(len(features))
    _times(features, weights, out)
    return out


def transposed_times(features: Features | csr_array, gradient: Scores) -> NDArray[np.float64]:
    """The product X^T g: one number per feature."""
    if isinstance(features, csr_array):
        return np.asarray(features.T @ gradient, dtype=np.float64)
    n_blocks = (len(features) + _BLOCK - 1) // _BLOCK
    parts = np.zeros((n_blocks, features.shape[1]))
    _transposed_times(features, gradient, parts)
    return np.asarray(parts.sum(axis=0))


@njit(cache=True, nogil=True, parallel=True)
def _times(features, weights, out):  # type: ignore[no-untyped-def]
    for i in prange(len(features)):
        row = features[i]
        total = 0.0
        for j in range(len(weights)):
            total += row[j] * weights[j]
        out[i] = total


@njit(cache=True, nogil=True, parallel=True)
def _transposed_times(features, gradient, parts):  # type: ignore[no-untyped-def]
    for block in prange(len(parts)):
        part = parts[block]
        for i in range(block * _BLOCK, min((block + 1) * _BLOCK, len(features))):
            row = features[i]
            factor = gradient[i]
            for j in range(len(part)):
                part[j] += row[j] * factor
