"""Likelihoods of the Plackett-Luce model from the definition."""

from __future__ import annotations

import numpy as np
import torch


def likelihood(scores, labels, order, weights):  # noqa: ARG001
    """Minus the weighted log-likelihood of a ranking, pick by pick."""
    total = torch.zeros((), dtype=torch.float64)
    for i in range(len(order)):
        left = scores[[int(d) for d in order[i:]]]
        total = total + float(weights[i]) * (torch.logsumexp(left, 0) - scores[int(order[i])])
    return total


def top_heavy_weights(n):
    raw = np.array([2.0 ** (n - i) - 1 for i in range(1, n + 1)])
    return raw / raw.sum()


def discounted_returns(labels, order, gamma, discount):
    n = len(order)
    position = np.arange(1, n + 1)
    divisor = np.log2(1 + position) if discount == "standard" else np.log2(np.maximum(position, 2))
    rewards = (2.0 ** np.asarray(labels)[list(order)] - 1) / divisor
    return [gamma**t * sum(gamma ** (k - t) * rewards[k] for k in range(t, n)) for t in range(n)]
