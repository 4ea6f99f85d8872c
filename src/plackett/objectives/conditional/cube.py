r"""Closed forms over all sign vectors, valid rankings or not (Dubey et al. 2009, section 2).

Where the sums of the conditional models run over the whole cube :math:`\{-1, 1\}^{n_+ n_-}`, they
factorize over pairs. With :math:`\delta_{gb} = s_g - s_b`, :math:`q = \sigma(-2\delta)`, :math:`p
= 1 - q`, :math:`N = n_+ n_-`, and the loss 1 - AUC,

=============  ===========================================  =====================================
objective      value                                        second derivative of a pair
=============  ===========================================  =====================================
MLE (L1)       :math:`\sum \mathrm{softplus}(-2\delta)`     :math:`4 p q`
ConvexLoss     :math:`\sum\mathrm{softplus}(1/N-2\delta)`   :math:`4 p q` at the shifted argument
L2             :math:`\frac1N \sum q`                       at most :math:`4 p q / N`
L3 = L1 + L2   sum of both                                  :math:`4 p q (1 + (p - q)/N)`
ExpGain        :math:`-\log \frac1N \sum p`                 at most :math:`4 p q \, p / \sum p`
=============  ===========================================  =====================================

and :math:`\log Z = \sum \log 2\cosh\delta`. MLE, ConvexLoss and L3 are convex and their curvature
is the exact diagonal (L3 is convex although the paper says it is not in general: losses lie in [0,
1]). For L2 we drop the factor :math:`p - q \le 1` of the second derivative. For ExpGain, Jensen's
inequality with the current shares :math:`\tau = p / \sum p` gives the majorizer :math:`-\sum \tau
\log p` + constant, which touches it at the current scores; its diagonal is in the table. Both are
raised to 1e-6 of the list's mean.

With document weights, a pair counts w times, w the weight of its good, and N is the sum of these:
a good of weight 2 is the same as two of it. Where N is below 1, L3 may not be convex, and its
curvature is raised to 0.

The cube contains cyclic sign vectors (2 of 16 for two goods and two bads), so the values differ
from sums over rankings. A step costs O(n+ n-).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from plackett.base.kernels import compiled, list_function, reordered
from plackett.objectives.driver import LIST_FUNCTION, document_weights
from plackett.objectives.pairwise import (
    fill_exponentials,
    fill_ratios,
    raise_to_floor,
    twice_artanh,
)

MLE_LOSS = 0.0
EXP_GAIN = 1.0
CONVEX_LOSS = 2.0
L2_LOSS = 3.0
L3_LOSS = 4.0


def log_z(scores: ArrayLike, labels: ArrayLike) -> float:
    """Log of the normalizer of the distribution over all sign vectors, for one list.

    >>> round(log_z([0.0, 0.0], [1, 0]), 6)
    0.693147
    """
    s, relevant = np.asarray(scores, dtype=np.float64), np.asarray(labels) > 0
    gap = np.abs(s[relevant][:, None] - s[~relevant])
    return float(np.sum(gap + np.log1p(np.exp(-2.0 * gap))))


@list_function(LIST_FUNCTION)
def cube_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: which loss, prepared: document weights, if any."""
    loss = params[0]
    goods, bads = np.flatnonzero(labels > 0), np.flatnonzero(labels == 0)
    n_goods, weights = len(goods), document_weights(prepared, len(scores), 0)[goods]
    n_pairs = np.sum(weights) * len(bads)  # as if a good of weight 2 were there twice
    if n_pairs == 0:
        return 0.0
    # Goods before bads, doubled scores: a pair's argument is x_g - x_b.
    documents = np.concatenate((goods, bads))
    x = 2.0 * scores[documents]
    if loss == CONVEX_LOSS:
        x[n_goods:] += 1.0 / n_pairs
    g, h = np.zeros(len(x)), np.zeros(len(x))
    if loss == EXP_GAIN:
        value = _gain_over_pairs(x, n_goods, weights, n_pairs, g, h)
    else:
        value = _loss_over_pairs(x, n_goods, weights, n_pairs, loss, g, h)
    gradient[documents] = 2.0 * g
    curvature[documents] = 4.0 * h
    if loss in (EXP_GAIN, L2_LOSS):
        raise_to_floor(curvature)
    return value


@compiled
def _loss_over_pairs(x, n_goods, weights, n_pairs, loss, gradient, curvature):  # type: ignore[no-untyped-def]
    """Sum over pairs of a softplus(-z) + b sigma(-z), z = x_g - x_b; derivatives by x."""
    exponentials, ratios = np.empty((2, len(x))), np.empty(len(x))
    narrow = fill_exponentials(x, exponentials)
    softplus = 0.0 if loss == L2_LOSS else 1.0
    sigma = 1.0 / n_pairs if loss in (L2_LOSS, L3_LOSS) else 0.0
    value = 0.0
    for i in range(n_goods):
        fill_ratios(x, exponentials, narrow, i, n_goods, len(x), ratios)
        first, second = weights[i] * softplus, weights[i] * sigma
        value += _add_good(x, ratios, i, n_goods, first, second, gradient, curvature)
    return value


@reordered
def _add_good(x, ratios, i, n_goods, softplus, sigma, gradient, curvature):  # type: ignore[no-untyped-def]
    """Add all pairs of one good; ratios hold t = exp(-|z|) of its pairs."""
    t, other = ratios[n_goods:], x[n_goods:]
    g, h = gradient[n_goods:], curvature[n_goods:]
    score, value, own_gradient, own_curvature = x[i], 0.0, 0.0, 0.0
    # Without softplus, sigma is bounded by dropping p - q; with it the second derivative is exact.
    exact = 1.0 if softplus > 0.0 else 0.0
    for k in range(len(t)):
        z = score - other[k]
        inverse = 1.0 / ((1.0 + t[k]) * (2.0 + t[k]))
        share = (2.0 + t[k]) * inverse  # 1 / (1 + t)
        q = (t[k] if z > 0.0 else 1.0) * share
        bend = t[k] * share * share
        log1p = twice_artanh(t[k] * (1.0 + t[k]) * inverse)  # of t
        value += softplus * (max(-z, 0.0) + log1p) + sigma * q
        slope = softplus * q + sigma * bend
        curve = bend * max(softplus + sigma * (1.0 - 2.0 * q * exact), 0.0)
        g[k] += slope
        h[k] += curve
        own_gradient += slope
        own_curvature += curve
    gradient[i] -= own_gradient
    curvature[i] += own_curvature
    return value


@compiled
def _gain_over_pairs(x, n_goods, weights, n_pairs, gradient, curvature):  # type: ignore[no-untyped-def]
    """Minus the log of the mean of sigma(z) over pairs, and derivatives by x."""
    exponentials, ratios, parts = np.empty((2, len(x))), np.empty(len(x)), np.empty(len(x))
    narrow = fill_exponentials(x, exponentials)
    # Where sigmas may underflow they are relative to the largest: their ratios still count.
    top = 0.0 if narrow else min(np.max(x[:n_goods]) - np.min(x[n_goods:]), 0.0)
    total = 0.0
    for i in range(n_goods):
        fill_ratios(x, exponentials, narrow, i, n_goods, len(x), ratios)
        for j in range(n_goods, len(x)):  # sigma(z) (1 + t) is the exponential of min(z, 0)
            if narrow:
                parts[j] = 1.0 if x[i] > x[j] else ratios[j]
            else:
                parts[j] = np.exp(min(x[i] - x[j], 0.0) - top)
            parts[j] *= weights[i]
        total += _add_gain(x, ratios, parts, i, n_goods, gradient, curvature)
    gradient /= total
    curvature /= total
    return np.log(n_pairs) - top - np.log(total)


@reordered
def _add_gain(x, ratios, parts, i, n_goods, gradient, curvature):  # type: ignore[no-untyped-def]
    """Add all pairs of one good, not yet divided by the sum of the sigmas, which is returned."""
    t, part, other = ratios[n_goods:], parts[n_goods:], x[n_goods:]
    g, h = gradient[n_goods:], curvature[n_goods:]
    score, total, own_gradient, own_curvature = x[i], 0.0, 0.0, 0.0
    for k in range(len(t)):
        share = 1.0 / (1.0 + t[k])
        p = part[k] * share
        slope = p * (t[k] if score > other[k] else 1.0) * share
        bend = p * t[k] * share * share
        g[k] += slope
        h[k] += bend
        total += p
        own_gradient += slope
        own_curvature += bend
    gradient[i] -= own_gradient
    curvature[i] += own_curvature
    return total
