r"""Steps of gradient descent on all weights of a net as one vector.

The weights of a net are views of one flat tensor, and so are their gradients. A step is one call of
PyTorch's fused kernel, whatever the number of layers, and the state of an optimizer is two vectors
and a count. The functional forms of ``torch.optim`` are used: for small nets, ``Optimizer.step()``
spends more time on its bookkeeping than the kernel on the step (``benchmarks/optimizer.py``).

========  =====================================================================================
adam      :math:`m \leftarrow .9 m + .1 g,\; v \leftarrow .999 v + .001 g^2,\;
          w \leftarrow w - \eta\,\hat m / (\sqrt{\hat v} + 10^{-8})` with :math:`\hat m, \hat v`
          corrected for their start at zero (Kingma & Ba 2015)
adamw     the same after :math:`w \leftarrow (1 - \eta\lambda) w` (Loshchilov & Hutter 2019)
adagrad   :math:`v \leftarrow v + g^2,\; w \leftarrow w - \eta\,g / (\sqrt v + 10^{-10})`, with v
          starting at 0.1 as in TensorFlow, which Bruch et al. (2020) used
========  =====================================================================================

For adam and adagrad, weight decay adds :math:`\lambda w` to the gradient.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim.adagrad import adagrad
from torch.optim.adam import adam
from torch.optim.adamw import adamw

from plackett.base.errors import UsageError
from plackett.models.neural.ranker import BaseNeuralRanker

_ADAGRAD_START = 0.1
_SMALLEST_NORMAL = 1e-30  # squared gradients get this small; float16 ends at 6e-5


class Optimizer:
    """The flat weights of a net, their gradient, and the state of the optimizer."""

    fused_devices: ClassVar[tuple[str, ...]] = ("cpu",)
    """Other devices lack some of the fused kernels and use the plain form on the vector."""

    def __init__(self, net: nn.Module, ranker: BaseNeuralRanker) -> None:
        self._weights, self._gradient = _flatten_weights(net)
        self._ranker = ranker
        start = _ADAGRAD_START if ranker.optimizer == "adagrad" else 0.0
        self._moments = torch.zeros_like(self._weights)
        self._squares = torch.full_like(self._weights, start)
        fused = self._weights.device.type in self.fused_devices
        self._options = _make_options(ranker, fused=fused)
        self._count = torch.zeros((), dtype=torch.float32, device="cpu")

    def step(self, loss: Tensor, progress: float) -> None:
        """Take one step; ``progress`` is the finished part of the training, from 0 to 1."""
        ranker = self._ranker
        self._gradient.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        if ranker.clip is not None:
            norm = torch.linalg.vector_norm(self._gradient).item()
            if norm > ranker.clip:
                self._gradient.mul_(ranker.clip / norm)
        with torch.no_grad():
            self._update(ranker.learning_rate * _rate_factor(ranker.schedule, progress))

    def _update(self, rate: float) -> None:
        self._options["lr"] = rate
        weights, gradient, squares = [self._weights], [self._gradient], [self._squares]
        if self._ranker.optimizer == "adagrad":
            adagrad(weights, gradient, squares, [self._count], **self._options)
        else:
            update = adamw if self._ranker.optimizer == "adamw" else adam
            moments = [self._moments]
            update(weights, gradient, moments, squares, [], [self._count], **self._options)

    def is_finite(self) -> bool:
        """Whether all weights are finite."""
        return bool(torch.isfinite(self._weights).all())

    def state(self) -> dict[str, Tensor]:
        """The state of the optimizer, without the weights."""
        return {
            "count": self._count.clone(),
            "moments": self._moments.cpu().clone(),
            "squares": self._squares.cpu().clone(),
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        """Continue from a state."""
        self._count.copy_(state["count"])
        self._moments.copy_(state["moments"])
        self._squares.copy_(state["squares"])


def _make_options(ranker: BaseNeuralRanker, *, fused: bool) -> dict[str, Any]:
    """Arguments of the functions of ``torch.optim``, without the learning rate."""
    options = {"weight_decay": ranker.weight_decay, "fused": fused, "foreach": False}
    options |= {"maximize": False, "differentiable": False, "has_complex": False}
    if ranker.optimizer == "adagrad":
        return options | {"lr_decay": 0.0, "eps": 1e-10, "has_sparse_grad": False}
    return options | {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False}


def _flatten_weights(net: nn.Module) -> tuple[Tensor, Tensor]:
    """Make the trained weights and their gradients views of one vector each; return the vectors."""
    trained = [p for p in net.parameters() if p.requires_grad]
    _check(trained)
    weights = torch.cat([p.detach().reshape(-1) for p in trained])
    gradient = torch.zeros_like(weights)
    start = 0
    for p in trained:
        stop = start + p.numel()
        p.data = weights[start:stop].view_as(p)
        p.grad = gradient[start:stop].view_as(p)
        start = stop
    return weights, gradient


def _check(trained: list[nn.Parameter]) -> None:
    """Raise if weights cannot form one vector of floats, which only user modules may cause."""
    if not trained:
        raise UsageError(
            "a net must have trained weights; this one has none, or all of them are fixed."
        )
    kinds = {(p.dtype, p.device) for p in trained}
    if len(kinds) > 1 or not trained[0].is_floating_point():
        listed = ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds))
        raise UsageError(f"trained weights must all be of one floating-point type, got {listed}.")
    if torch.finfo(trained[0].dtype).tiny > _SMALLEST_NORMAL:
        raise UsageError(
            f"weights in {trained[0].dtype} cannot be trained: the optimizer's state would "
            "underflow to zero or overflow. Use bfloat16, float32 or float64."
        )


def _rate_factor(schedule: str, progress: float) -> float:
    """The learning rate relative to its initial value."""
    if schedule == "constant":
        return 1.0
    return 1.0 - progress if schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))
