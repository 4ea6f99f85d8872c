r"""The distribution over pairs that RankBoost keeps, without the pairs (Freund et al. 2003).

With scores s so far, the weight of a pair with labels :math:`y_i > y_j` is in proportion to
:math:`e^{-(s_i - s_j)}`, and what a weak learner h is worth is

.. math:: r = \sum_{y_i > y_j} D_{ij} (h_i - h_j) = \sum_d \pi_d h_d, \qquad
    \pi_d \propto e^{-s_d} \sum_{y_j < y_d} e^{s_j} - e^{s_d} \sum_{y_i > y_d} e^{-s_i}.

The pairs factorise: with documents sorted by label once, the potential :math:`\pi` of a list costs
O(n) per round, for any number of label levels. A weighted document multiplies the pairs in which
it is the better one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from plackett.base.kernels import compiled
from plackett.base.ragged import Labels, Offsets

_WIDEST = 300.0  # exponents are cut off there: squares of exponentials stay finite


def label_order(labels: Labels, offsets: Offsets) -> NDArray[np.int64]:
    """Documents of each list by ascending label, as positions in the whole."""
    lists = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return np.lexsort((labels, lists))


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def fill_potential(scores, labels, order, offsets, weights, each, potential, losses):  # type: ignore[no-untyped-def]
    """Fill the potential of each document, and the loss of each list, not yet normalised."""
    for q in prange(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        losses[q] = 0.0
        potential[low:high] = 0.0
        if high - low > 1:
            losses[q] = _fill_list(scores, labels, order[low:high], weights[q], each, potential)


@compiled
def _fill_list(scores, labels, documents, weight, each, potential):  # type: ignore[no-untyped-def]
    middle = 0.5 * (np.min(scores[documents]) + np.max(scores[documents]))
    up = np.empty(len(documents))
    for k in range(len(documents)):
        up[k] = np.exp(min(max(scores[documents[k]] - middle, -_WIDEST), _WIDEST))
    loss = 0.0
    below, level, label = 0.0, 0.0, labels[documents[0]]  # sums of lower levels, of this one
    for k in range(len(documents)):
        d = documents[k]
        if labels[d] != label:
            below, level, label = below + level, 0.0, labels[d]
        potential[d] = weight * each[d] * below / up[k]
        loss += potential[d]
        level += up[k]
    above, level = 0.0, 0.0
    for k in range(len(documents) - 1, -1, -1):
        d = documents[k]
        if labels[d] != label:
            above, level, label = above + level, 0.0, labels[d]
        potential[d] -= weight * above * up[k]
        level += each[d] / up[k]
    return loss


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def best_thresholds(codes, counts, potential, worth, place):  # type: ignore[no-untyped-def]
    """For each feature the threshold with the largest sum of potentials above it, in size."""
    for j in prange(len(codes)):
        sums = np.zeros(counts[j] + 1)
        row = codes[j]
        for d in range(len(row)):
            sums[row[d]] += potential[d]
        worth[j], place[j] = 0.0, -1
        above = 0.0
        for k in range(counts[j] - 1, -1, -1):
            above += sums[k + 1]
            if abs(above) > abs(worth[j]):
                worth[j], place[j] = above, k


def best_stump(
    codes: NDArray[np.uint16], counts: NDArray[np.int64], potential: NDArray[np.float64]
) -> tuple[int, int, float]:
    """Feature, place of the threshold and worth of the best stump."""
    worth, place = np.empty(len(codes)), np.empty(len(codes), dtype=np.int64)
    best_thresholds(codes, counts, potential, worth, place)
    j: Any = np.argmax(np.abs(worth))
    return int(j), int(place[j]), float(worth[j])
