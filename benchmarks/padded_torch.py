"""Ranking losses the way of allRank: lists padded to the longest of the batch, masked, autograd.

Scores and labels are dense, [lists, longest]; losses of pairs make tensors of [lists, longest,
longest]. Within that way of writing nothing is wasted: what depends on labels or ranks alone is
kept from autograd, weights of pairs that depend on ranks alone are made once for all lists, and
padding is given scores and gains whose pairs vanish, so that no mask of pairs is needed. Each loss
returns one value per list, so that it can be compared with ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from web_lists import WebLists

SUNK = 1e4  # how far padding lies below every document, where a logistic function is 0


@dataclass(frozen=True)
class Padded:
    """A batch as dense tensors."""

    scores: Tensor
    labels: Tensor
    """-1 where padding is."""
    present: Tensor
    """False where padding is."""


Loss = Callable[[Tensor, Padded], Tensor]


def pad(lists: WebLists, dtype: torch.dtype = torch.float32) -> Padded:
    present = np.arange(lists.sizes.max()) < lists.sizes[:, None]
    scores, labels = np.zeros(present.shape), np.full(present.shape, -1.0)
    scores[present], labels[present] = lists.scores, lists.labels
    return Padded(torch.tensor(scores, dtype=dtype), torch.tensor(labels, dtype=dtype), torch.from_numpy(present))


def forward_and_gradient(loss: Loss, batch: Padded) -> tuple[Tensor, Tensor]:
    """Values of the lists, and the gradient of their sum."""
    scores = batch.scores.detach().requires_grad_()
    values = loss(scores, batch)
    values.sum().backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    return values.detach(), scores.grad


@torch.no_grad()
def discounts(batch: Padded) -> Tensor:
    ranks = torch.arange(batch.labels.shape[1], dtype=batch.labels.dtype)
    return 1.0 / torch.log2(ranks + 2.0)


@torch.no_grad()
def normalized_gains(batch: Padded) -> Tensor:
    """Gains over the ideal DCG of their lists; 0 where padding is."""
    labels = batch.labels.clamp(min=0.0)
    ideal = (torch.exp2(labels.sort(dim=1, descending=True).values) - 1.0) @ discounts(batch)
    # A list without a relevant document has gains of 0, whatever they are divided by.
    return (torch.exp2(labels) - 1.0) / ideal.clamp(min=1.0)[:, None]


def approxndcg(scores: Tensor, batch: Padded, eta: float = 10.0) -> Tensor:
    sunk = scores.detach().min() - SUNK
    x = eta * torch.where(batch.present, scores, sunk)
    above = torch.sigmoid(x[:, None, :] - x[:, :, None])
    ranks = 0.5 + above.sum(dim=2)  # the comparison with itself adds one half
    return -(normalized_gains(batch) * (math.log(2.0) / torch.log1p(ranks))).sum(dim=1)


def lambdaloss(scores: Tensor, batch: Padded, mu: float = 10.0) -> Tensor:
    """The scheme ndcg2++ with sigma 1."""
    sunk = scores.detach().min() - SUNK
    x, order = torch.where(batch.present, scores, sunk).sort(dim=1, descending=True, stable=True)
    with torch.no_grad():
        weights = _pair_weights(batch, order, mu)
    return -(weights * torch.nn.functional.logsigmoid(x[:, :, None] - x[:, None, :])).sum((1, 2))


def _pair_weights(batch: Padded, order: Tensor, mu: float) -> Tensor:
    """Weights of pairs of ranks; padding gains nothing and cannot be beaten."""
    gains = normalized_gains(batch).gather(1, order)
    beaten = torch.where(batch.present.gather(1, order), gains, math.inf)
    ranks = torch.arange(order.shape[1])
    d = discounts(batch)
    steps = torch.cat([d.new_zeros(1), d[:-1] - d[1:]])  # of ranks so far apart
    of_ranks = (d[:, None] - d[None, :]).abs() + mu * steps[(ranks[:, None] - ranks).abs()]
    return (gains[:, :, None] - beaten[:, None, :]).clamp_(min=0.0).mul_(of_ranks)


def shuffled_label_order(batch: Padded) -> Tensor:
    """Documents by falling label, equal labels in random order, padding last."""
    shuffle = torch.randperm(batch.labels.shape[1])
    by_label = batch.labels[:, shuffle].sort(dim=1, descending=True).indices
    return shuffle[by_label]


def listmle(scores: Tensor, batch: Padded, order: Tensor | None = None) -> Tensor:
    order = shuffled_label_order(batch) if order is None else order
    present = batch.present.gather(1, order)
    x = scores.gather(1, order)
    x = x - torch.where(present, x, -math.inf).detach().amax(dim=1, keepdim=True)
    left = torch.where(present, x, -math.inf).exp().flip(1).cumsum(1).flip(1)
    return torch.where(present, torch.where(present, left, 1.0).log() - x, 0.0).sum(dim=1)
