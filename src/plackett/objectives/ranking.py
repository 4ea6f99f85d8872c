r"""Ranks, gains and discounts of one list, for compiled list functions.

Documents are ranked by falling score; equal scores keep their order. The gain of label y is
:math:`2^y - 1`, the discount of rank r (counted from 1) is :math:`1/\log_2(1 + r)`. Gains enter the
objectives only divided by the ideal DCG, so they are computed in units of :math:`2^{\max y}`: no
label overflows. Normalised gains and the order of labels depend on labels alone and are prepared
once.

How much a metric changes when two documents swap ranks.

For ranks a < b (counted from 1), with gains G, discounts D, relevance z (label > 0):

- ``ndcg``: :math:`|G_a - G_b|\,(D_a - D_b)/\mathrm{IDCG}`
- ``map``: with :math:`R_k` relevant documents and :math:`S_k = \sum_{j \le k} z_j/j` up to rank k,
  :math:`(R_a + 1)/a - R_b/b + S_{b-1} - S_a` if b is relevant and a is not,
  :math:`R_a/a - R_b/b + S_{b-1} - S_a` if a is relevant and b is not, both divided by the number of
  relevant documents
- ``err``: with :math:`r = (2^y - 1)/2^{\max y}`, :math:`T_a = \prod_{k<a}(1 - r_k)` and
  :math:`Q_k = \prod_{a<j<k}(1 - r_j)`,
  :math:`T_a\,|r_a - r_b|\,(1/a - \sum_{a<k<b} Q_k r_k/k - Q_b/b)` (the products of the two
  documents themselves cancel)
- ``mrr``: only the first relevant rank f and the second f' matter: :math:`1/a - 1/f` if b is
  relevant and a < f; :math:`1/f - 1/\min(b, f')` if a = f and b is not relevant

Each is O(1) per pair, given sums over prefixes of the ranking, or a running sum along b.
Burges, Ragno & Le (2006); Donmez, Svore & Burges (2009) for metrics other than NDCG.
"""

from __future__ import annotations

import numpy as np

from plackett.base.kernels import compiled
from plackett.base.ragged import Labels, Offsets
from plackett.objectives.objective import Prepared

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


def normalized_gains(labels: Labels, offsets: Offsets) -> Prepared:
    """Each document's gain divided by its list's ideal DCG; zeros where no document is relevant."""
    values = np.empty(len(labels))
    _fill_normalised_gains(labels, offsets, values)
    return Prepared(values, offsets)


def label_order(labels: Labels, offsets: Offsets) -> Prepared:
    """Within each list, positions of the documents by falling label; ties stay in order."""
    values = np.empty(len(labels))
    _fill_label_order(labels, offsets, values)
    return Prepared(values, offsets)


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


NDCG, MAP, ERR, MRR = 0, 1, 2, 3
METRICS = ("ndcg", "map", "err", "mrr")


@compiled
def prepare_swaps(metric, labels, gains, state):  # type: ignore[no-untyped-def]
    """Fill ``state`` (3 x n) for :func:`fill_swaps`; labels and gains are those by rank."""
    n = len(labels)
    if metric == NDCG:
        for k in range(n):
            state[0, k] = gains[k]
            state[1, k] = discount(k)
    elif metric == MAP:
        relevant, inverse = 0.0, 0.0
        for k in range(n):
            state[0, k] = 1.0 if labels[k] > 0.0 else 0.0
            relevant += state[0, k]
            inverse += state[0, k] / (k + 1.0)
            state[1, k] = relevant / (k + 1.0)
            state[2, k] = inverse
    elif metric == ERR:
        top, reach = np.max(labels), 1.0
        for k in range(n):
            state[0, k] = scaled_gain(labels[k], top)
            state[1, k] = reach
            reach *= 1.0 - state[0, k]
    else:
        for k in range(n):
            state[0, k] = 1.0 if labels[k] > 0.0 else 0.0
        first = np.argmax(state[0])
        second = first + 1
        while second < n and state[0, second] == 0.0:
            second += 1
        state[1, :] = first
        state[2, :] = second


@compiled
def fill_swaps(metric, state, a, changes):  # type: ignore[no-untyped-def]
    """Fill the change by a swap of rank a with each rank behind it; ranks count from 0.

    It is positive if the document at rank a has the higher label, negative if the lower.
    """
    if metric == NDCG:
        _ndcg(state[0], state[1], a, changes)
    elif metric == MAP:
        _average_precision(state[0], state[1], state[2], a, changes)
    elif metric == ERR:
        _expected_reciprocal_rank(state[0], state[1, a], a, changes)
    else:
        _reciprocal_rank(state[0], int(state[1, 0]), int(state[2, 0]), a, changes)


@compiled
def _ndcg(gains, discounts, a, changes):  # type: ignore[no-untyped-def]
    g, d, out = gains[a + 1 :], discounts[a + 1 :], changes[a + 1 :]
    gain, own = gains[a], discounts[a]
    for k in range(len(out)):
        out[k] = (gain - g[k]) * (own - d[k])


@compiled
def _average_precision(relevant, precision, inverse, a, changes):  # type: ignore[no-untyped-def]
    n = len(relevant)
    scale = 1.0 / (precision[n - 1] * n)
    for b in range(a + 1, n):
        between = inverse[b - 1] - inverse[a]
        change = precision[a] - precision[b] + between
        if relevant[b] > relevant[a]:
            change += 1.0 / (a + 1.0)
        changes[b] = (relevant[a] - relevant[b]) * change * scale


@compiled
def _expected_reciprocal_rank(stops, reach, a, changes):  # type: ignore[no-untyped-def]
    passed, between = 1.0, 0.0
    for b in range(a + 1, len(stops)):
        rank = b + 1.0
        worth = 1.0 / (a + 1.0) - between - passed / rank
        changes[b] = reach * (stops[a] - stops[b]) * worth
        between += passed * stops[b] / rank
        passed *= 1.0 - stops[b]


@compiled
def _reciprocal_rank(relevant, first, second, a, changes):  # type: ignore[no-untyped-def]
    for b in range(a + 1, len(relevant)):
        changes[b] = 0.0
        if relevant[b] > relevant[a] and a < first:
            changes[b] = 1.0 / (first + 1.0) - 1.0 / (a + 1.0)
        elif relevant[a] > relevant[b] and a == first:
            changes[b] = 1.0 / (first + 1.0) - 1.0 / (min(b, second) + 1.0)
