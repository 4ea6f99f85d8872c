"""The ranking of one list, by vector instructions.

For lists of the usual length, comparing every pair of scores with vector instructions is several
times as fast as sorting: a sort is n log n unpredictable branches, this is n² / 16 comparisons
without one. The comparisons are in single precision; a last pass in double precision puts right
the neighbours that single precision could not tell apart.
"""

from __future__ import annotations

import numpy as np
from numba import float32, int32

from plackett.base.kernels import compiled

PADDING = 64  # a multiple of what vector code takes at a time, so that nothing is left over
_SORT_FROM = 600  # documents: from here on sorting is faster


@compiled
def padded(n):  # type: ignore[no-untyped-def]
    """The next multiple of ``PADDING``."""
    return (n + PADDING - 1) // PADDING * PADDING


@compiled
def fill_order(scores, rounded, order):  # type: ignore[no-untyped-def]
    """Positions of the documents, best first; equal scores keep their order.

    ``rounded`` holds the scores in single precision and has room up to ``padded(len(scores))``.
    """
    n = len(scores)
    if n < _SORT_FROM:
        rounded[n:] = float32(-np.inf)
        _count(rounded, n, order)
        _settle(scores, order)
    else:
        order[:] = np.argsort(-scores, kind="mergesort")


@compiled
def _count(rounded, n, order):  # type: ignore[no-untyped-def]
    """Each document's place is the number of documents above it, or the next free one."""
    for place in range(n):
        order[place] = -1
    for i in range(n):
        own = rounded[i]
        above = int32(0)
        for j in range(len(rounded)):
            above += int32(rounded[j] > own)
        while order[above] >= 0:
            above += int32(1)
        order[above] = i


@compiled
def _settle(scores, order):  # type: ignore[no-untyped-def]
    """Insertion sort of what is sorted but for neighbours that rounding made equal."""
    for place in range(1, len(order)):
        document = order[place]
        own = scores[document]
        hole = place
        while hole > 0:
            other = order[hole - 1]
            if scores[other] > own or (scores[other] == own and other < document):
                break
            order[hole] = other
            hole -= 1
        order[hole] = document
