"""The largest and smallest of a list's numbers, in vector code.

The comparison of floats is not associative where NaN occurs, so a compiler leaves ``max`` of floats
as one comparison after the other. The bits of a float64, with all but the sign flipped where it is
negative, are integers of the same order, and ``max`` of integers becomes vector code. NaN counts
as beyond the infinity of its sign, so it is found, not lost.
"""

from __future__ import annotations

import numpy as np
from numba import int64

from plackett.base.kernels import compiled

_ALL_BUT_SIGN = 0x7FFFFFFFFFFFFFFF


@compiled
def _ordered(word):  # type: ignore[no-untyped-def]
    """Map the bits of a float64 to an integer of the same order, and back."""
    return word ^ ((word >> int64(63)) & int64(_ALL_BUT_SIGN))


@compiled
def largest(values):  # type: ignore[no-untyped-def]
    """The largest of some float64."""
    high = int64(-_ALL_BUT_SIGN)
    for i in range(len(values)):
        high = max(high, _ordered(np.float64(values[i]).view(np.int64)))
    return np.int64(_ordered(high)).view(np.float64)


@compiled
def extremes(values):  # type: ignore[no-untyped-def]
    """The smallest and the largest of some float64."""
    low, high = int64(_ALL_BUT_SIGN), int64(-_ALL_BUT_SIGN)
    for i in range(len(values)):
        word = _ordered(np.float64(values[i]).view(np.int64))
        low = min(low, word)
        high = max(high, word)
    return np.int64(_ordered(low)).view(np.float64), np.int64(_ordered(high)).view(np.float64)
