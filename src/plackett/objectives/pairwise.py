r"""Losses of pairs with different labels: RankNet, RankBoost and squared error.

**Logistic functions of all pairs**, without an exponential per pair.

For a pair with scores x and x', everything logistic follows from :math:`t = e^{-|x - x'|} \le 1`:

.. math:: \frac{1}{1+e^{|x-x'|}} = \frac{t}{1+t}, \qquad
    \sigma(x)\sigma(-x) = \frac{t}{(1+t)^2}, \qquad
    \log(1 + e^{-(x-x')}) = \max(x'-x, 0) + \log(1+t).

Where the scores of a list span less than :data:`WIDEST` (all except degenerate lists), t is a product of two of the 2n
numbers :math:`e^{\pm(x_i - m)}`, m the middle of the scores, and :math:`\log(1+t)` is a short series: one division and
some multiplications per pair, which run in vector registers.

:func:`raise_to_floor` serves objectives that are not convex. Trees divide the sum of gradients in a
leaf by the sum of curvatures; a document may have a gradient and almost no curvature, so each
curvature is at least a small share of its list's mean.

**RankNet**: the logistic loss of every pair of documents with different labels.

.. math::

    \ell = \sum_{y_i > y_j} \log(1 + e^{-\sigma(s_i - s_j)}), \qquad
    \frac{\partial\ell}{\partial s_i} = -\frac{\partial\ell}{\partial s_j} = -\sigma q_{ij}, \qquad
    \frac{\partial^2\ell}{\partial s_i^2} = \frac{\partial^2\ell}{\partial s_j^2} =
    \sigma^2 q_{ij}(1 - q_{ij})

summed over the pairs of a document, with :math:`q_{ij} = 1/(1 + e^{\sigma(s_i - s_j)})`. Convex; the curvature is
exact. Burges et al. (2005). Time grows with the number of pairs whose labels differ (documents are visited by label, so
other pairs are skipped); O(n) memory. The weight of a pair is the document weight of its better document.

**RankBoost**: the exponential over pairs with different labels (Freund et al. 2003).

.. math::

    \ell = \sum_{y_i > y_j} e^{-(s_i - s_j)}, \qquad
    \frac{\partial\ell}{\partial s_d} = \mathrm{down}_d - \mathrm{up}_d, \qquad
    \frac{\partial^2\ell}{\partial s_d^2} = \mathrm{down}_d + \mathrm{up}_d

with :math:`\mathrm{up}_d = e^{-s_d} \sum_{y_j < y_d} e^{s_j}` and :math:`\mathrm{down}_d = e^{s_d} \sum_{y_i > y_d}
e^{-s_i}`. It is convex. The pairs factorize, so after sorting by label the cost is O(n), for any number of levels; the
sums are kept as logarithms. The weight of a pair is the document weight of its better document.

Exponentials saturate: up, down and the value are at most :math:`e^{700}`. The gradient is that of
the value, and sums to zero, as long as none of them saturates.

**Squared error**, as a mean over the pairs of a list, so that long lists do not dominate (as in
TF-Ranking and Rax). With P pairs of different labels,

.. math:: \ell = \frac1P \sum_{y_i > y_j} ((s_i - s_j) - (y_i - y_j))^2.

It regresses differences of scores on differences of labels (Cossock & Zhang 2006 bound DCG by it); with :math:`d = s -
y` its gradient is :math:`2(n_i d_i - \sum_j d_j)/P` over the :math:`n_i` partners of i, which have another label, and
its curvature, exact, is :math:`2n_i/P`. Sums per level give it in O(n) after sorting by label. It is convex; the weight
of a pair is the document weight of its better document, and P counts pairs without weights.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plackett.base.arithmetic import stable_order
from plackett.base.kernels import ListFunction, compiled, list_function, reordered
from plackett.objectives.driver import LIST_FUNCTION, Weighting, document_weights
from plackett.objectives.objective import Limits, Objective, check_positive
from plackett.objectives.ranking import prepare_order

WIDEST = 600.0  # e**300 and e**-300 are far from overflow: products keep all their bits


@compiled
def fill_exponentials(x, exponentials):  # type: ignore[no-untyped-def]
    """Fill two rows, exp(x - m) and exp(m - x); returns whether they may be used."""
    low, high = np.min(x), np.max(x)
    if not high - low < WIDEST:
        return False
    middle = low + 0.5 * (high - low)
    for i in range(len(x)):
        exponentials[0, i] = np.exp(x[i] - middle)
        exponentials[1, i] = 1.0 / exponentials[0, i]
    return True


@compiled
def fill_ratios(x, exponentials, narrow, i, low, high, ratios):  # type: ignore[no-untyped-def]
    """Fill t of document i with each of the documents from low to high."""
    out = ratios[low:high]
    if narrow:
        up, down = exponentials[0, low:high], exponentials[1, low:high]
        own_up, own_down = exponentials[0, i], exponentials[1, i]
        for k in range(high - low):
            out[k] = min(own_up * down[k], own_down * up[k])
    else:
        for k in range(high - low):
            out[k] = np.exp(-abs(x[i] - x[low + k]))


@reordered
def twice_artanh(z):  # type: ignore[no-untyped-def]
    r"""The series of :math:`2\,\mathrm{artanh}(z)` for z in [0, 1/3].

    For z = t/(2 + t) with t in [0, 1] it is log(1 + t). The first term left out,
    :math:`z^{32}/33`, is below the last bit of the first one.
    """
    series = 0.0
    for k in range(31, 0, -2):
        series = series * z * z + 1.0 / k
    return 2.0 * z * series


@reordered
def add_pairs(x, ratios, weights, i, low, gradient, curvature):  # type: ignore[no-untyped-def]
    r"""Add the pairs of document i with all documents from ``low`` on.

    A pair with weight w > 0 prefers document i and costs :math:`w \log(1 + e^{-(x_i - x_j)})`; one
    with w < 0 prefers the other one; one with w = 0 costs nothing.

    Returns the cost and the sum of the sizes of the pairs' derivatives.
    """
    t, c, other = ratios[low:], weights[low:], x[low:]
    g, h = gradient[low:], curvature[low:]
    score, cost, total, own_gradient, own_curvature = x[i], 0.0, 0.0, 0.0, 0.0
    for k in range(len(t)):
        weight = abs(c[k])
        margin = score - other[k] if c[k] > 0.0 else other[k] - score
        inverse = 1.0 / ((1.0 + t[k]) * (2.0 + t[k]))
        share = (2.0 + t[k]) * inverse  # 1 / (1 + t)
        sigmoid = (t[k] if margin > 0.0 else 1.0) * share
        pair_curvature = weight * t[k] * share * share
        cost += weight * (max(-margin, 0.0) + twice_artanh(t[k] * (1.0 + t[k]) * inverse))
        total += weight * sigmoid
        g[k] += c[k] * sigmoid
        h[k] += pair_curvature
        own_gradient -= c[k] * sigmoid
        own_curvature += pair_curvature
    gradient[i] += own_gradient
    curvature[i] += own_curvature
    return cost, total


@compiled
def add_pair(scores, high, low, weight, sigma, gradient, curvature):  # type: ignore[no-untyped-def]
    """Add one pair of documents, of which ``high`` is the better one; returns its cost."""
    x = sigma * (scores[high] - scores[low])
    t = np.exp(-abs(x))
    share = 1.0 / (1.0 + t)
    force = weight * sigma * (t if x > 0.0 else 1.0) * share
    bend = weight * sigma * sigma * t * share * share
    gradient[high] -= force
    gradient[low] += force
    curvature[high] += bend
    curvature[low] += bend
    return weight * (max(-x, 0.0) + np.log1p(t))


_FLOOR_SHARE = 1e-6  # of the mean curvature of the list


@compiled
def raise_to_floor(curvature):  # type: ignore[no-untyped-def]
    """Raise each curvature of a list to 1e-6 of their mean."""
    mean = 0.0
    for h in curvature:
        mean += h / len(curvature)
    for i in range(len(curvature)):
        curvature[i] = max(curvature[i], _FLOOR_SHARE * mean)


@list_function(LIST_FUNCTION)
def ranknet_list(scores, labels, prepared, _key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: sigma, prepared: documents by falling label, document weights, if any."""
    n = len(scores)
    sigma, order = params[0], prepared[:n].astype(np.int64)
    x, pair_weights = sigma * scores[order], document_weights(prepared, n, n)[order]
    exponentials, ratios, weights = np.empty((2, n)), np.empty(n), np.ones(n)
    g, h = np.zeros(n), np.zeros(n)
    narrow = fill_exponentials(x, exponentials)
    value = 0.0
    lower = 0  # where labels lower than that of document i begin
    for i in range(n):
        while lower < n and labels[order[lower]] == labels[order[i]]:
            lower += 1
        if len(prepared) > n:
            weights[lower:] = pair_weights[i]  # document i is the better one of these pairs
        fill_ratios(x, exponentials, narrow, i, lower, n, ratios)
        value += add_pairs(x, ratios, weights, i, lower, g, h)[0]
    gradient[order] = sigma * g
    curvature[order] = sigma * sigma * h
    return value


@dataclass(frozen=True)
class RankNet(Objective):
    """The logistic loss of all pairs with different labels (Burges et al. 2005).

    >>> RankNet().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [1.289, -1.0, -0.289]

    Parameters
    ----------
    sigma
        Slope of the logistic function.
    """

    name: ClassVar[str] = "ranknet"
    convex: ClassVar[bool] = True
    weighting: ClassVar[Weighting | None] = "order"
    function: ClassVar[ListFunction] = ranknet_list
    limits: ClassVar[Limits] = {"sigma": check_positive}
    prepare = prepare_order

    sigma: float = 1.0


_LARGEST_EXPONENT = 700.0
_LARGEST = np.exp(_LARGEST_EXPONENT)


@compiled
def _fill_partner_sums(scores, labels, weights, order, side, sums):  # type: ignore[no-untyped-def]
    """For each document d, the sum of w exp(side * (s_d - s_e)) over e of the levels before.

    w is the weight of the one with the higher label: d if labels rise (side -1), e if they fall.
    """
    top, total = -np.inf, 0.0  # of the levels before, exp(top) * total
    start = 0
    while start < len(order):
        stop = start
        while stop < len(order) and labels[order[stop]] == labels[order[start]]:
            d = order[stop]
            exponent = top + np.log(total) + side * scores[d] if total > 0.0 else -np.inf
            if side < 0.0 and weights[d] != 1.0:
                exponent += np.log(weights[d])
            sums[d] = np.exp(min(exponent, _LARGEST_EXPONENT))
            stop += 1
        for d in order[start:stop]:
            exponent = -side * scores[d]
            if exponent > top:
                total *= np.exp(top - exponent)
                top = exponent
            total += np.exp(exponent - top) * (weights[d] if side > 0.0 else 1.0)
        start = stop


@list_function(LIST_FUNCTION)
def rankboost_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; prepared: document weights, if any."""
    weights = document_weights(prepared, len(scores), 0)
    order = stable_order(labels, False)
    up, down = np.empty(len(scores)), np.empty(len(scores))
    _fill_partner_sums(scores, labels, weights, order, -1.0, up)
    _fill_partner_sums(scores, labels, weights, order[::-1].copy(), 1.0, down)
    value = 0.0
    for d in range(len(scores)):
        value = min(value + up[d], _LARGEST)
        gradient[d] = down[d] - up[d]
        curvature[d] = down[d] + up[d]
    return value


@dataclass(frozen=True)
class RankBoost(Objective):
    """Exponential loss over all pairs with different labels (Freund et al. 2003).

    >>> RankBoost().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [3.717, -2.162, -1.555]
    """

    name: ClassVar[str] = "rankboost"
    convex: ClassVar[bool] = True
    weighting: ClassVar[Weighting | None] = "order"
    function: ClassVar[ListFunction] = rankboost_list


@compiled
def count_pairs(labels, by_label):  # type: ignore[no-untyped-def]
    """Number of pairs with different labels."""
    n, pairs, start = len(labels), 0.0, 0
    for k in range(1, n + 1):
        if k == n or labels[by_label[k]] != labels[by_label[start]]:
            pairs += float(k - start) * (n - k)
            start = k
    return pairs


@compiled
def _add_squares(d, labels, weights, by_label, is_better, gradient, curvature):  # type: ignore[no-untyped-def]
    """Add the pairs of each document with those of the levels before; returns their squares."""
    value, count, total, squares = 0.0, 0.0, 0.0, 0.0
    start, n = 0, len(d)
    while start < n:
        stop = start
        while stop < n and labels[by_label[stop]] == labels[by_label[start]]:
            i = by_label[stop]
            weight = weights[i] if is_better else 1.0
            difference = count * d[i] - total
            value += weight * max(d[i] * (difference - total) + squares, 0.0)
            gradient[i] += weight * 2.0 * difference
            curvature[i] += weight * 2.0 * count
            stop += 1
        for i in by_label[start:stop]:
            weight = 1.0 if is_better else weights[i]
            count += weight
            total += weight * d[i]
            squares += weight * d[i] * d[i]
        start = stop
    return value


@list_function(LIST_FUNCTION)
def pairsquared_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; prepared: weights, if any."""
    n, by_label = len(scores), stable_order(labels, True)
    weights = document_weights(prepared, n, 0)
    d = scores - labels.astype(np.float64)
    d -= np.mean(d)  # smaller squares, which lose fewer digits
    # Falling labels: the documents before are the better ones. Rising: the document itself is.
    value = _add_squares(d, labels, weights, by_label, False, gradient, curvature)
    _add_squares(d, labels, weights, by_label[::-1].copy(), True, gradient, curvature)
    pairs = count_pairs(labels, by_label)
    gradient /= pairs
    curvature /= pairs
    return value / pairs


@dataclass(frozen=True)
class PairSquared(Objective):
    """Mean squared error of score differences against label differences, over pairs.

    >>> PairSquared().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [2.8, -2.0, -0.8]
    """

    name: ClassVar[str] = "pairsquared"
    convex: ClassVar[bool] = True
    weighting: ClassVar[Weighting | None] = "order"
    function: ClassVar[ListFunction] = pairsquared_list
