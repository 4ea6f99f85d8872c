"""The loss of uRank in PyTorch alone, twice: in tensors, and in loops over levels and documents."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from plackett import Dataset

Loss = Callable[[Tensor, Tensor], Tensor]


def tensors(scores: Tensor, labels: Tensor) -> Tensor:
    """Cumulative sums over documents sorted by label, no loop."""
    order = torch.argsort(labels)
    s, y = scores[order], labels[order]
    upto = torch.logcumsumexp(s, 0)
    level = torch.unique_consecutive(y, return_inverse=True)[1]
    first = torch.searchsorted(level, level)  # of each document's level
    ranked = first > 0  # the lowest level is ranked before nothing
    below = upto[first[ranked] - 1]
    values = torch.exp2(y[ranked]) - 1.0
    values = values * (torch.logaddexp(s[ranked], below) - s[ranked])
    return values.sum() / level[-1]


def looped(scores: Tensor, labels: Tensor) -> Tensor:
    """A softmax for each document of each level."""
    ratings = torch.unique(labels).flip(0)
    total = scores.new_zeros(())
    for rating in ratings[:-1]:
        lower = scores[labels < rating]
        for d in torch.nonzero(labels == rating).squeeze(1):
            together = torch.cat([scores[d : d + 1], lower])
            gain = torch.exp2(rating) - 1.0
            total = total + gain * (torch.logsumexp(together, 0) - scores[d])
    return total / (len(ratings) - 1)


def train_with(loss: Loss, train: Dataset, threads: int) -> None:
    """One epoch, one list as a batch, with PyTorch's own optimizer."""
    torch.set_num_threads(threads)
    net = torch.nn.Sequential(
        torch.nn.Linear(train.n_features, 100),
        torch.nn.ReLU(),
        torch.nn.Linear(100, 50),
        torch.nn.ReLU(),
        torch.nn.Linear(50, 1),
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    features, labels = torch.tensor(train.features), torch.tensor(train.labels)
    for q in np.random.default_rng(0).permutation(train.n_lists):
        rows = slice(int(train.offsets[q]), int(train.offsets[q + 1]))
        if len(torch.unique(labels[rows])) < 2:
            continue
        optimizer.zero_grad()
        value = loss(net(features[rows]).squeeze(-1), labels[rows])
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
