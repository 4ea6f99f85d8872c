r"""ListMLE and PListMLE: the likelihood of the ranking by labels under the Plackett-Luce model.

A ranking :math:`\pi` (best first) picks its documents one after the other, each with the softmax
of the remaining scores. With weights :math:`w_k \ge 0` on the picks,

.. math::

    \ell = \sum_k w_k \Big(\log\sum_{i \ge k} e^{s_{\pi_i}} - s_{\pi_k}\Big), \qquad
    \frac{\partial\ell}{\partial s_{\pi_k}} = \sum_{i \le k} w_i p_{ik} - w_k, \qquad
    \frac{\partial^2\ell}{\partial s_{\pi_k}^2} = \sum_{i \le k} w_i p_{ik} (1 - p_{ik}),

where :math:`p_{ik}` is the probability that pick i takes the k-th document. It is convex.

- :class:`ListMLE`: :math:`w_k = 1` (Xia et al. 2008)
- :class:`PListMLE`: :math:`w_k \propto 2^{n-k} - 1`, summing to 1, so that the top of the list counts most (Lan et al.
  2014); computed as :math:`(2^{-k} - 2^{-n}) / (1 - (n+1) 2^{-n})`, which does not overflow for any n

:math:`\pi` is the ranking by falling label. Documents with equal labels are put in a new random
order for each list and step. The weight of a document multiplies its pick.

All of it takes O(n), one exponential per document, and no subtraction of nearly equal numbers:
with :math:`q_k = p_{kk}`, its complement :math:`r_{k+1} = 1 - q_k` (a ratio of suffix sums) and
:math:`R_{ik} = r_{i+1} \cdots r_k`, we have :math:`p_{ik} = q_k R_{ik}`, and the sums

.. math::

    A_k = \sum_{i \le k} w_i R_{ik} = r_k A_{k-1} + w_k, \qquad
    D_k = \sum_{i \le k} w_i R_{ik} (1 - R_{ik}) = r_k q_{k-1} A_{k-1} + r_k^2 D_{k-1}

give the gradient :math:`q_k r_k A_{k-1} - w_k r_{k+1}` and the curvature :math:`q_k (r_{k+1} A_k +
q_k D_k)`, the exact diagonal of the Hessian. Labels that are grades are sorted by counting in the
same pass as the shuffle; other labels are sorted once.

Sorting :math:`s_i + G_i` with independent Gumbel noise G draws a ranking from the model (Yellott 1977).

**MDPRank**: ranking as a Markov decision process, learned by policy gradient (Wei et al. 2017).

The policy picks documents one after the other, each with the softmax of the remaining scores: an episode is a ranking
:math:`\pi` from the Plackett-Luce model of the scores. The pick at position t (from 1) earns :math:`(2^{y} - 1) D(t)`;
with returns :math:`R_t = \sum_{k \ge t} \gamma^{k-t} r_k` the surrogate

.. math:: \ell = \sum_t \gamma^{t-1} R_t \Big(\log\sum_{k \ge t} e^{s_{\pi_k}} - s_{\pi_t}\Big)

has the REINFORCE estimate of minus the gradient of the expected return as its gradient; returns and episode are held
constant. Each list and step has a new episode. The value is the surrogate of one episode, which cannot be compared
between steps, hence ``exact = False``; for an explicit episode (``draws``), the gradient is exactly its derivative.

For a fixed episode the surrogate is a Plackett-Luce likelihood with non-negative weights, which is
convex: the curvature is its exact diagonal, raised to at least 1e-6 of the list's mean.

``discount="jk"`` leaves the first two positions undiscounted, then :math:`1/\log_2 t` (Järvelin &
Kekäläinen 2002, as in the paper); ``"standard"`` is :math:`1/\log_2(1+t)`. Rewards are not
normalized, as in the paper; labels above 900 count as 900, so that no return overflows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numba import uint64
from numpy.typing import ArrayLike, NDArray

from plackett.base.arithmetic import exp, extremes, log, stable_order
from plackett.base.errors import DataError
from plackett.base.gains import OBJECTIVE_DISCOUNTS, ObjectiveDiscount, inverse_discount
from plackett.base.kernels import ListFunction, compiled, list_function, reordered
from plackett.base.ragged import Offsets
from plackett.base.random import combine, to_uniform
from plackett.objectives.driver import LIST_FUNCTION, Weighting
from plackett.objectives.objective import Limits, ListLabels, Objective, Prepared, check_between
from plackett.objectives.pairwise import WIDEST, raise_to_floor
from plackett.objectives.ranking import are_grades, label_order


@compiled
def weighted_likelihood(scores, order, weights, gradient, curvature):  # type: ignore[no-untyped-def]
    """Minus the weighted log-likelihood of a ranking; fills gradient and curvature."""
    buffer = np.empty((3, len(order)))
    ranked, picked, rest = buffer[0], buffer[1], buffer[2]  # the last two: q and its complement
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
    """Fill q and its complement; everything except the sums is vector code."""
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
    """Like :func:`_fill_picks` for scores so far apart that an exponential may underflow.

    Returns the cost.
    """
    top, total, value = ranked[-1], 0.0, 0.0
    for k in range(len(ranked) - 1, -1, -1):
        score = ranked[k]
        if score > top:  # sums are relative to the largest score so far, so that none overflows
            total *= np.exp(top - score)
            top = score
        exponential = np.exp(score - top)
        after = total
        total += exponential
        picked[k] = exponential / total
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
    negative = np.empty(len(scores))
    for i in range(len(scores)):
        negative[i] = np.log(-np.log(to_uniform(combine(key, uint64(i))))) - scores[i]
    return stable_order(negative, False)


def check_orders(order: ArrayLike, offsets: Offsets) -> NDArray[np.float64]:
    """Explicit rankings of all lists, one after the other; each must be a permutation."""
    orders = np.ascontiguousarray(order, dtype=np.float64)
    if orders.shape != (offsets[-1],):
        raise DataError(f"draws['order'] must be {offsets[-1]} numbers, one per document, got shape {orders.shape}.")
    for q in range(len(offsets) - 1):
        part = orders[offsets[q] : offsets[q + 1]]
        if not np.array_equal(np.sort(part), np.arange(len(part))):
            raise DataError(
                f"draws['order'] must hold, for list {q}, each of 0 to {len(part) - 1} once "
                f"(positions within the list, best first), got {part.tolist()[:10]}."
            )
    return orders


_EVEN, _TOP_HEAVY = 0.0, 1.0
_GRADES = 32  # whole labels below it are sorted by counting


@compiled
def _fill_draws(key, draws):  # type: ignore[no-untyped-def]
    for k in range(len(draws)):
        draws[k] = to_uniform(combine(key, uint64(k)))


@compiled
def _rank_grades(labels, draws, counts, order):  # type: ignore[no-untyped-def]
    """Sort by falling grade and shuffle ties in one pass; counts: two rows of ``_GRADES``."""
    placed, starts = counts[0], counts[1]
    placed[:] = 0
    for i in range(len(labels)):
        placed[int(labels[i])] += 1
    before = 0
    for grade in range(_GRADES - 1, -1, -1):
        starts[grade] = before
        before += placed[grade]
        placed[grade] = 0
    for i in range(len(labels)):
        grade = int(labels[i])
        start, k = starts[grade], placed[grade]
        placed[grade] = k + 1
        # Inside-out Fisher-Yates: the k-th of a grade swaps with one of those so far.
        other = start + int(draws[start + k] * (k + 1))
        order[start + k] = order[other]
        order[other] = i


@compiled
def _shuffle_ties(labels, draws, order):  # type: ignore[no-untyped-def]
    """The shuffle of :func:`_rank_grades` for documents that are sorted by label."""
    n, start = len(order), 0
    while start < n:
        # Find the end of a level first: between swaps, each comparison would wait for them.
        label, end = labels[order[start]], start + 1
        while end < n and labels[order[end]] == label:
            end += 1
        level, own_draws = order[start:end], draws[start:end]
        for k in range(end - start):
            other = int(own_draws[k] * (k + 1))
            level[k], level[other] = level[other], level[k]
        start = end


@compiled
def _fill_weights(kind, weights):  # type: ignore[no-untyped-def]
    n = len(weights)
    if kind == _EVEN:
        weights[:] = 1.0
        return
    last = 2.0**-n
    for i in range(n):
        weights[i] = (2.0 ** -(i + 1) - last) / (1.0 - (n + 1) * last)


@list_function(LIST_FUNCTION)
def listmle_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: kind of weights.

    ``prepared`` is empty where labels are grades. Otherwise it holds the documents by falling label or, for an explicit
    order, -1 minus its positions, which are not shuffled. The weights of the documents may follow.
    """
    n = len(scores)
    order, weights = np.empty(n, np.int64), np.empty(n)
    if len(prepared) == 0:
        _fill_draws(key, weights)
        _rank_grades(labels, weights, np.empty((2, _GRADES), np.int64), order)
    else:
        is_explicit = prepared[0] < 0.0
        for k in range(n):
            order[k] = int(-1.0 - prepared[k] if is_explicit else prepared[k])
        if not is_explicit:
            _fill_draws(key, weights)
            _shuffle_ties(labels, weights, order)
    _fill_weights(params[0], weights)
    if len(prepared) > n:
        for k in range(n):
            weights[k] *= prepared[n + order[k]]
    return weighted_likelihood(scores, order, weights, gradient, curvature)


@dataclass(frozen=True)
class _Likelihood(Objective):
    convex: ClassVar[bool] = True
    weighting: ClassVar[Weighting | None] = "order"
    draw: ClassVar[str | None] = "order"
    weights: ClassVar[float]
    function: ClassVar[ListFunction] = listmle_list

    seed: int = 0
    """Seed of the random order of documents with equal labels."""

    @property
    def params(self) -> tuple[float, ...]:
        return (self.weights,)

    def prepare(self, lists: ListLabels) -> Prepared | None:
        if "order" in lists.draws:
            return Prepared(-1.0 - check_orders(lists.draws["order"], lists.offsets), lists.offsets)
        # Grades are sorted while ties are shuffled, unless weights must follow the documents.
        if lists.document_weights is None and are_grades(lists.labels, _GRADES):
            return None
        return label_order(lists.labels, lists.offsets)


@dataclass(frozen=True)
class ListMLE(_Likelihood):
    """Minus the log-likelihood of the ranking by labels (Xia et al. 2008).

    >>> ListMLE().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [1.162, -0.684, -0.478]
    """

    name: ClassVar[str] = "listmle"
    weights: ClassVar[float] = _EVEN


@dataclass(frozen=True)
class PListMLE(_Likelihood):
    """ListMLE with weights that fall with the position (Lan et al. 2014).

    >>> PListMLE().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [0.526, -0.513, -0.014]
    """

    name: ClassVar[str] = "plistmle"
    weights: ClassVar[float] = _TOP_HEAVY


_TOP_LABEL = 900.0  # 2**900 leaves room for sums over documents, samples and lists


@compiled
def _fill_returns(order, labels, gamma, kind, returns):  # type: ignore[no-untyped-def]
    """Returns gamma^(t-1) R_t; kind: of ``OBJECTIVE_DISCOUNTS``."""
    n = len(order)
    ahead = 0.0
    for t in range(n - 1, -1, -1):
        gain = 2.0 ** min(np.float64(labels[order[t]]), _TOP_LABEL) - 1.0
        ahead = gain / inverse_discount(t, kind) + gamma * ahead
        returns[t] = ahead
    factor = 1.0
    for t in range(n):
        returns[t] *= factor
        factor *= gamma


@list_function(LIST_FUNCTION)
def mdprank_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Surrogate, gradient and curvature; params: gamma, kind of discount; prepared: an explicit episode."""
    order = prepared.astype(np.int64) if len(prepared) else draw_order(scores, key)
    returns = np.empty(len(scores))
    _fill_returns(order, labels, params[0], params[1], returns)
    value = weighted_likelihood(scores, order, returns, gradient, curvature)
    raise_to_floor(curvature)
    return value


@dataclass(frozen=True)
class MDPRank(Objective):
    """Policy gradient with one sampled ranking per list and step (Wei et al. 2017).

    >>> MDPRank().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [-1.918, -0.309, 2.227]
    """

    name: ClassVar[str] = "mdprank"
    exact: ClassVar[bool] = False
    weighting: ClassVar[Weighting | None] = "gain"
    draw: ClassVar[str | None] = "order"
    function: ClassVar[ListFunction] = mdprank_list
    limits: ClassVar[Limits] = {"gamma": partial(check_between, low=0.0, high=1.0)}
    choices: ClassVar[Mapping[str, Sequence[str]]] = {"discount": OBJECTIVE_DISCOUNTS}

    gamma: float = 1.0
    """Factor of the rewards of later positions."""
    discount: ObjectiveDiscount = "jk"
    """Discount of positions in the reward."""
    seed: int = 0
    """Seed of the episodes."""

    def prepare(self, lists: ListLabels) -> Prepared | None:
        if "order" not in lists.draws:
            return None
        return Prepared(check_orders(lists.draws["order"], lists.offsets), lists.offsets)
