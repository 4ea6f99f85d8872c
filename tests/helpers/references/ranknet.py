"""RankNet from the definition."""

from __future__ import annotations

import torch


def ranknet(scores, labels, sigma=1.0):
    value = torch.zeros((), dtype=torch.float64)
    for i in range(len(labels)):
        for j in range(len(labels)):
            if labels[i] > labels[j]:
                value = value + torch.log1p(torch.exp(-sigma * (scores[i] - scores[j])))
    return value
