"""Metrics of approximate ranks, from their definitions."""

from __future__ import annotations

import torch

from references.autograd import as_tensor


def approximate_ranks(scores, eta):
    n = len(scores)
    return torch.stack(
        [
            sum(torch.sigmoid(eta * (scores[j] - scores[i])) for j in range(n) if j != i)
            + torch.ones((), dtype=torch.float64)
            for i in range(n)
        ]
    )


def approxndcg(scores, labels, eta):
    y = as_tensor(labels)
    gains = 2**y - 1
    ideal = sum(
        g / torch.log2(torch.tensor(2.0 + i, dtype=torch.float64))
        for i, g in enumerate(gains.sort(descending=True).values)
    )
    return -(gains / torch.log2(1 + approximate_ranks(scores, eta))).sum() / ideal


def approxmrr(scores, labels, eta):
    relevant = as_tensor(labels) > 0
    first = torch.softmax(eta * scores[relevant], 0)
    return -(first / approximate_ranks(scores, eta)[relevant]).sum()


def approxmap(scores, labels, eta):
    relevant = [i for i, label in enumerate(labels) if label > 0]
    ranks, inner = approximate_ranks(scores, eta), approximate_ranks(scores[relevant], eta)
    return -(inner / ranks[relevant]).mean()


def approxerr(scores, labels, eta):
    stops = (2 ** as_tensor(labels) - 1) / 2 ** max(labels)
    ranks = approximate_ranks(scores, eta)
    value = torch.zeros((), dtype=torch.float64)
    for i in range(len(labels)):
        reached = torch.ones((), dtype=torch.float64)
        for j in range(len(labels)):
            if j != i:
                reached = reached * (1 - stops[j] * torch.sigmoid(eta * (scores[j] - scores[i])))
        value = value - stops[i] * reached / ranks[i]
    return value
