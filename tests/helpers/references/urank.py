"""uRank from equations 2 and 3; the order of scores is a constant."""

from __future__ import annotations

import numpy as np
import torch


def urank(scores, labels, window=None):
    y = np.asarray(labels, dtype=np.float64)
    order = np.argsort(-scores.detach().numpy(), kind="stable")
    value = torch.zeros((), dtype=torch.float64)
    for d in range(len(y)):
        lower = [j for j in order if y[j] < y[d]]
        size = window or max(len(lower), 1)
        for start in range(0, len(lower), size):
            chunk = [d, *lower[start : start + size]]
            value = value - (2 ** y[d] - 1) * torch.log_softmax(scores[chunk], 0)[0]
    return value / (len(set(y)) - 1)
