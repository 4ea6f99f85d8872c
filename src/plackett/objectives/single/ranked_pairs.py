"""The pairs of one list; :mod:`plackett.objectives.single.pairs` has the formulas."""

from __future__ import annotations

import numpy as np
from numba import float32

from plackett.base.arithmetic import exp_single
from plackett.base.kernels import reordered
from plackett.objectives.single.ranks import fill_order, padded

_SCORE_OFFSET = 0.01
_WIDEST = 80.0  # sigma times a distance of scores whose exponential single precision can hold


@reordered
def _add_pairs(a, up, down, gains, d, steps, g, h):  # type: ignore[no-untyped-def]
    """Add the pairs of the document at rank a with all later ones; returns the sum of |lambda|.

    ``up`` and ``down`` are the exponentials of sigma times the scores and of their negatives.
    """
    own, gain, discount = up[a], gains[a], d[a]
    steps = steps[: len(d) - a - 1]
    down, gains, d, g_later, h_later = (
        down[a + 1 :],
        gains[a + 1 :],
        d[a + 1 :],
        g[a + 1 :],
        h[a + 1 :],
    )
    sum_g, sum_h, size = float32(0.0), float32(0.0), float32(0.0)
    for b in range(len(down)):
        difference = gain - gains[b]
        w = difference * (discount - d[b] + steps[b])
        q = float32(1.0) / (float32(1.0) + own * down[b])
        slope = w * (q if difference > float32(0.0) else float32(1.0) - q)
        bend = abs(w) * (q * (float32(1.0) - q))
        sum_g += slope
        sum_h += bend
        size += abs(slope)
        g_later[b] += slope
        h_later[b] += bend
    g[a] -= sum_g
    h[a] += sum_h
    return size


@reordered
def _add_other_pairs(a, s, gains, d, steps, sigma, score_norm, g, h):  # type: ignore[no-untyped-def]
    """The same with an exponential per pair and, if asked for, division by 0.01 + the distance."""
    own, gain, discount = s[a], gains[a], d[a]
    steps = steps[: len(d) - a - 1]
    s, gains, d, g_later, h_later = s[a + 1 :], gains[a + 1 :], d[a + 1 :], g[a + 1 :], h[a + 1 :]
    sum_g, sum_h, size = float32(0.0), float32(0.0), float32(0.0)
    slack, stretch = (
        (float32(_SCORE_OFFSET), float32(1.0)) if score_norm else (float32(1.0), float32(0.0))
    )
    for b in range(len(s)):
        difference = gain - gains[b]
        distance = own - s[b]
        w = difference * (discount - d[b] + steps[b]) / (slack + stretch * distance)
        q = float32(1.0) / (float32(1.0) + exp_single(sigma * distance))
        slope = w * (q if difference > float32(0.0) else float32(1.0) - q)
        bend = abs(w) * (q * (float32(1.0) - q))
        sum_g += slope
        sum_h += bend
        size += abs(slope)
        g_later[b] += slope
        h_later[b] += bend
    g[a] -= sum_g
    h[a] += sum_h
    return size


@reordered
def _add_ranked(n, work, discounts, steps, rows, sigma, score_norm):  # type: ignore[no-untyped-def]
    """Sum over the pairs of a list in rank order; returns the sum of |lambda|."""
    s, gains, g, h = work[1, :n], work[2, :n], work[3, :n], work[4, :n]
    up, down, d = work[5, :n], work[6, :n], discounts[:n]
    g[:] = float32(0.0)
    h[:] = float32(0.0)
    normed = score_norm and s[0] != s[n - 1]
    narrow = sigma * (s[0] - s[n - 1]) < float32(_WIDEST) and not normed
    size = float32(0.0)
    if narrow:
        for k in range(n):
            up[k] = exp_single(sigma * (s[k] - s[0]))
            down[k] = exp_single(sigma * (s[0] - s[k]))
        for a in range(rows):
            size += _add_pairs(a, up, down, gains, d, steps, g, h)
    else:
        for a in range(rows):
            size += _add_other_pairs(a, s, gains, d, steps, sigma, normed, g, h)
    return size


@reordered
def add_sample(  # type: ignore[no-untyped-def]
    scores,
    gains,
    discounts,
    steps,
    truncation,
    sigma,
    score_norm,
    query_norm,
    order,
    work,
    gradient,
    curvature,
):
    """Add the derivatives of one list at these scores, in units of sigma and sigma squared."""
    n = len(scores)
    z = work[0, : padded(n)]
    top = np.max(scores)
    for i in range(n):
        # Relative to the best score, so that single precision is spent on differences.
        z[i] = float32(scores[i] - top)
    fill_order(scores, z, order)
    for rank in range(n):
        work[1, rank] = z[order[rank]]
        work[2, rank] = gains[order[rank]]
    rows = min(truncation, n - 1) if truncation > 0 else n - 1
    total = float32(2.0) * sigma * _add_ranked(n, work, discounts, steps, rows, sigma, score_norm)
    scale = float32(1.0)
    if query_norm and total > float32(0.0):
        scale = np.log2(float32(1.0) + total) / total
    for rank in range(n):
        gradient[order[rank]] += scale * work[3, rank]
        curvature[order[rank]] += scale * work[4, rank]
