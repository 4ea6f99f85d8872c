"""Value, gradient and Hessian of a reference loss of one list, by PyTorch in float64."""

from __future__ import annotations

import numpy as np
import torch


def as_tensor(values) -> torch.Tensor:
    return torch.tensor(np.asarray(values, dtype=np.float64))


def value_and_gradient(loss, scores, labels, **parameters):
    s = as_tensor(scores).requires_grad_()
    value = loss(s, labels, **parameters)
    (gradient,) = torch.autograd.grad(value, s)
    return value.item(), gradient.numpy()


def hessian_diagonal(loss, scores, labels, **parameters):
    hessian = torch.autograd.functional.hessian(lambda s: loss(s, labels, **parameters), as_tensor(scores))
    return hessian.diagonal().numpy()
