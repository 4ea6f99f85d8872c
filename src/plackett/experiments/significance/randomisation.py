r"""Fisher's randomisation test, fast.

Under the null hypothesis each difference is as likely to have the other sign, so the p-value is
the share of sign patterns whose sum is at least as far from zero as the one observed. It assumes no
distribution (Smucker, Allan & Carterette 2007).

Random bits choose the signs, 64 lists at a time. The signed sums of eight differences are tabulated
for the 256 patterns of a byte, so that a word of 64 signs costs eight additions. Permutations are
taken in blocks, one word of lists after the other, which keeps the eight tables and the block's
sums in the first-level cache. The bits are a hash of (seed, permutation, word): any number of
threads gives the same p-value.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange, uint64
from numpy.typing import NDArray

from plackett.base.kernels import compiled
from plackett.base.ragged import Values
from plackett.base.random import combine

PERMUTATIONS = 100_000
_ROUNDING = 1e-12  # sums of the same numbers in another order may differ in the last bits
_BLOCK = 1024
"""Permutations whose sums (8 kB) share the first-level cache with the tables of a word (16 kB)."""
_WORD, _BYTE, _PATTERNS = 64, 8, 256


def randomisation_test(
    differences: Values, *, permutations: int = PERMUTATIONS, seed: int = 0
) -> float:
    """Two-sided p-value of Fisher's randomisation test; the observed pattern counts as one more.

    >>> randomisation_test(np.zeros(5), permutations=99)
    1.0
    """
    d = np.ascontiguousarray(differences, dtype=np.float64)
    observed = abs(float(d.sum())) - _ROUNDING * float(np.abs(d).sum())
    sums = np.zeros(permutations)
    _signed_sums(_tables(d), np.uint64(seed), sums)
    return (int(np.sum(np.abs(sums) >= observed)) + 1) / (permutations + 1)


def _tables(differences: Values) -> NDArray[np.float64]:
    """For every eight differences, their sum under each of the 256 patterns; bit set: minus."""
    words = -(-len(differences) // _WORD)
    padded = np.zeros(words * _WORD)
    padded[: len(differences)] = differences
    tables = np.zeros((words * _BYTE, _PATTERNS))
    _fill(padded, tables)
    return tables


@compiled
def _fill(differences, tables):  # type: ignore[no-untyped-def]
    for t in range(len(tables)):
        table = tables[t]
        for k in range(_BYTE):
            table[0] += differences[_BYTE * t + k]
        # The other patterns differ from a smaller one by one sign.
        for k in range(_BYTE):
            for pattern in range(1 << k, 2 << k):
                table[pattern] = table[pattern - (1 << k)] - 2.0 * differences[_BYTE * t + k]


@compiled
def _block_sums(tables, states, sums):  # type: ignore[no-untyped-def]
    for w in range(len(tables) // _BYTE):
        table = tables[_BYTE * w : _BYTE * (w + 1)]
        word = uint64(_WORD * w)
        for p in range(len(sums)):
            bits = combine(states[p], word)
            total = 0.0
            for k in range(_BYTE):
                total += table[k, (bits >> uint64(8 * k)) & uint64(255)]
            sums[p] += total


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _signed_sums(tables, seed, sums):  # type: ignore[no-untyped-def]
    states = np.empty(len(sums), np.uint64)
    for b in prange((len(sums) + _BLOCK - 1) // _BLOCK):
        low, high = b * _BLOCK, min((b + 1) * _BLOCK, len(sums))
        for p in range(low, high):
            states[p] = combine(seed, uint64(p))
        _block_sums(tables, states[low:high], sums[low:high])
