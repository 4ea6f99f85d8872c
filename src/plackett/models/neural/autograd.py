r"""Any objective as a function that PyTorch can differentiate.

The compiled list functions give values and gradients of whole lists at once; PyTorch is handed the
values, and multiplies the gradient by what comes from above when it goes back:

.. math:: \frac{\partial L}{\partial s_i} = \frac{\partial L}{\partial \ell_{q(i)}}
    \cdot \frac{\partial \ell_{q(i)}}{\partial s_i}.

Lists stay ragged: one score per document and the offsets at which lists begin. Scores may live on
any device in any floating-point type; one number per document crosses to the processor and back.
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
    """Scores that an objective cannot take."""


class _Listwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, lists: BoundObjective, step: int) -> Tensor:
        found = lists.evaluate(_finite(as_float64(scores)), step)
        ctx.save_for_backward(_like(found.gradient, scores))
        ctx.offsets = lists.offsets
        return _like(found.values, scores)

    @staticmethod
    @once_differentiable  # what the list functions give has no derivative of its own
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        (factors,) = upstream
        if len(factors) > 1:
            sizes = torch.from_numpy(np.diff(ctx.offsets)).to(factors.device)
            factors = factors.repeat_interleave(sizes, output_size=len(gradient))
        return gradient * factors, None, None


def listwise_values(scores: Tensor, lists: BoundObjective, step: int = 0) -> Tensor:
    """The objective's value for each list, differentiable by the scores.

    Parameters
    ----------
    scores
        One per document.
    lists
        An objective bound to the labels of these lists, by ``objective.bind(labels, offsets)``.
    step
        Which noise to take; a trainer gives the number of the step.

    Notes
    -----
    An objective without a value (such as umart with a window) gives NaN here and its gradient
    on the way back.
    """
    if not scores.is_floating_point():
        raise UsageError(f"scores must be floating-point numbers, got {scores.dtype}.")
    values: Tensor = _Listwise.apply(scores, lists, step)  # type: ignore[no-untyped-call]
    return values


def as_float64(scores: Tensor) -> Scores:
    """Scores from any device; in two moves, since not every device knows this type."""
    moved: Scores = scores.detach().cpu().to(torch.float64).numpy()
    return moved


def _finite(scores: Scores) -> Scores:
    if not np.isfinite(scores).all():
        first = int(np.argmin(np.isfinite(scores)))
        raise NotFiniteError(
            f"the net gives scores that are not finite: {scores[first]} for document {first} of "
            f"the {len(scores)} that it was given."
        )
    return scores


def _like(values: Any, scores: Tensor) -> Tensor:
    return torch.from_numpy(values).to(scores.dtype).to(scores.device)
