"""Means over pairs and losses of single documents, from their definitions."""

from __future__ import annotations

import torch

from references.autograd import as_tensor


def _pairs(labels):
    documents = range(len(labels))
    return [(i, j) for i in documents for j in documents if labels[i] > labels[j]]


def pairhinge(scores, labels, margin=1.0):
    costs = [torch.relu(margin - (scores[i] - scores[j])) for i, j in _pairs(labels)]
    return torch.stack(costs).mean()


def pairsquared(scores, labels):
    costs = [((scores[i] - scores[j]) - (labels[i] - labels[j])) ** 2 for i, j in _pairs(labels)]
    return torch.stack(costs).mean()


def squared(scores, labels):
    return ((scores - as_tensor(labels)) ** 2).sum() / 2


def logistic(scores, labels, threshold=0.0):
    relevant = as_tensor(labels) > threshold
    p = torch.sigmoid(scores)
    return -torch.where(relevant, p.log(), (1 - p).log()).sum()


def ordinal(scores, labels, grades=4, sigma=1.0):
    value = torch.zeros((), dtype=torch.float64)
    for score, label in zip(scores, labels, strict=True):
        for threshold in range(1, grades + 1):
            above = torch.sigmoid(sigma * (score - (threshold - 0.5)))
            value = value - torch.log(above if label > threshold - 0.5 else 1 - above)
    return value


def calibrated_softmax(scores, labels, anchor=1.0):
    zero = torch.zeros(1, dtype=torch.float64)
    shares = torch.log_softmax(torch.cat([zero, scores]), 0)
    return -(torch.cat([as_tensor([anchor]), as_tensor(labels)]) * shares).sum()


def circle(scores, labels, gamma, margin):
    """Circle loss; its weights are constants."""
    relevant = as_tensor(labels) > 0
    high, low = scores[relevant], scores[~relevant]
    toward_one = torch.relu(1 + margin - high).detach()
    toward_zero = torch.relu(low + margin).detach()
    return torch.log1p(
        torch.exp(gamma * toward_zero * (low - margin)).sum()
        * torch.exp(-gamma * toward_one * (high - 1 + margin)).sum()
    )
