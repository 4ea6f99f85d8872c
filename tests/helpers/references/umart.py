"""uMart's gradient and curvature from equations 5 and 6 (corrected), in plain NumPy."""

from __future__ import annotations

import numpy as np


def umart(scores, labels, window, sigma, score_norm, hess_factor):
    s, y = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    n = len(s)
    order = np.argsort(-s, kind="stable")
    discount = np.empty(n)
    discount[order] = 1 / np.log2(2 + np.arange(n))
    ideal = np.sum((2 ** np.sort(y)[::-1] - 1) / np.log2(2 + np.arange(n)))
    g, h = np.zeros(n), np.zeros(n)
    for d in range(n):
        lower = [j for j in order if y[j] < y[d]]
        size = window or max(len(lower), 1)
        for start in range(0, len(lower), size):
            chunk = lower[start : start + size]
            normaliser = np.exp(sigma * s[d]) + np.sum(np.exp(sigma * s[chunk]))
            mask = np.exp(sigma * s[d]) / normaliser
            for j in chunk:
                p = np.exp(sigma * s[j]) / normaliser
                z = (2 ** y[d] - 2 ** y[j]) * abs(discount[d] - discount[j]) / ideal
                if score_norm and np.ptp(s) > 0:
                    z /= 0.01 + abs(s[d] - s[j])
                g[d] -= sigma * z * p
                g[j] += sigma * z * p
                h[d] += hess_factor * sigma**2 * z * p * mask
                h[j] += hess_factor * sigma**2 * z * p * (1 - p)
    return g, h
