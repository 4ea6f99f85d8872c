"""Modules such as users write, each with something that is hard to keep."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Tied(nn.Module):
    """Two names for one matrix."""

    def __init__(self, n_features: int = 46) -> None:
        super().__init__()
        self.first = nn.Linear(n_features, 6)
        self.middle, self.again = nn.Linear(6, 6), nn.Linear(6, 6)
        self.again.weight = self.middle.weight
        self.last = nn.Linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.again(torch.tanh(self.middle(torch.tanh(self.first(x))))))


class Buffered(nn.Module):
    """Buffers that change while training, that are infinite, whole numbers, or spread out."""

    def __init__(self, n_features: int = 46) -> None:
        super().__init__()
        self.linear = nn.Linear(n_features, 1)
        self.register_buffer("largest", torch.full((n_features,), -float("inf")))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("even", torch.ones(1).expand(n_features))
        self.register_buffer("turned", torch.arange(6.0).reshape(2, 3).t())

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            with torch.no_grad():
                self.largest.copy_(torch.maximum(self.largest, x.amax(0)))
                self.seen += len(x)
        return self.linear(x * self.even / (1.0 + self.largest.abs().clamp(max=10.0)))


class Turned(nn.Module):
    """A weight whose memory runs the other way, and one that is not trained."""

    def __init__(self, n_features: int = 46) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, n_features).t() / 10)
        self.fixed = nn.Parameter(torch.randn(5, 5).t(), requires_grad=False)
        self.last = nn.Linear(5, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(x @ self.weight @ self.fixed)).squeeze(1)


def dropping(n_features: int = 46) -> nn.Module:
    """Layers that draw random numbers and keep running means."""
    return nn.Sequential(nn.Linear(n_features, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))


def double(n_features: int = 46) -> nn.Module:
    """Weights in double precision."""
    return nn.Sequential(nn.Linear(n_features, 4), nn.Tanh(), nn.Linear(4, 1)).double()


def lazy(n_features: int = 46) -> nn.Module:  # noqa: ARG001 - learns it from the data
    """Layers without shapes until they see features."""
    return nn.Sequential(nn.LazyLinear(4), nn.Tanh(), nn.LazyLinear(1))


MAKERS = (Tied, Buffered, Turned, dropping, double, lazy)
