"""All documents of each list in order, by a stable merge sort."""

from __future__ import annotations

import numpy as np
from numba import float32, float64, int64, njit, prange, void

from plackett.base.kernels import CHUNK, FLOATS, LABELS, compiled, parallel_function
from plackett.metrics.definition import RANKS

RUN = 8
"""Documents that are sorted by insertion before runs are merged."""


@njit(cache=True, nogil=True, inline="always")
def _before(scores, second, i, j):  # type: ignore[no-untyped-def]
    """Whether document i must come before document j whatever their positions are."""
    if scores[i] != scores[j]:
        return scores[i] > scores[j]
    return len(second) > 0 and second[i] > second[j]


@compiled
def _merge(scores, second, source, target, low, middle, high):  # type: ignore[no-untyped-def]
    left, right = low, middle
    for at in range(low, high):
        if right == high or (
            left < middle and not _before(scores, second, source[right], source[left])
        ):
            target[at] = source[left]
            left += 1
        else:
            target[at] = source[right]
            right += 1


@compiled
def _sort(scores, second, order, spare):  # type: ignore[no-untyped-def]
    """Sort the document numbers in ``order``, best first; return the buffer that holds them."""
    n = len(order)
    for low in range(0, n, RUN):
        for i in range(low + 1, min(low + RUN, n)):
            document, at = order[i], i
            while at > low and _before(scores, second, document, order[at - 1]):
                order[at] = order[at - 1]
                at -= 1
            order[at] = document
    width = RUN
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            _merge(scores, second, order, spare, low, middle, high)
        order, spare = spare, order
        width *= 2
    return order


@compiled
def _write(scores, labels, order, ranked, ends):  # type: ignore[no-untyped-def]
    """Write labels in order and, if asked for, the rank at which each group of equals ends."""
    for i in range(len(order) - 1, -1, -1):
        ranked[i] = labels[order[i]]
        if len(ends) > 0:
            tied = i + 1 < len(order) and scores[order[i]] == scores[order[i + 1]]
            ends[i] = ends[i + 1] if tied else i + 1


@parallel_function(
    void, FLOATS, FLOATS, LABELS, RANKS, float64, float32[::1], int64[::1], int64[::1]
)
def sort_lists(scores, second, labels, offsets, left_out, ranked, ends, depth):  # type: ignore[no-untyped-def]
    """Write the labels of all documents of each list but those with the score ``left_out``."""
    n_lists = len(offsets) - 1
    for chunk in prange((n_lists + CHUNK - 1) // CHUNK):
        first, last = chunk * CHUNK, min((chunk + 1) * CHUNK, n_lists)
        longest = 0
        for q in range(first, last):
            longest = max(longest, offsets[q + 1] - offsets[q])
        order, spare = np.empty(longest, np.int64), np.empty(longest, np.int64)
        for q in range(first, last):
            low, high = offsets[q], offsets[q + 1]
            own = scores[low:high]
            count = 0
            for i in range(high - low):
                if own[i] != left_out:
                    order[count] = i
                    count += 1
            depth[q] = count
            keys = second[low:high] if len(second) > 0 else second
            best_first = _sort(own, keys, order[:count], spare[:count])
            groups = ends[low : low + count] if len(ends) > 0 else ends
            _write(own, labels[low:high], best_first, ranked[low:high], groups)
