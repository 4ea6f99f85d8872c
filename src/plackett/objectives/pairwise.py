r"""Logistic functions of all pairs of a list, without an exponential per pair.

For a pair with scores x and x', everything logistic follows from :math:`t = e^{-|x - x'|} \le 1`:

.. math:: \frac{1}{1+e^{|x-x'|}} = \frac{t}{1+t}, \qquad
    \sigma(x)\sigma(-x) = \frac{t}{(1+t)^2}, \qquad
    \log(1 + e^{-(x-x')}) = \max(x'-x, 0) + \log(1+t).

Where the scores of a list span less than :data:`WIDEST` (all except degenerate lists), t is a
product of two of the 2n numbers :math:`e^{\pm(x_i - m)}`, m the middle of the scores, and
:math:`\log(1+t)` is a short series: one division and some multiplications per pair, which run in
vector registers.

:func:`raise_to_floor` serves objectives that are not convex. Trees divide the sum of gradients in a
leaf by the sum of curvatures; a document may have a gradient and almost no curvature, so each
curvature is at least a small share of its list's mean.
"""

from __future__ import annotations

import numpy as np

from plackett.base.kernels import compiled, reordered

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


_FLOOR_SHARE = 1e-6  # of the mean curvature of the list


@compiled
def raise_to_floor(curvature):  # type: ignore[no-untyped-def]
    """Raise each curvature of a list to 1e-6 of their mean."""
    mean = 0.0
    for h in curvature:
        mean += h / len(curvature)
    for i in range(len(curvature)):
        curvature[i] = max(curvature[i], _FLOOR_SHARE * mean)
