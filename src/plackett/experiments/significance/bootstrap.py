"""Intervals of means by the bootstrap: draw the lists anew, with replacement, many times."""

from __future__ import annotations

import numpy as np
from numba import njit, prange, uint64
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.random import combine

_RESAMPLES = 10_000
_HALF = 32  # bits


def bootstrap_intervals(
    values: NDArray[np.float64], *, level: float = 0.95, resamples: int = _RESAMPLES, seed: int = 0
) -> NDArray[np.float64]:
    """Percentile intervals of the means of several systems over the same lists (Efron 1979).

    All systems see the same resamples, so the intervals of differences are paired.

    Parameters
    ----------
    values
        One row per list, one column per system (or difference of systems). Rows with NaN, which
        the metric drops, do not count.
    level
        Share of the resampled means inside the interval.
    resamples
        Their number.
    seed
        Of the resamples; threads do not matter.

    Returns
    -------
    intervals
        For each column, low and high end.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2:
        raise DataError(f"values need a row per list and a column per system, got {table.shape}.")
    counted = np.ascontiguousarray(table[~np.isnan(table).any(axis=1)])
    if len(counted) == 0:
        raise DataError("no list counts for all systems; there is nothing to resample.")
    means = np.zeros((resamples, counted.shape[1]))
    _resample(counted, np.uint64(seed), means)
    ends = ((1 - level) / 2, (1 + level) / 2)
    return np.quantile(means, ends, axis=0).T


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _resample(values, seed, means):  # type: ignore[no-untyped-def]
    n, columns = values.shape
    for b in prange(len(means)):
        state = combine(seed, uint64(b))
        total = means[b]
        for i in range(n):
            # The upper half of a random word times n, without the upper half: uniform below n up
            # to n / 2**32, which no interval of so many resamples can show.
            word = combine(state, uint64(i)) >> uint64(_HALF)
            row = values[(word * uint64(n)) >> uint64(_HALF)]
            for j in range(columns):
                total[j] += row[j]
        for j in range(columns):
            total[j] /= n
