"""SoftRank by enumeration of all outcomes of the comparisons of each document."""

from __future__ import annotations

from itertools import product

import numpy as np
import torch


def softrank(scores, labels, sigma):
    normal = torch.distributions.Normal(0.0, 1.0)
    gains = 2 ** np.asarray(labels, dtype=np.float64) - 1
    ideal = np.sum(np.sort(gains)[::-1] / np.log2(2 + np.arange(len(gains))))
    value = torch.zeros((), dtype=torch.float64)
    for j in range(len(gains)):
        others = [i for i in range(len(gains)) if i != j]
        for outcome in product([0, 1], repeat=len(others)):
            probability = torch.ones((), dtype=torch.float64)
            for i, above in zip(others, outcome, strict=True):
                lead = (scores[i] - scores[j]) / (2**0.5 * sigma)
                probability = probability * normal.cdf(lead if above else -lead)
            value = value - gains[j] / ideal * probability / np.log2(2 + sum(outcome))
    return value
