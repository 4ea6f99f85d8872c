"""RankSVM, RankBoost and SVM-MAP from their definitions, pair by pair and ranking by ranking."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import torch


def pairs(labels):
    n = len(labels)
    return [(i, j) for i in range(n) for j in range(n) if labels[i] > labels[j]]


def ranksvm(scores, labels, squared):
    hinges = torch.stack([torch.relu(1 - (scores[i] - scores[j])) for i, j in pairs(labels)])
    return (hinges**2).sum() if squared else hinges.sum()


def rankboost(scores, labels):
    return torch.stack([torch.exp(-(scores[i] - scores[j])) for i, j in pairs(labels)]).sum()


def average_precision(relevant):
    hits = np.cumsum(relevant)
    return np.mean((hits / np.arange(1, len(relevant) + 1))[relevant])


def svmmap(scores, labels, scale):
    """The structured hinge as a maximum over all rankings of the list."""
    relevant = np.asarray(labels) > 0
    goods, bads = np.flatnonzero(relevant), np.flatnonzero(~relevant)
    item = 1 / (len(goods) * len(bads)) if scale is None else scale
    candidates = []
    for order in permutations(range(len(labels))):
        rank = {document: r for r, document in enumerate(order)}
        wrong = [(g, b) for g in goods for b in bads if rank[g] > rank[b]]
        margin = sum((scores[g] - scores[b] for g, b in wrong), torch.zeros((), dtype=torch.float64))
        candidates.append(1 - average_precision(relevant[list(order)]) - 2 * item * margin)
    return torch.stack(candidates).max()
