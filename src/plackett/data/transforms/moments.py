r"""Mean and deviation of columns, the same to the last bit on any number of threads.

Rows are cut into blocks of fixed size; blocks are summed in parallel, their sums in order. Sums
are float64 and taken of :math:`x - x_0`, with :math:`x_0` the first value of the column: a constant
column gets exactly its value as mean and exactly 0 as deviation, and a column far from
zero loses no digits. NaN takes no part; a column without any value has mean and deviation 0.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from plackett.base.kernels import compiled
from plackett.base.ragged import Features
from plackett.data.on_disk import walk

BLOCK = 1024
"""Rows that are summed together; part of the result's last bits, so it is a constant."""


def means(features: Features) -> NDArray[np.float64]:
    """Mean of each column, without NaN."""
    shift: NDArray[np.float64] = _first_values(features)
    return shift + _block_means(features, shift, square=False)


def deviations(features: Features, mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Find the (population) standard deviation of each column around its mean, without NaN."""
    return np.sqrt(_block_means(features, mean, square=True))


def _block_means(
    features: Features, centre: NDArray[np.float64], *, square: bool
) -> NDArray[np.float64]:
    n_blocks = -(-len(features) // BLOCK)
    sums = np.zeros((n_blocks, features.shape[1]))
    counts = np.zeros((n_blocks, features.shape[1]))
    for rows in walk(features, multiple=BLOCK):
        blocks = slice(rows.start // BLOCK, -(-rows.stop // BLOCK))
        _sum_blocks(features[rows], centre, square, sums[blocks], counts[blocks])
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


@njit(cache=True, nogil=True, parallel=True)
def _sum_blocks(features, centre, square, sums, counts):  # type: ignore[no-untyped-def]
    n_docs, n_features = features.shape
    for block in prange(len(sums)):
        total, count = sums[block], counts[block]
        for i in range(block * BLOCK, min((block + 1) * BLOCK, n_docs)):
            row = features[i]
            for j in range(n_features):
                there = not np.isnan(row[j])
                difference = np.float64(row[j]) - centre[j] if there else 0.0
                total[j] += difference * difference if square else difference
                count[j] += 1.0 if there else 0.0
