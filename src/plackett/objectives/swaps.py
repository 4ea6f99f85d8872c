r"""How much a metric changes when two documents swap ranks.

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
from plackett.objectives.ranking import discount, scaled_gain

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
