r"""Rankings and normalized gains of lists, for compiled list functions.

Documents are ranked by falling score; equal scores keep their order. Gains are divided by the ideal
DCG of the list (:mod:`plackett.base.gains`). Normalized gains and the order of labels depend on
labels alone, so they are prepared once.

**Sets of rankings.** Some objectives use a fixed set of rankings of each list. Each ranking r gives the documents
integer coefficients :math:`c_{rd}`; its energy at scores s is :math:`a_r = \sum_d c_{rd} s_d`, and the softmax of the
energies is a distribution over the set. Values, gradients and curvatures are means and variances of the coefficients.

A list's set is stored in the prepared numbers of the list:

    m, then ``columns`` numbers for each of the m rankings, column by column, then the coefficients, row by row

Coefficients are packed as float32, two to a number; integers up to 2**24 are exact.
"""

import numpy as np
from numpy.typing import NDArray

from plackett.base.arithmetic import stable_order
from plackett.base.gains import discount, scaled_gain
from plackett.base.kernels import compiled, reordered
from plackett.base.ragged import Labels, Offsets, offsets_from_sizes
from plackett.objectives.objective import ListLabels, Objective, Prepared

_COUNTED = 64  # whole labels below it are sorted by counting, ten times as fast as by comparing


@compiled
def rank_order(scores):  # type: ignore[no-untyped-def]
    """Positions of the documents, best first; ties stay in order."""
    return stable_order(scores, True)


def normalized_gains(labels: Labels, offsets: Offsets, cutoff: int | None = None) -> Prepared:
    """Gains divided by the ideal DCG of their list, up to the cut-off; zeros where no document is relevant."""
    values = np.empty(len(labels))
    _fill_normalized_gains(labels, offsets, cutoff or len(labels), values)
    return Prepared(values, offsets)


def label_order(labels: Labels, offsets: Offsets) -> Prepared:
    """Within each list, positions of the documents by falling label; ties stay in order."""
    values = np.empty(len(labels))
    _fill_label_order(labels, offsets, values)
    return Prepared(values, offsets)


def prepare_gains(_: Objective, lists: ListLabels) -> Prepared:
    """The method ``prepare`` of objectives that use normalized gains."""
    return normalized_gains(lists.labels, lists.offsets)


def prepare_order(_: Objective, lists: ListLabels) -> Prepared:
    """The method ``prepare`` of objectives that use the order of labels."""
    return label_order(lists.labels, lists.offsets)


@compiled
def _fill_normalized_gains(labels, offsets, cutoff, values):  # type: ignore[no-untyped-def]
    for q in range(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        if high == low:
            continue
        gains = values[low:high]
        top = np.float64(labels[low])
        for i in range(low, high):
            top = max(top, np.float64(labels[i]))
        for i in range(high - low):
            gains[i] = scaled_gain(np.float64(labels[low + i]), top)
        ideal = 0.0
        order = stable_order(gains, True)
        for i in range(min(high - low, cutoff)):
            ideal += gains[order[i]] * discount(i)
        if ideal > 0.0:
            for i in range(high - low):
                gains[i] /= ideal


@compiled
def _fill_label_order(labels, offsets, values):  # type: ignore[no-untyped-def]
    places = np.empty(_COUNTED, np.int64)
    for q in range(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        if are_grades(labels[low:high], _COUNTED):
            _count_labels(labels[low:high], places, values[low:high])
        else:
            order = stable_order(labels[low:high], True)
            for i in range(high - low):
                values[low + i] = order[i]


@compiled
def are_grades(labels, end):  # type: ignore[no-untyped-def]
    """Whether all labels are whole numbers below ``end``."""
    for i in range(len(labels)):  # noqa: SIM110
        if not (labels[i] < end and labels[i] == np.floor(labels[i])):
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


@compiled
def set_size(n_rankings, n_docs, columns):  # type: ignore[no-untyped-def]
    """Number of numbers that the set of a list takes."""
    return 1 + columns * n_rankings + (n_rankings * n_docs + 1) // 2


@compiled
def column_of(stored, column):  # type: ignore[no-untyped-def]
    """The numbers in one column, one per ranking; writeable if the set is."""
    m = int(stored[0])
    return stored[1 + column * m : 1 + (column + 1) * m]


@compiled
def coefficients_of(stored, n_docs, columns):  # type: ignore[no-untyped-def]
    """The coefficients, rankings x documents; writeable if the set is."""
    m = int(stored[0])
    return stored[1 + columns * m :].view(np.float32)[: m * n_docs].reshape(m, n_docs)


def join_sets(sets: list[NDArray[np.float64]]) -> Prepared:
    """The sets of all lists, one after the other."""
    return Prepared(np.concatenate([*sets, np.empty(0)]), offsets_from_sizes([len(stored) for stored in sets]))


@reordered
def fill_energies(coefficients, scores, factor, energies):  # type: ignore[no-untyped-def]
    """Fill factor times the energy of each ranking."""
    for r in range(len(coefficients)):
        row = coefficients[r]
        energy = 0.0
        for d in range(len(scores)):
            energy += np.float64(row[d]) * scores[d]
        energies[r] = factor * energy


@compiled
def fill_softmax(logits, softmax):  # type: ignore[no-untyped-def]
    """Fill the softmax; returns the log of its normalizer."""
    best = np.argmax(logits)
    others = 0.0  # all but the largest term, which is 1: keeps small logarithms exact
    for r in range(len(logits)):
        softmax[r] = np.exp(logits[r] - logits[best])
        if r != best:
            others += softmax[r]
    softmax /= 1.0 + others
    return logits[best] + np.log1p(others)


@compiled
def add_mean(coefficients, weights, factor, mean):  # type: ignore[no-untyped-def]
    """Add factor times the weighted sum of the coefficients of each document."""
    for r in range(len(coefficients)):
        weight = factor * weights[r]
        if weight != 0.0:  # far from the best rankings, most weights underflow
            row = coefficients[r]
            for d in range(len(mean)):
                mean[d] += weight * row[d]


@compiled
def add_spread(coefficients, weights, mean, factor, spread):  # type: ignore[no-untyped-def]
    """Add the weighted sum of (factor * coefficient - mean)^2 of each document."""
    for r in range(len(coefficients)):
        weight = weights[r]
        if weight != 0.0:
            row = coefficients[r]
            for d in range(len(mean)):
                difference = factor * row[d] - mean[d]
                spread[d] += weight * difference * difference
