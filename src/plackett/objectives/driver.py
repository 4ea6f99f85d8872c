"""Compiled loops that run a list function over all lists, in parallel.

The list function comes as a typed first-class function, so a driver is compiled once for all
objectives and found in the on-disk cache by later processes; the call costs nanoseconds per list.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import float64, int64, njit, prange, types, uint64, void

from plackett.base.kernels import FLOATS, LABELS, readonly

LIST_FUNCTION = float64(FLOATS, LABELS, FLOATS, uint64, FLOATS, float64[::1], float64[::1])
"""scores, labels, extra, key, params, gradient, curvature -> value.

extra
    What the objective has prepared for the list: explicit draws, sampled rankings ...; often empty.
key
    A 64-bit word that depends on seed, step and list: the source of whatever is random.
params
    The objective's parameters.
gradient, curvature
    Zero on entry.

Lists with one document or one label level never reach a list function.
"""

INDEX = readonly(int64)
KEYS = readonly(uint64)


def _each_list(  # type: ignore[no-untyped-def]
    function,
    scores,
    labels,
    offsets,
    extra,
    extra_offsets,
    keys,
    params,
    values,
    gradient,
    curvature,
):
    for q in prange(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        y = labels[low:high]
        values[q] = 0.0
        if high - low > 1 and np.max(y) > np.min(y):
            values[q] = function(
                scores[low:high],
                y,
                extra[extra_offsets[q] : extra_offsets[q + 1]],
                keys[q],
                params,
                gradient[low:high],
                curvature[low:high],
            )


@cache
def each_list() -> Any:
    """The plain driver; compiled, or loaded from the cache, at the first call."""
    signature = void(
        types.FunctionType(LIST_FUNCTION),
        FLOATS,
        LABELS,
        INDEX,
        FLOATS,
        INDEX,
        KEYS,
        FLOATS,
        float64[::1],
        float64[::1],
        float64[::1],
    )
    return njit(signature, parallel=True, cache=True, nogil=True)(_each_list)
