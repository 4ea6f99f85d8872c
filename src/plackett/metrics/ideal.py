"""The labels of each list in falling order, down to a cut-off."""

from __future__ import annotations

import numpy as np
from numba import boolean, float32, int64, prange, void

from plackett.base.kernels import CHUNK, LABELS, compiled, parallel_function
from plackett.base.ragged import from_sizes
from plackett.metrics.definition import RANKS
from plackett.metrics.inputs import Lists
from plackett.metrics.ranking import Ranking


def ideal_ranking(lists: Lists, cutoff: int) -> Ranking:
    """Rank the documents of each list by their labels."""
    depth = np.minimum(lists.sizes, cutoff)
    starts = from_sizes(depth)
    labels = np.empty(starts[-1], np.float32)
    if cutoff > 0:
        top = int(lists.labels.max(initial=0)) if lists.countable else 0
        ideal_lists.compiled(lists.labels, lists.offsets, starts, lists.countable, top, labels)
    return Ranking(labels, np.empty(0, np.int64), starts, depth)


@compiled
def _by_counting(labels, top, out):  # type: ignore[no-untyped-def]
    """Fill in the largest of labels that are whole numbers up to ``top``.

    One pass in vector instructions for each level, from the top until the places are filled, is
    faster than one pass that adds to counters.
    """
    filled = 0
    for level in range(top, 0, -1):
        least = np.float32(level)
        count = 0
        for i in range(len(labels)):
            count += labels[i] >= least
        for i in range(filled, min(count, len(out))):
            out[i] = least
        filled = count
        if filled >= len(out):
            return
    out[filled:] = 0.0


@compiled
def _by_sorting(labels, out):  # type: ignore[no-untyped-def]
    rising = np.sort(labels)
    for i in range(len(out)):
        out[i] = rising[len(rising) - 1 - i]


@parallel_function(void, LABELS, RANKS, RANKS, boolean, int64, float32[::1])
def ideal_lists(labels, offsets, starts, countable, top, ideal):  # type: ignore[no-untyped-def]
    """Fill in the largest labels of each list."""
    n_lists = len(offsets) - 1
    for chunk in prange((n_lists + CHUNK - 1) // CHUNK):
        for q in range(chunk * CHUNK, min((chunk + 1) * CHUNK, n_lists)):
            own = labels[offsets[q] : offsets[q + 1]]
            out = ideal[starts[q] : starts[q + 1]]
            if countable:
                _by_counting(own, top, out)
            else:
                _by_sorting(own, out)
