"""The first few documents of each list, without sorting the rest."""

from __future__ import annotations

import numpy as np
from numba import float32, int64, njit, prange, uint64, void

from plackett.base.kernels import CHUNK, FLOATS, LABELS, compiled, parallel_function
from plackett.metrics.definition import RANKS

BLOCK = 16
"""Documents between two looks at the worst of the buffer: fewer mispredictions against more
insertions in vain."""


@njit(cache=True, nogil=True, inline="always")
def _insert(new, i, best, place):  # type: ignore[no-untyped-def]
    """Move all documents worse than a new one down by one place; nothing moves if none is."""
    score, document = new, i
    for k in range(len(best)):
        old, old_document = best[k], place[k]
        better = new > old
        best[k] = score if better else old
        place[k] = document if better else old_document
        score = old if better else new
        document = old_document if better else i


@compiled
def _top(scores, best, place, candidates):  # type: ignore[no-untyped-def]
    """Put the best documents in order into ``place``; of equals the earlier one stays ahead.

    An insertion that stops at the right place spends most of its time on wrong predictions of
    where that is. So no branch here depends on a single score: documents better than the worst
    of the buffer are gathered, a block at a time, and each insertion runs through the whole
    buffer in vector instructions.
    """
    best[:] = -np.inf
    for start in range(0, len(scores), BLOCK):
        worst = best[len(best) - 1]
        count = 0
        for i in range(start, min(start + BLOCK, len(scores))):
            # Unsigned indices spare the check for negative ones.
            candidates[uint64(count)] = i
            count += scores[uint64(i)] > worst
        for j in range(count):
            i = candidates[uint64(j)]
            _insert(scores[uint64(i)], i, best, place)


@compiled
def _top_by_two_keys(scores, second, best, place):  # type: ignore[no-untyped-def]
    """The same, where a larger second key comes first among equal scores."""
    best[:] = -np.inf
    last = len(best) - 1
    for i in range(len(scores)):
        score = scores[i]
        if score < best[last] or score == -np.inf:
            continue
        if score == best[last] and second[i] <= second[place[last]]:
            continue
        at = last
        while at > 0 and (
            score > best[at - 1] or (score == best[at - 1] and second[i] > second[place[at - 1]])
        ):
            best[at] = best[at - 1]
            place[at] = place[at - 1]
            at -= 1
        best[at] = score
        place[at] = i


@parallel_function(void, FLOATS, FLOATS, LABELS, RANKS, RANKS, int64, float32[::1], int64[::1])
def top_of_lists(scores, second, labels, offsets, starts, limit, ranked, depth):  # type: ignore[no-untyped-def]
    """Write the labels of the first ``limit`` retrieved documents of each list."""
    n_lists = len(offsets) - 1
    for chunk in prange((n_lists + CHUNK - 1) // CHUNK):
        best, place = np.empty(limit), np.zeros(limit, np.int64)
        candidates = np.empty(BLOCK + 1, np.int64)
        for q in range(chunk * CHUNK, min((chunk + 1) * CHUNK, n_lists)):
            low, high = offsets[q], offsets[q + 1]
            if len(second) > 0:
                _top_by_two_keys(scores[low:high], second[low:high], best, place)
            else:
                _top(scores[low:high], best, place, candidates)
            count = 0
            while count < limit and best[count] > -np.inf:
                ranked[starts[q] + count] = labels[low + place[count]]
                count += 1
            depth[q] = count
