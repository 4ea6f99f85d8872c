"""Steps of gradient descent on all weights of a net as one vector.

The weights of a net are laid into one tensor, and so are their gradients. For small nets and small
batches a step then costs a few calls instead of a few per layer; and the state of the optimiser is
a handful of tensors, whatever the net.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from plackett.base.errors import UsageError
from plackett.models.neural.settings import NetSettings

_TENSORFLOW_START = 0.1  # of AdaGrad's sums, as in TensorFlow, with which Bruch et al. worked


class Optimiser:
    """The weights of a net and how they are moved."""

    def __init__(self, net: nn.Module, given: NetSettings) -> None:
        self._weights, self._gradient = _joined(net)
        self._given = given
        self._inner = _inner(self._weights, given)

    def step(self, loss: Tensor, progress: float) -> None:
        """Go one step down; ``progress`` is how much of the training is done, from 0 to 1."""
        self._gradient.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        if self._given.clip is not None:
            norm = torch.linalg.vector_norm(self._gradient)
            self._gradient.mul_((self._given.clip / norm).clamp(max=1.0).nan_to_num(nan=1.0))
        if self._given.schedule != "constant":
            rate = self._given.learning_rate * _factor(self._given.schedule, progress)
            self._inner.param_groups[0]["lr"] = rate
        self._inner.step()

    def is_finite(self) -> bool:
        """Whether all weights are numbers."""
        return bool(torch.isfinite(self._weights).all())

    def state(self) -> dict[str, Tensor]:
        """What a later process needs to go on."""
        found: dict[str, Tensor] = self._inner.state[self._weights]
        return {name: torch.as_tensor(value).clone() for name, value in found.items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a state."""
        self._inner.state[self._weights] = dict(state)


def _joined(net: nn.Module) -> tuple[nn.Parameter, Tensor]:
    """All trained weights and their gradients as one vector each; the net's own become views."""
    trained = [p for p in net.parameters() if p.requires_grad]
    kinds = {(p.dtype, p.device) for p in trained}
    if len(kinds) != 1:
        raise UsageError(
            f"a net must have trained weights, all of one type; this one has {len(kinds)} types."
        )
    values = torch.cat([p.detach().reshape(-1) for p in trained])
    gradient = torch.zeros_like(values)
    start = 0
    for p in trained:
        stop = start + p.numel()
        p.data = values[start:stop].view_as(p)
        p.grad = gradient[start:stop].view_as(p)
        start = stop
    weights = nn.Parameter(values)
    weights.grad = gradient
    return weights, gradient


def _inner(weights: nn.Parameter, given: NetSettings) -> Any:
    rate, decay, kind = given.learning_rate, given.weight_decay, weights.device.type
    if given.optimiser == "adagrad":
        return torch.optim.Adagrad(
            [weights],
            lr=rate,
            weight_decay=decay,
            initial_accumulator_value=_TENSORFLOW_START,
            fused=kind == "cpu",
        )
    make = torch.optim.AdamW if given.optimiser == "adamw" else torch.optim.Adam
    return make([weights], lr=rate, weight_decay=decay, fused=kind in ("cpu", "cuda"))


def _factor(schedule: str, progress: float) -> float:
    """The learning rate against its first value: down to zero along a line or half a cosine."""
    if schedule == "linear":
        return 1.0 - progress
    return 0.5 * (1.0 + math.cos(math.pi * progress))
