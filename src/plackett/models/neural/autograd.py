r"""Any objective as a function that PyTorch can differentiate.

The compiled list functions return the values and gradients of whole lists. PyTorch receives the
values; the backward pass multiplies the gradient by the upstream factor of each list:

.. math:: \frac{\partial L}{\partial s_i} = \frac{\partial L}{\partial \ell_{q(i)}}
    \cdot \frac{\partial \ell_{q(i)}}{\partial s_i}.

Lists stay ragged: one score per document and the offsets at which lists begin. Scores may be on
any device and of any floating-point type; one number per document is copied to the CPU and back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from plackett.base.errors import UsageError
from plackett.base.ragged import Scores
from plackett.objectives.objective import BoundObjective


class NotFiniteError(UsageError):
    """A net returned scores that are infinite or NaN."""


def listwise_values(scores: Tensor, lists: BoundObjective, step: int = 0) -> Tensor:
    """Return the objective's value for each list, differentiable by the scores.

    Parameters
    ----------
    scores
        One per document.
    lists
        An objective bound to the labels of these lists, by ``objective.bind(labels, offsets)``.
    step
        Selects the noise; a training loop passes the number of the step.

    Notes
    -----
    An objective without a value (such as umart with a window) returns NaN here and its gradient
    in the backward pass.
    """
    if not scores.is_floating_point():
        raise UsageError(f"scores must be floating-point numbers, got {scores.dtype}.")
    values: Tensor = _Listwise.apply(scores, lists, step)  # type: ignore[no-untyped-call]
    return values


class _Listwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, lists: BoundObjective, step: int) -> Tensor:
        derivatives = lists.evaluate(_check_finite(to_float64(scores)), step)
        ctx.save_for_backward(_to_tensor(derivatives.gradient, like=scores))
        ctx.offsets = lists.offsets
        return _to_tensor(derivatives.values, like=scores)

    @staticmethod
    @once_differentiable  # the list functions have no second derivative
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        (factors,) = upstream
        if len(factors) > 1:
            sizes = torch.from_numpy(np.diff(ctx.offsets)).to(factors.device)
            factors = factors.repeat_interleave(sizes, output_size=len(gradient))
        return gradient * factors, None, None


def to_float64(scores: Tensor) -> Scores:
    """Copy scores to the CPU, then convert them: not every device supports float64."""
    array: Scores = scores.detach().cpu().to(torch.float64).numpy()
    return array


def _to_tensor(values: Any, *, like: Tensor) -> Tensor:
    return torch.from_numpy(values).to(like.dtype).to(like.device)


def _check_finite(scores: Scores) -> Scores:
    if not np.isfinite(scores).all():
        first = int(np.argmin(np.isfinite(scores)))
        raise NotFiniteError(
            f"the net returned scores that are not finite: {scores[first]} for document {first} of "
            f"the {len(scores)} in the batch."
        )
    return scores
