"""Stable sorting inside compiled kernels.

The same orders as ``np.argsort(keys, kind="stable")``, whose version in Numba takes a second or two
to compile in each kernel that sorts.
"""

from __future__ import annotations

import numpy as np

from plackett.base.kernels import compiled

_RUN = 16  # positions that are sorted by insertion, before runs are merged


@compiled
def _precedes(a, b, falling):  # type: ignore[no-untyped-def]
    return (a > b if falling else a < b) or (b != b and a == a)  # NaN goes last


@compiled
def _merge(keys, runs, low, middle, high, falling, out):  # type: ignore[no-untyped-def]
    first, second, place = low, middle, low
    while first < middle and second < high:
        a, b = runs[first], runs[second]
        later = _precedes(keys[b], keys[a], falling)
        out[place] = b if later else a
        second += later
        first += not later
        place += 1
    for rest in range(first, middle):
        out[place] = runs[rest]
        place += 1
    for rest in range(second, high):
        out[place] = runs[rest]
        place += 1


@compiled
def stable_order(keys, falling):  # type: ignore[no-untyped-def]
    """Positions of rising (or falling) keys; equal keys keep their order, NaN goes last."""
    n = len(keys)
    order = np.empty(n, np.int64)
    for low in range(0, n, _RUN):
        for i in range(low, min(low + _RUN, n)):
            place = i
            while place > low and _precedes(keys[i], keys[order[place - 1]], falling):
                order[place] = order[place - 1]
                place -= 1
            order[place] = i
    if n <= _RUN:
        return order
    other = np.empty(n, np.int64)
    width = _RUN
    while width < n:
        for low in range(0, n, 2 * width):
            _merge(keys, order, low, min(low + width, n), min(low + 2 * width, n), falling, other)
        order, other = other, order
        width *= 2
    return order
