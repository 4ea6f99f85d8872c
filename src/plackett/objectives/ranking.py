r"""Ranks, gains and discounts of one list, for compiled list functions.

Documents are ranked by falling score; equal scores keep their order. The gain of label y is
:math:`2^y - 1`, the discount of rank r (counted from 1) is :math:`1/\log_2(1 + r)`. Gains enter the
objectives only divided by the ideal DCG, so they are computed in units of :math:`2^{\max y}`: no
label overflows. Normalised gains and the order of labels depend on labels alone and are prepared
once.
"""

from __future__ import annotations

import numpy as np

from plackett.base.kernels import compiled
from plackett.base.ragged import Labels, Offsets
from plackett.objectives.lists import Extra

_LOG_2 = np.log(2.0)
_COUNTED = 64  # whole labels below it are sorted by counting, ten times as fast as by comparing


@compiled
def rank_order(scores):  # type: ignore[no-untyped-def]
    """Positions of the documents, best first; ties stay in order."""
    return np.argsort(-scores, kind="mergesort")


@compiled
def discount(rank):  # type: ignore[no-untyped-def]
    """Discount of a rank that is counted from 0."""
    return _LOG_2 / np.log(rank + 2.0)


@compiled
def scaled_gain(label, top):  # type: ignore[no-untyped-def]
    r"""Gain of a label in units of :math:`2^{top}`, exact for small labels too."""
    if label < 1.0:
        return np.expm1(_LOG_2 * label) * 2.0**-top
    return 2.0 ** (label - top) - 2.0**-top


def normalised_gains(labels: Labels, offsets: Offsets) -> Extra:
    """Each document's gain divided by its list's ideal DCG; zeros where no document is relevant."""
    values = np.empty(len(labels))
    _fill_normalised_gains(labels, offsets, values)
    return Extra(values, offsets)


def label_order(labels: Labels, offsets: Offsets) -> Extra:
    """Within each list, positions of the documents by falling label; ties stay in order."""
    values = np.empty(len(labels))
    _fill_label_order(labels, offsets, values)
    return Extra(values, offsets)


@compiled
def _fill_normalised_gains(labels, offsets, values):  # type: ignore[no-untyped-def]
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
    """Fill positions by falling label; places: room for where the next of each label goes."""
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
