"""Sums over ranks in which documents with equal scores share their gains.

If the documents at the ranks a+1 to b are tied, each of their orders is as good as any other, and
by linearity the expectation of a sum of discounted gains gives each of these ranks the mean gain of
the group (McSherry & Najork 2008, "Computing information retrieval performance measures efficiently
in the presence of tied scores", ECIR). A group of one document gives the ordinary sum.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from plackett.base.gains import exp2_gain
from plackett.base.kernels import compiled

EXP2, IDENTITY, BINARY = 0.0, 1.0, 2.0
"""Kinds of gain, as list functions get them in ``params``."""


@njit(cache=True, nogil=True, inline="always")
def group_end(ends, start):  # type: ignore[no-untyped-def]
    """Rank at which the group that begins at ``start`` ends."""
    return ends[start] if len(ends) > 0 else start + 1


@compiled
def gain_of(label, kind, level):  # type: ignore[no-untyped-def]
    """Gain of a label; ``level`` is the top label (EXP2) or the threshold (BINARY)."""
    if kind == EXP2:
        return exp2_gain(np.float64(label), level)
    if kind == IDENTITY:
        return np.float64(label)
    return 1.0 if label > level else 0.0


@compiled
def discounted_sum(ranked, ends, cutoff, discounts, kind, level):  # type: ignore[no-untyped-def]
    """Sum the discounted gains of the ranks down to the cut-off, in expectation."""
    depth = min(cutoff, len(ranked))
    total = 0.0
    if len(ends) == 0:
        for rank in range(depth):
            total += gain_of(ranked[rank], kind, level) * discounts[rank]
        return total
    start = 0
    while start < depth:
        stop = ends[start]
        gain = 0.0
        for rank in range(start, stop):
            gain += gain_of(ranked[rank], kind, level)
        weight = 0.0
        for rank in range(start, min(stop, depth)):
            weight += discounts[rank]
        # The product first: whole gains and weights then leave whole results.
        total += gain * weight / (stop - start)
        start = stop
    return total


@compiled
def count_relevant(labels, threshold):  # type: ignore[no-untyped-def]
    """Count the labels above the threshold."""
    count = 0
    for i in range(len(labels)):
        count += labels[i] > threshold
    return count
