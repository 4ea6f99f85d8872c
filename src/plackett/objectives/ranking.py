"""Rankings and normalized gains of lists, for compiled list functions.

Documents are ranked by falling score; equal scores keep their order. Gains are divided by the ideal
DCG of the list (:mod:`plackett.base.gains`). Normalized gains and the order of labels depend on
labels alone, so they are prepared once.
"""

from __future__ import annotations

import numpy as np

from plackett.base.gains import discount, scaled_gain
from plackett.base.kernels import compiled
from plackett.base.ragged import Labels, Offsets
from plackett.objectives.objective import Prepared

_COUNTED = 64  # whole labels below it are sorted by counting, ten times as fast as by comparing


@compiled
def rank_order(scores):  # type: ignore[no-untyped-def]
    """Positions of the documents, best first; ties stay in order."""
    return np.argsort(-scores, kind="mergesort")


def normalized_gains(labels: Labels, offsets: Offsets) -> Prepared:
    """Gains divided by the ideal DCG of their list; zeros where no document is relevant."""
    values = np.empty(len(labels))
    _fill_normalized_gains(labels, offsets, values)
    return Prepared(values, offsets)


def label_order(labels: Labels, offsets: Offsets) -> Prepared:
    """Within each list, positions of the documents by falling label; ties stay in order."""
    values = np.empty(len(labels))
    _fill_label_order(labels, offsets, values)
    return Prepared(values, offsets)


@compiled
def _fill_normalized_gains(labels, offsets, values):  # type: ignore[no-untyped-def]
    for q in range(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        if high == low:
            continue
        gains = values[low:high]
        top = np.float64(np.max(labels[low:high]))
        for i in range(high - low):
            gains[i] = scaled_gain(np.float64(labels[low + i]), top)
        ideal = 0.0
        ranked = np.sort(gains)
        for i in range(high - low):
            ideal += ranked[high - low - 1 - i] * discount(i)
        if ideal > 0.0:
            gains /= ideal


@compiled
def _fill_label_order(labels, offsets, values):  # type: ignore[no-untyped-def]
    places = np.empty(_COUNTED, np.int64)
    for q in range(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        if _countable(labels[low:high]):
            _count_labels(labels[low:high], places, values[low:high])
        else:
            values[low:high] = np.argsort(-labels[low:high], kind="mergesort")


@compiled
def _countable(labels):  # type: ignore[no-untyped-def]
    for i in range(len(labels)):
        if not (labels[i] < _COUNTED and labels[i] == np.floor(labels[i])):
            return False
    return True


@compiled
def _count_labels(labels, places, order):  # type: ignore[no-untyped-def]
    """Fill positions by falling label; places: buffer for the next position of each label."""
    places[:] = 0
    for i in range(len(labels)):
        places[int(labels[i])] += 1
    before = 0
    for label in range(_COUNTED - 1, -1, -1):
        here = places[label]
        places[label] = before
        before += here
    for i in range(len(labels)):
        label = int(labels[i])
        order[places[label]] = i
        places[label] += 1
