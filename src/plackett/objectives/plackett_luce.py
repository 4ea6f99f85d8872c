r"""The Plackett-Luce model of rankings: its weighted log-likelihood, and draws from it.

A ranking :math:`\pi` (best first) picks its documents one after the other, each with the softmax
of the scores that are left. With weights :math:`w_k \ge 0` on the picks,

.. math::

    \ell = \sum_k w_k \Big(\log\sum_{i \ge k} e^{s_{\pi_i}} - s_{\pi_k}\Big), \qquad
    \frac{\partial\ell}{\partial s_{\pi_k}} = \sum_{i \le k} w_i p_{ik} - w_k, \qquad
    \frac{\partial^2\ell}{\partial s_{\pi_k}^2} = \sum_{i \le k} w_i p_{ik} (1 - p_{ik}),

where :math:`p_{ik}` is the probability that pick i takes the k-th document. It is convex.

All of it takes O(n), one exponential per document, and no subtraction of nearly equal numbers:
with :math:`q_k = p_{kk}`, its complement :math:`r_{k+1} = 1 - q_k` (a ratio of suffix sums) and
:math:`R_{ik} = r_{i+1} \cdots r_k`, we have :math:`p_{ik} = q_k R_{ik}`, and the sums

.. math::

    A_k = \sum_{i \le k} w_i R_{ik} = r_k A_{k-1} + w_k, \qquad
    D_k = \sum_{i \le k} w_i R_{ik} (1 - R_{ik}) = r_k q_{k-1} A_{k-1} + r_k^2 D_{k-1}

give the gradient :math:`q_k r_k A_{k-1} - w_k r_{k+1}` and the curvature :math:`q_k (r_{k+1} A_k +
q_k D_k)`.

Sorting :math:`s_i + G_i` with independent Gumbel noise G draws a ranking from the model (Yellott
1977).
"""

from __future__ import annotations

import numpy as np
from numba import uint64
from numpy.typing import ArrayLike, NDArray

from plackett.base.arithmetic import exp, extremes, log
from plackett.base.errors import DataError
from plackett.base.kernels import compiled, reordered
from plackett.base.ragged import Offsets
from plackett.base.random import combine, unit
from plackett.objectives.logistic import WIDEST


@compiled
def weighted_likelihood(scores, order, weights, gradient, curvature):  # type: ignore[no-untyped-def]
    """Minus the weighted log-likelihood of a ranking; fills gradient and curvature."""
    room = np.empty((3, len(order)))
    ranked, picked, rest = room[0], room[1], room[2]  # the last two: q and its complement
    for k in range(len(order)):
        ranked[k] = scores[order[k]]
    low, high = extremes(scores)
    if high - low < WIDEST:
        _fill_picks(ranked, high, picked, rest)
        value = _cost_of_picks(weights, picked)
    else:
        value = _fill_wide_picks(ranked, weights, picked, rest)
    _fill_order_derivatives(order, weights, picked, rest, gradient, curvature)
    return value


@compiled
def _fill_picks(ranked, top, picked, rest):  # type: ignore[no-untyped-def]
    """Fill q and its complement; all but the sums is vector code."""
    for k in range(len(ranked)):
        picked[k] = exp(ranked[k] - top)
    after = 0.0
    for k in range(len(ranked) - 1, -1, -1):
        rest[k] = after
        after += picked[k]
    for k in range(len(ranked)):
        total = picked[k] + rest[k]
        picked[k] /= total
        rest[k] /= total


@reordered
def _cost_of_picks(weights, picked):  # type: ignore[no-untyped-def]
    value = 0.0
    for k in range(len(picked)):
        value -= weights[k] * log(picked[k])
    return value


@compiled
def _fill_wide_picks(ranked, weights, picked, rest):  # type: ignore[no-untyped-def]
    """The same for scores so far apart that an exponential may vanish; returns the cost."""
    top, total, value = ranked[-1], 0.0, 0.0
    for k in range(len(ranked) - 1, -1, -1):
        score = ranked[k]
        if score > top:  # sums are kept relative to the largest score seen, so that none overflows
            total *= np.exp(top - score)
            top = score
        own = np.exp(score - top)
        after = total
        total += own
        picked[k] = own / total
        rest[k] = after / total
        value += weights[k] * (top - score + np.log(total))
    return value


@compiled
def _fill_order_derivatives(order, weights, picked, rest, gradient, curvature):  # type: ignore[no-untyped-def]
    earlier, spread = 0.0, 0.0  # A and D
    for k in range(len(order)):
        if k > 0:
            r = rest[k - 1]
            spread = r * picked[k - 1] * earlier + r * r * spread
            earlier *= r
        document = order[k]
        gradient[document] = picked[k] * earlier - weights[k] * rest[k]
        earlier += weights[k]
        curvature[document] = picked[k] * (rest[k] * earlier + picked[k] * spread)


@compiled
def draw_order(scores, key):  # type: ignore[no-untyped-def]
    """Positions of the documents, best first, drawn from the Plackett-Luce model of the scores."""
    sinking = np.empty(len(scores))
    for i in range(len(scores)):
        sinking[i] = np.log(-np.log(unit(combine(key, uint64(i))))) - scores[i]
    return np.argsort(sinking, kind="mergesort")


def as_orders(order: ArrayLike, offsets: Offsets) -> NDArray[np.float64]:
    """Explicit rankings of all lists, one after the other, checked to be permutations."""
    given = np.ascontiguousarray(order, dtype=np.float64)
    if given.shape != (offsets[-1],):
        raise DataError(
            f"draws['order'] must be {offsets[-1]} numbers, one per document, got shape "
            f"{given.shape}."
        )
    for q in range(len(offsets) - 1):
        part = given[offsets[q] : offsets[q + 1]]
        if not np.array_equal(np.sort(part), np.arange(len(part))):
            raise DataError(
                f"draws['order'] must hold, for list {q}, each of 0 to {len(part) - 1} once "
                f"(positions within the list, best first), got {part.tolist()[:10]}."
            )
    return given
