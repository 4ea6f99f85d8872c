r"""Smooth approximations of metrics: ApproxNDCG, ApproxMRR, ApproxMAP, ApproxERR and SoftRank.

**Approximate ranks.** A document's rank is one plus the number of documents above it; each comparison is smoothed:

.. math:: \hat\pi_i = 1 + \sum_{j \ne i} q_{ij}, \quad q_{ij} = \frac{1}{1 + e^{\eta(s_i - s_j)}}.

*ApproxNDCG* (Qin, Liu & Li 2010; Bruch et al. 2019) is minus NDCG at these ranks,

.. math:: \ell = -\frac{1}{\mathrm{IDCG}} \sum_i \frac{2^{y_i} - 1}{\log_2(1 + \hat\pi_i)}, \qquad
    a_i = \frac{\partial\ell}{\partial\hat\pi_i} =
    \frac{2^{y_i} - 1}{\mathrm{IDCG}} \frac{\ln 2}{(1 + \hat\pi_i)\ln^2(1 + \hat\pi_i)}, \qquad
    \frac{\partial\ell}{\partial s_k} = \eta \sum_{i \ne k} w_{ik}(a_i - a_k)

with :math:`w_{ik} = q_{ik}(1 - q_{ik})`.

*ApproxMRR* is minus the reciprocal approximate rank of the first relevant document (label > 0); which one is first is
smoothed in the same way, by a softmax of the scores of the relevant documents,

.. math:: \ell = -\sum_{i: y_i > 0} \frac{p_i}{\hat\pi_i}, \quad
    p_i = \frac{e^{\eta s_i}}{\sum_{j: y_j > 0} e^{\eta s_j}}, \qquad
    \frac{\partial\ell}{\partial s_k} = \eta \sum_{i \ne k} w_{ik}(a_i - a_k)
    - \eta p_k \Big(\frac{1}{\hat\pi_k} + \ell\Big), \quad a_i = \frac{p_i}{\hat\pi_i^2}.

With one relevant document it is the loss of TF-Ranking and Rax. With more, it tends to minus MRR as :math:`\eta` grows.
So does Rax's loss, which has a maximum instead of the softmax and is therefore not differentiable everywhere.
TF-Ranking's, a mean over documents weighted by label, does not. A list without an irrelevant document gives zeros. The
weight of a document multiplies its term :math:`p_i/\hat\pi_i`.

Every metric that is a function of comparisons :math:`q_{ij}` can be treated in this way. With
:math:`c_{ij} = \partial\ell/\partial q_{ij}`, the gradient is :math:`\eta\sum_{i \ne k}
w_{ik}(c_{ik} - c_{ki})`; a loss that depends on ranks alone has :math:`c_{ij} = a_i`.

*ApproxMAP* (after Qin, Liu & Li 2010) is minus average precision. Among the :math:`n^+` relevant
documents (label > 0), document i has the approximate rank :math:`\hat\rho_i = 1 + \sum_{j \ne i:
y_j > 0} q_{ij}`, a part of the sum of :math:`\hat\pi_i`, so that precisions stay below 1:

.. math:: \ell = -\frac{1}{n^+} \sum_{i: y_i > 0} \frac{\hat\rho_i}{\hat\pi_i}, \qquad
    c_{ij} = \frac{1}{n^+}\Big(\frac{\hat\rho_i}{\hat\pi_i^2} - \frac{[y_j > 0]}{\hat\pi_i}\Big).

The weight of a document multiplies its precision.

*ApproxERR* is minus the expected reciprocal rank (Chapelle et al. 2009): document i stops the user
with probability :math:`R_i = (2^{y_i} - 1)/2^{\max y}` if none above it did,

.. math:: \ell = -\sum_i T_i, \quad
    T_i = \frac{R_i}{\hat\pi_i} \prod_{j \ne i} (1 - R_j q_{ij}), \qquad
    c_{ij} = T_i\Big(\frac{1}{\hat\pi_i} + \frac{R_j}{1 - R_j q_{ij}}\Big).

**Curvature.** ApproxNDCG and ApproxMRR are concave in the ranks, so their linearization in the ranks bounds them from
above; what remains is a sum over pairs of :math:`(a_i - a_j) q_{ij}`, whose second derivative with respect to a score
is at most :math:`\eta^2 |a_i - a_j| w_{ij}` in size. The curvature is the sum of these over a document's pairs, for
ApproxMRR plus :math:`\eta^2 p_k |1/\hat\pi_k + \ell|` (products of derivatives of p and of ranks are never positive).
It bounds the diagonal of the Hessian, and no Newton step exceeds :math:`1/\eta`, the width of the smoothing. A floor of
1e-6 of the list's mean keeps quotients finite. For ApproxMAP and ApproxERR the curvature is the same sum,
:math:`\eta^2\sum_i w_{ik}|c_{ik} - c_{ki}|`. It is a bound for ApproxERR, whose second derivatives by comparisons of
one document are never positive; ApproxMAP is not concave in them.

O(n⁺n) time, where n⁺ documents are relevant, O(n) memory.

**SoftRank**: expected NDCG when scores are Gaussian (Taylor et al. 2008). Each score is drawn from :math:`N(s_i,
\sigma^2)`, independently in each comparison, so that i beats j with probability :math:`b_{ij} = \Phi((s_i -
s_j)/(\sqrt2\sigma))`, and the number of documents that beat j has the distribution :math:`p_j` of a sum of independent
coin flips. With discounts :math:`D_r = 1/\log_2(2 + r)`, r counted from 0,

.. math:: \ell = -\frac{1}{\mathrm{IDCG}} \sum_j (2^{y_j} - 1) \sum_r D_r\, p_j(r).

**Gradient.** :math:`p_j` is linear in each coin: with :math:`p_{j \setminus i}` the distribution without document i,

.. math:: A_{ji} = \frac{\partial\ell}{\partial b_{ij}} =
    \frac{2^{y_j} - 1}{\mathrm{IDCG}} \sum_r p_{j \setminus i}(r)\,(D_r - D_{r+1}) \ge 0, \qquad
    \frac{\partial\ell}{\partial s_k} = \sum_{i \ne k} f_{ik}(A_{ik} - A_{ki}), \qquad
    f_{ik} = \frac{e^{-(s_i - s_k)^2/4\sigma^2}}{2\sigma\sqrt\pi}.

:math:`p_{j \setminus i}` follows from :math:`p_j(r) = b\,p_{j \setminus i}(r-1) + (1-b)\,p_{j \setminus i}(r)` in O(n):
upwards from r = 0 where b ≤ 1/2, downwards from the end where b > 1/2. Each step multiplies the error made so far by at
most :math:`\min(b, 1-b)/\max(b, 1-b) \le 1`, so errors never grow beyond their sum.

**Curvature.** Second derivatives by two coins of the same law are never positive, because D is convex. What is left is
at most :math:`\sum_i |f'_{ik}|\,(A_{ik} + A_{ki})`, with :math:`|f'| = f |s_i - s_k|/\tau^2` and :math:`\tau =
\sqrt2\sigma`. Because f' is zero at ties, the curvature uses :math:`\max(\tau, |s_i - s_k|)` instead of the distance:
it bounds the diagonal of the Hessian, and no Newton step exceeds :math:`\tau`, the width of the smoothing. A floor of
1e-6 of the list's mean keeps quotients finite.

O(n⁺n²) time, where n⁺ documents are relevant, O(n) memory.
"""

from dataclasses import dataclass
from math import erfc
from typing import ClassVar

import numpy as np

from plackett.base.gains import discount, scaled_gain
from plackett.base.kernels import ListFunction, compiled, list_function, reordered
from plackett.objectives.driver import LIST_FUNCTION, Weighting, document_weights
from plackett.objectives.objective import Limits, Objective, check_positive
from plackett.objectives.pairwise import fill_exponentials, fill_ratios, raise_to_floor
from plackett.objectives.ranking import prepare_gains


@reordered
def _smooth_rank(x, ratios, i):  # type: ignore[no-untyped-def]
    # The comparison with itself adds one half.
    rank = 0.5
    for j in range(len(x)):
        rank += (ratios[j] if x[i] > x[j] else 1.0) / (1.0 + ratios[j])
    return rank


@reordered
def _add_slopes(ratios, slopes, i, low, g, h):  # type: ignore[no-untyped-def]
    """Add the pairs of document i with all from ``low`` on, given the slopes a of the ranks."""
    t, a, gs, hs = ratios[low:], slopes[low:], g[low:], h[low:]
    slope, own_gradient, own_curvature = slopes[i], 0.0, 0.0
    for k in range(len(t)):
        share = 1.0 / (1.0 + t[k])
        force = (slope - a[k]) * t[k] * share * share
        gs[k] += force
        hs[k] += abs(force)
        own_gradient -= force
        own_curvature += abs(force)
    g[i] += own_gradient
    h[i] += own_curvature


@compiled
def _relevant_first(labels):  # type: ignore[no-untyped-def]
    """Positions with relevant documents before the others, and the number of relevant ones."""
    relevant = np.flatnonzero(labels > 0.0)
    return np.concatenate((relevant, np.flatnonzero(labels <= 0.0)[::-1])), len(relevant)


@compiled
def _fill_ranks(x, exponentials, narrow, relevant, ratios, ranks):  # type: ignore[no-untyped-def]
    for i in range(relevant):
        fill_ratios(x, exponentials, narrow, i, 0, len(x), ratios)
        ranks[i] = _smooth_rank(x, ratios, i)


@compiled
def _fill_derivatives(x, exponentials, narrow, relevant, ratios, slopes, g, h):  # type: ignore[no-untyped-def]
    # Pairs without a relevant document have two slopes of zero.
    for i in range(relevant):
        fill_ratios(x, exponentials, narrow, i, i + 1, len(x), ratios)
        _add_slopes(ratios, slopes, i, i + 1, g, h)


@compiled
def _unsort(order, eta, g, h, gradient, curvature):  # type: ignore[no-untyped-def]
    """Fill the derivatives by the scores from those by x, which is sorted."""
    gradient[order] = eta * g
    curvature[order] = eta * eta * h
    raise_to_floor(curvature)


@list_function(LIST_FUNCTION)
def approxndcg_list(scores, labels, prepared, _key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: eta, prepared: normalized gains."""
    n, eta = len(scores), params[0]
    order, relevant = _relevant_first(labels)
    x, gains = eta * scores[order], prepared[order]
    exponentials, ratios, ranks = np.empty((2, n)), np.empty(n), np.empty(n)
    slopes, g, h = np.zeros(n), np.zeros(n), np.zeros(n)
    narrow = fill_exponentials(x, exponentials)
    _fill_ranks(x, exponentials, narrow, relevant, ratios, ranks)
    value = 0.0
    for i in range(relevant):
        logarithm = np.log1p(ranks[i])
        value -= gains[i] * np.log(2.0) / logarithm
        slopes[i] = gains[i] * np.log(2.0) / ((1.0 + ranks[i]) * logarithm * logarithm)
    _fill_derivatives(x, exponentials, narrow, relevant, ratios, slopes, g, h)
    _unsort(order, eta, g, h, gradient, curvature)
    return value


@list_function(LIST_FUNCTION)
def approxmrr_list(scores, labels, prepared, _key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: eta, prepared: document weights, if any."""
    n, eta = len(scores), params[0]
    order, relevant = _relevant_first(labels)
    if relevant == n:
        return 0.0
    x = eta * scores[order]
    exponentials, ratios, ranks = np.empty((2, n)), np.empty(n), np.empty(n)
    slopes, g, h = np.zeros(n), np.zeros(n), np.zeros(n)
    narrow = fill_exponentials(x, exponentials)
    _fill_ranks(x, exponentials, narrow, relevant, ratios, ranks)
    first = np.exp(x[:relevant] - np.max(x[:relevant]))
    first /= np.sum(first)
    weights = document_weights(prepared, n, 0)[order]
    value = -np.sum(weights[:relevant] * first / ranks[:relevant])
    slopes[:relevant] = weights[:relevant] * first / ranks[:relevant] ** 2
    _fill_derivatives(x, exponentials, narrow, relevant, ratios, slopes, g, h)
    for i in range(relevant):
        force = first[i] * (weights[i] / ranks[i] + value)
        g[i] -= force
        h[i] += abs(force)
    _unsort(order, eta, g, h, gradient, curvature)
    return value


@list_function(LIST_FUNCTION)
def approxmap_list(scores, labels, prepared, _key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: eta, prepared: document weights, if any."""
    n, eta = len(scores), params[0]
    order, relevant = _relevant_first(labels)
    x, weights = eta * scores[order], document_weights(prepared, n, 0)[order]
    exponentials, ratios, ranks, inner = np.empty((2, n)), np.empty(n), np.empty(n), np.empty(n)
    slopes, inner_slopes, g, h = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    narrow = fill_exponentials(x, exponentials)
    _fill_ranks(x, exponentials, narrow, relevant, ratios, ranks)
    _fill_ranks(x[:relevant], exponentials, narrow, relevant, ratios, inner)
    value = 0.0
    for i in range(relevant):
        share = weights[i] / (relevant * ranks[i])
        value -= share * inner[i]
        slopes[i] = share * inner[i] / ranks[i]
        inner_slopes[i] = slopes[i] - share
    for i in range(relevant):
        fill_ratios(x, exponentials, narrow, i, i + 1, n, ratios)
        _add_slopes(ratios[:relevant], inner_slopes, i, i + 1, g, h)
        _add_slopes(ratios, slopes, i, relevant, g, h)
    _unsort(order, eta, g, h, gradient, curvature)
    return value


_LEAST_PASS = 1e-300  # lower bound on the probability to continue, which rounding may make zero


@compiled
def _fill_comparisons(x, exponentials, narrow, i, ratios, below):  # type: ignore[no-untyped-def]
    """Fill q of document i with all documents."""
    fill_ratios(x, exponentials, narrow, i, 0, len(x), ratios)
    for j in range(len(x)):
        below[j] = (ratios[j] if x[i] > x[j] else 1.0) / (1.0 + ratios[j])


@list_function(LIST_FUNCTION)
def approxerr_list(scores, labels, _prepared, _key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: eta."""
    n, eta = len(scores), params[0]
    order, relevant = _relevant_first(labels)
    x, top = eta * scores[order], np.float64(np.max(labels))
    exponentials, ratios, below = np.empty((2, n)), np.empty(n), np.empty(n)
    stops, ranks, terms = np.zeros(n), np.ones(n), np.zeros(n)
    g, h = np.zeros(n), np.zeros(n)
    for i in range(relevant):
        stops[i] = scaled_gain(np.float64(labels[order[i]]), top)
    narrow = fill_exponentials(x, exponentials)
    value = 0.0
    for i in range(relevant):
        _fill_comparisons(x, exponentials, narrow, i, ratios, below)
        ranks[i] = 1.0 + np.sum(below) - below[i]
        terms[i] = stops[i] / ranks[i]
        for j in range(relevant):
            if j != i:
                terms[i] *= max(1.0 - stops[j] * below[j], _LEAST_PASS)
        value -= terms[i]
    for i in range(relevant):
        _fill_comparisons(x, exponentials, narrow, i, ratios, below)
        for k in range(i + 1, n):
            passed = max(1.0 - stops[k] * below[k], _LEAST_PASS)
            passed_back = max(1.0 - stops[i] * (1.0 - below[k]), _LEAST_PASS)
            force = terms[i] * (1.0 / ranks[i] + stops[k] / passed)
            force -= terms[k] * (1.0 / ranks[k] + stops[i] / passed_back)
            force *= ratios[k] / (1.0 + ratios[k]) ** 2
            g[k] += force
            g[i] -= force
            h[k] += abs(force)
            h[i] += abs(force)
    _unsort(order, eta, g, h, gradient, curvature)
    return value


@dataclass(frozen=True)
class _Approx(Objective):
    limits: ClassVar[Limits] = {"eta": check_positive}

    eta: float = 10.0
    """Steepness of the comparisons: a larger value approximates the metric better, with flatter gradients."""


@dataclass(frozen=True)
class ApproxNDCG(_Approx):
    """Minus NDCG of approximate ranks (Qin, Liu & Li 2010).

    >>> ApproxNDCG().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [0.028, -0.051, 0.023]
    """

    name: ClassVar[str] = "approxndcg"
    weighting: ClassVar[Weighting | None] = "gain"
    function: ClassVar[ListFunction] = approxndcg_list
    prepare = prepare_gains


@dataclass(frozen=True)
class ApproxMRR(_Approx):
    """Minus the reciprocal approximate rank of the first relevant document (label > 0).

    >>> ApproxMRR().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [0.043, -0.115, 0.072]
    """

    name: ClassVar[str] = "approxmrr"
    weighting: ClassVar[Weighting | None] = "order"
    function: ClassVar[ListFunction] = approxmrr_list


@dataclass(frozen=True)
class ApproxMAP(_Approx):
    """Minus average precision of approximate ranks (Qin, Liu & Li 2010); relevant: label > 0.

    >>> ApproxMAP().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [0.023, -0.011, -0.012]
    """

    name: ClassVar[str] = "approxmap"
    weighting: ClassVar[Weighting | None] = "order"
    function: ClassVar[ListFunction] = approxmap_list


@dataclass(frozen=True)
class ApproxERR(_Approx):
    """Minus expected reciprocal rank of approximate ranks, with each list's top grade.

    >>> ApproxERR().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [0.033, -0.07, 0.037]
    """

    name: ClassVar[str] = "approxerr"
    weighting: ClassVar[Weighting | None] = "gain"
    function: ClassVar[ListFunction] = approxerr_list


@compiled
def _fill_law(beats, loses, j, law):  # type: ignore[no-untyped-def]
    """Fill the distribution of the number of documents above j; beats[i]: probability that i is above."""
    law[:] = 0.0
    law[0] = 1.0
    count = 0
    for i in range(len(beats)):
        if i == j:
            continue
        count += 1
        for r in range(count, 0, -1):
            law[r] = law[r] * loses[i] + law[r - 1] * beats[i]
        law[0] *= loses[i]


@compiled
def _cost_of_defeat(law, drops, beat, lose):  # type: ignore[no-untyped-def]
    """Mean drop of the discount by one more document above, under the law without one coin."""
    last = len(law) - 1
    cost, rest = 0.0, 0.0
    if beat <= lose:
        inverse, back = 1.0 / lose, beat / lose
        for r in range(last):
            rest = law[r] * inverse - rest * back
            cost += rest * drops[r]
    else:
        inverse, back = 1.0 / beat, lose / beat
        for r in range(last, 0, -1):
            rest = law[r] * inverse - rest * back
            cost += rest * drops[r - 1]
    return cost


@compiled
def _add_defeats(scores, sigma, beats, loses, law, drops, gain, j, gradient, curvature):  # type: ignore[no-untyped-def]
    """Add what the law of document j contributes to the derivatives by all scores."""
    width = np.sqrt(2.0) * sigma
    for i in range(len(scores)):
        distance = abs(scores[i] - scores[j])
        density = np.exp(-((distance / (2.0 * sigma)) ** 2)) / (2.0 * sigma * np.sqrt(np.pi))
        if i == j or density == 0.0:
            continue
        force = density * gain * _cost_of_defeat(law, drops, beats[i], loses[i])
        bend = abs(force) * max(width, distance) / (width * width)
        gradient[i] += force
        gradient[j] -= force
        curvature[i] += bend
        curvature[j] += bend


@list_function(LIST_FUNCTION)
def softrank_list(scores, _labels, prepared, _key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: sigma, prepared: normalized gains."""
    n, sigma = len(scores), params[0]
    discounts, drops = np.empty(n), np.empty(n)
    beats, loses, law = np.empty(n), np.empty(n), np.empty(n)
    for r in range(n):
        discounts[r] = discount(r)
        drops[r] = discount(r) - discount(r + 1)
    value = 0.0
    for j in range(n):
        if prepared[j] == 0.0:
            continue
        for i in range(n):
            lead = (scores[i] - scores[j]) / (2.0 * sigma)
            beats[i], loses[i] = 0.5 * erfc(-lead), 0.5 * erfc(lead)
        _fill_law(beats, loses, j, law)
        for r in range(n):
            value -= prepared[j] * law[r] * discounts[r]
        _add_defeats(scores, sigma, beats, loses, law, drops, prepared[j], j, gradient, curvature)
    raise_to_floor(curvature)
    return value


@dataclass(frozen=True)
class SoftRank(Objective):
    """Minus expected NDCG under Gaussian scores (Taylor et al. 2008).

    >>> SoftRank().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [0.136, -0.177, 0.041]

    Parameters
    ----------
    sigma
        Standard deviation of each score.
    """

    name: ClassVar[str] = "softrank"
    weighting: ClassVar[Weighting | None] = "gain"
    function: ClassVar[ListFunction] = softrank_list
    limits: ClassVar[Limits] = {"sigma": check_positive}
    prepare = prepare_gains

    sigma: float = 0.5
