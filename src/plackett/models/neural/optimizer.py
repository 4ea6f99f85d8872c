r"""Steps of gradient descent on all weights of a net as one vector.

The weights of a net are laid into one tensor, and so are their gradients. For small nets and small
batches a step then costs a few calls instead of many per layer, and the state of an optimizer is
two vectors, whatever the net. The rules are PyTorch's own, which tests hold them against:

========  =====================================================================================
adam      :math:`m \leftarrow .9 m + .1 g,\; v \leftarrow .999 v + .001 g^2,\;
          w \leftarrow w - \eta\,\hat m / (\sqrt{\hat v} + 10^{-8})` with :math:`\hat m, \hat v`
          corrected for their start at zero (Kingma & Ba 2015)
adamw     the same after :math:`w \leftarrow (1 - \eta\lambda) w` (Loshchilov & Hutter 2019)
adagrad   :math:`v \leftarrow v + g^2,\; w \leftarrow w - \eta\,g / (\sqrt v + 10^{-10})`, with v
          starting at 0.1 as in TensorFlow, with which Bruch et al. (2020) worked
========  =====================================================================================

For adam and adagrad, weight decay adds :math:`\lambda w` to the gradient.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from plackett.base.errors import UsageError
from plackett.models.neural.ranker import NetSettings

_FIRST, _SECOND = 0.9, 0.999  # Adam's memory of gradients and of their squares
_ADAM_SMALL, _ADAGRAD_SMALL = 1e-8, 1e-10
_ADAGRAD_START = 0.1
_LEAST = 1e-30  # squares of gradients are about as small; float16 ends at 6e-5


class Optimizer:
    """The weights of a net and how they are moved."""

    def __init__(self, net: nn.Module, given: NetSettings) -> None:
        self._weights, self._gradient = _joined(net)
        self._given = given
        self._count = 0
        start = _ADAGRAD_START if given.optimizer == "adagrad" else 0.0
        self._moments = torch.zeros_like(self._weights)
        self._squares = torch.full_like(self._weights, start)

    def step(self, loss: Tensor, progress: float) -> None:
        """Go one step down; ``progress`` is how much of the training is done, from 0 to 1."""
        self._gradient.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        if self._given.clip is not None:
            norm = torch.linalg.vector_norm(self._gradient).item()
            if norm > self._given.clip:
                self._gradient.mul_(self._given.clip / norm)
        rate = self._given.learning_rate * _factor(self._given.schedule, progress)
        self._count += 1
        with torch.no_grad():
            self._decay(rate)
            self._adagrad(rate) if self._given.optimizer == "adagrad" else self._adam(rate)

    def _decay(self, rate: float) -> None:
        share = self._given.weight_decay
        if share and self._given.optimizer == "adamw":
            self._weights.mul_(1.0 - rate * share)
        elif share:
            self._gradient.add_(self._weights, alpha=share)

    def _adam(self, rate: float) -> None:
        g = self._gradient
        self._moments.lerp_(g, 1.0 - _FIRST)
        self._squares.mul_(_SECOND).addcmul_(g, g, value=1.0 - _SECOND)
        first = 1.0 - _FIRST**self._count
        second = math.sqrt(1.0 - _SECOND**self._count)
        scale = self._squares.sqrt().div_(second).add_(_ADAM_SMALL)
        self._weights.addcdiv_(self._moments, scale, value=-rate / first)

    def _adagrad(self, rate: float) -> None:
        g = self._gradient
        self._squares.addcmul_(g, g)
        self._weights.addcdiv_(g, self._squares.sqrt().add_(_ADAGRAD_SMALL), value=-rate)

    def is_finite(self) -> bool:
        """Whether all weights are numbers."""
        return bool(torch.isfinite(self._weights).all())

    def state(self) -> dict[str, Tensor]:
        """What a later process needs to go on, beside the weights."""
        return {
            "count": torch.tensor(self._count),
            "moments": self._moments.cpu().clone(),
            "squares": self._squares.cpu().clone(),
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a state."""
        self._count = int(state["count"])
        self._moments.copy_(state["moments"])
        self._squares.copy_(state["squares"])


def _joined(net: nn.Module) -> tuple[Tensor, Tensor]:
    """All trained weights and their gradients as one vector each; the net's own become views."""
    trained = [p for p in net.parameters() if p.requires_grad]
    _check(trained)
    values = torch.cat([p.detach().reshape(-1) for p in trained])
    gradient = torch.zeros_like(values)
    start = 0
    for p in trained:
        stop = start + p.numel()
        p.data = values[start:stop].view_as(p)
        p.grad = gradient[start:stop].view_as(p)
        start = stop
    return values, gradient


def _check(trained: list[nn.Parameter]) -> None:
    """Refuse what cannot be one vector of floats; only modules of the user's own can be that."""
    if not trained:
        raise UsageError(
            "a net must have trained weights; all of this one are fixed or it has none."
        )
    kinds = {(p.dtype, p.device) for p in trained}
    if len(kinds) > 1 or not trained[0].is_floating_point():
        listed = ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds))
        raise UsageError(f"trained weights must all be of one floating-point type, got {listed}.")
    if torch.finfo(trained[0].dtype).tiny > _LEAST:
        raise UsageError(
            f"weights in {trained[0].dtype} cannot be trained: the optimizer's own numbers would "
            "be zero or infinite. Use bfloat16, float32 or float64."
        )


def _factor(schedule: str, progress: float) -> float:
    """The learning rate against its first value: down to zero along a line or half a cosine."""
    if schedule == "constant":
        return 1.0
    return 1.0 - progress if schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))
