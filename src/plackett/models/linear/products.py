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

from plackett.base.kernels import reordered
from plackett.base.ragged import Features, Scores

BLOCK = 2048
"""Rows whose partial sums are kept apart."""

Weights = NDArray[np.float64]
"""One number per feature."""


def times(features: Features | csr_array, weights: Weights) -> Scores:
    """The product X w: one number per document."""
    if isinstance(features, csr_array):
        return np.asarray(features @ weights, dtype=np.float64)
    out = np.empty(len(features))
    _times(features, weights, out)
    return out


def transposed_times(features: Features | csr_array, gradient: Scores) -> Weights:
    """The product X^T g: one number per feature."""
    if isinstance(features, csr_array):
        return np.asarray(features.T @ gradient, dtype=np.float64)
    n_blocks = (len(features) + BLOCK - 1) // BLOCK
    parts = np.zeros((n_blocks, features.shape[1]))
    _transposed_times(features, gradient, parts)
    return np.asarray(parts.sum(axis=0))


@reordered
def fill_scores(rows, weights, scores):  # type: ignore[no-untyped-def]
    """Fill the product of each row with the weights."""
    for i in range(len(rows)):
        row = rows[i]
        total = 0.0
        for j in range(len(weights)):
            total += np.float64(row[j]) * weights[j]
        scores[i] = total


@reordered
def add_combination(rows, factors, part):  # type: ignore[no-untyped-def]
    """Add the rows times their factors."""
    n = len(rows)
    # Two rows at a time: half as many loads and stores of the sums.
    for i in range(0, n - 1, 2):
        first, second = rows[i], rows[i + 1]
        a, b = factors[i], factors[i + 1]
        for j in range(len(part)):
            part[j] += np.float64(first[j]) * a + np.float64(second[j]) * b
    if n % 2:
        last, a = rows[n - 1], factors[n - 1]
        for j in range(len(part)):
            part[j] += np.float64(last[j]) * a


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _times(features, weights, out):  # type: ignore[no-untyped-def]
    n = len(features)
    for block in prange((n + BLOCK - 1) // BLOCK):
        low, high = block * BLOCK, min((block + 1) * BLOCK, n)
        fill_scores(features[low:high], weights, out[low:high])


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _transposed_times(features, gradient, parts):  # type: ignore[no-untyped-def]
    for block in prange(len(parts)):
        low, high = block * BLOCK, min((block + 1) * BLOCK, len(features))
        add_combination(features[low:high], gradient[low:high], parts[block])
