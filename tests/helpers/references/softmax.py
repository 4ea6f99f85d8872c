"""Cross entropies of one list by torch, written as in their papers."""

from __future__ import annotations

import torch


def crossentropy(scores, labels):
    return -(labels / labels.sum() * torch.log_softmax(scores, 0)).sum()


def listnet(scores, labels):
    return -(torch.softmax(labels, 0) * torch.log_softmax(scores, 0)).sum()


def xendcg(scores, labels, gamma):
    target = 2**labels - gamma
    return -(target / target.sum() * torch.log_softmax(scores, 0)).sum()
