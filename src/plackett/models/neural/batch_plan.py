r"""Which lists batches are made of, and which of them this process has.

One process has them all. Workers agree on the batches, for which they need only the keys and sizes
of all lists; each then takes its own lists out of a batch, and gradients are added up.

Batch normalisation over a batch of which each worker has a part.

.. math:: \hat x = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}}, \qquad
    \frac{\partial L}{\partial x} = \frac{1}{\sqrt{\sigma^2 + \epsilon}} \Big(
    \frac{\partial L}{\partial \hat x} - \overline{\frac{\partial L}{\partial \hat x}}
    - \hat x\,\overline{\hat x \frac{\partial L}{\partial \hat x}}\Big)

with means and variances over the documents of all workers (Ioffe & Szegedy 2015). Counts, sums and
sums of squares are added up over the workers on the way forward, and the sums behind the two means
of the gradient on the way back. A worker without documents takes part with sums of zero. The
running statistics are those of the whole batch, so all workers have the same.

PyTorch's own SyncBatchNorm does this on GPUs only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from plackett.base.errors import UsageError
from plackett.base.ragged import Rows
from plackett.data.dataset import Dataset
from plackett.distributed import Partition, WorkerGroup
from plackett.models.neural.batches import Batch, cut, epoch_order, learnable
from plackett.models.neural.loss import Task
from plackett.models.neural.ranker import NetSettings

_KNOWN = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def check_norms(net: nn.Module) -> None:
    """Refuse batch normalisation that cannot be taken over the batch of all workers."""
    for layer in net.modules():
        if not isinstance(layer, _BatchNorm):
            continue
        kind = type(layer).__name__
        if type(layer) not in _KNOWN:
            known = ", ".join(each.__name__ for each in _KNOWN)
            raise UsageError(
                f"a net with {kind} cannot be trained on a cluster, where a batch is divided among "
                f"workers; take one of {known}, or fit without cluster=."
            )
        if not layer.track_running_stats:
            raise UsageError(
                f"a net with {kind}(track_running_stats=False) scores a document by those that "
                "happen to be scored with it, which differ from worker to worker; let it keep "
                "running statistics, or fit without cluster=."
            )


def synchronize_batch_norm(net: nn.Module, seconds: float) -> bool:
    """Take batch normalisation over the batch of all workers; whether there is any.

    Weights and statistics stay the same tensors. All workers must call this.

    Parameters
    ----------
    net
        Whose layers are replaced.
    seconds
        That a worker waits for the others at most.
    """
    found = [
        (parent, name, child)
        for parent in net.modules()
        for name, child in parent._modules.items()
        if isinstance(child, _BatchNorm)
    ]
    if not found:
        return False
    # A group of its own: DistributedDataParallel adds gradients up meanwhile, at moments that may
    # differ from worker to worker, and sums of one group are matched by their order.
    group = torch.distributed.new_group(timeout=timedelta(seconds=seconds))
    # A layer that stands in two places stays one.
    made = {child: WholeBatchNorm(child, group) for _, _, child in found}
    for parent, name, child in found:
        setattr(parent, name, made[child])
    return True


class WholeBatchNorm(_BatchNorm):
    """Batch normalisation over the batch of all workers; without training, PyTorch's own."""

    def __init__(self, layer: _BatchNorm, group: Any) -> None:
        super().__init__(layer.num_features, layer.eps, layer.momentum, layer.affine)
        self.weight, self.bias = layer.weight, layer.bias
        self.running_mean, self.running_var = layer.running_mean, layer.running_var
        self.num_batches_tracked = layer.num_batches_tracked
        self.train(layer.training)
        self._group = group

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return super().forward(input)
        self._check_input_dim(input)
        # Channels last: what is normalised is one column, whatever the shape.
        across = input.movedim(1, -1)
        rows = across.reshape(-1, self.num_features)
        count, mean, variance = self._statistics(rows.detach())
        self._keep(count, mean, variance)
        inverse = (variance + self.eps).rsqrt()
        found: Tensor = _Normalised.apply(rows, mean, inverse, count, self._group)  # type: ignore[no-untyped-call]
        if self.affine:
            found = found * self.weight + self.bias
        return found.reshape(across.shape).movedim(-1, 1)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2 or input.shape[1] != self.num_features:
            shape = tuple(input.shape)
            raise ValueError(f"expected documents x {self.num_features} (x ...), got {shape}")

    def _statistics(self, rows: Tensor) -> tuple[float, Tensor, Tensor]:
        """The number of rows of all workers, their mean, and their variance (divided by n)."""
        assert self.running_mean is not None
        # Sums of squares lose what the variance is small against the mean by; about the running
        # mean, which all workers have, they do not.
        about = self.running_mean.to(torch.float64)
        moved = rows.to(torch.float64) - about
        sums = torch.cat([moved.sum(0), moved.square().sum(0), moved.new_full((1,), len(rows))])
        torch.distributed.all_reduce(sums, group=self._group)
        count = float(sums[-1].item())
        if count < 2:
            raise UsageError(f"batch normalisation needs two values per channel, got {count:g}.")
        first, second = (sums[:-1] / count).chunk(2)
        return count, about + first, (second - first.square()).clamp_min(0.0)

    @torch.no_grad()
    def _keep(self, count: float, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics, as PyTorch does: the variance divided by n - 1."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        share = 1.0 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        unbiased = variance * (count / (count - 1.0))
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)


class _Normalised(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, mean: Tensor, inverse: Tensor, count: float, group: Any
    ) -> Tensor:
        scale = inverse.to(rows.dtype)
        found = (rows - mean.to(rows.dtype)) * scale
        ctx.save_for_backward(found, scale)
        ctx.count, ctx.group = count, group
        return found

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None, None, None]:
        found, scale = ctx.saved_tensors
        (gradient,) = upstream
        both = torch.cat([gradient, gradient * found], dim=1)
        sums = both.sum(0, dtype=torch.float64)
        torch.distributed.all_reduce(sums, group=ctx.group)
        mean, slope = (sums / ctx.count).to(gradient.dtype).chunk(2)
        return scale * (gradient - mean - found * slope), None, None, None, None


_NO_LISTS = np.zeros(1, np.int64)


@dataclass(frozen=True)
class BatchPlan:
    """The lists of a fit."""

    partition: Partition
    positions: Rows
    """Of the lists with two levels of labels, among all."""
    worker_group: WorkerGroup | None = None

    @classmethod
    def whole(cls, data: Dataset) -> BatchPlan:
        """Of a fit by one process."""
        return cls(Partition.whole(data), learnable(data.labels, data.offsets))

    def batches(self, given: NetSettings, epoch: int) -> list[Rows]:
        """Positions of the lists of each batch, the same for all workers."""
        order = epoch_order(self.positions, self.partition.keys, seed=given.seed, epoch=epoch)
        limits = {"lists": given.batch_lists, "documents": given.batch_documents}
        return [order[a:b] for a, b in cut(order, self.partition.sizes, **limits)]

    def divisor(self, count: int, reduction: str) -> float:
        """What the sum of this process's losses is divided by, in a batch of ``count`` lists.

        DistributedDataParallel gives the mean of the gradients of all workers; a batch of one
        process has their sum.
        """
        workers = 1 if self.worker_group is None else self.worker_group.size
        return (count if reduction == "mean" else 1) / workers

    def noise(self, step: int) -> int:
        """A number for what nets draw: different for each step, and for each worker."""
        return (
            step
            if self.worker_group is None
            else step * self.worker_group.size + self.worker_group.rank
        )

    def losses(self, net: nn.Module, task: Task) -> Callable[[Tensor, Batch | None, int], Tensor]:
        """The sum of the losses of the lists here; going back from it adds up all gradients."""
        if self.worker_group is None:
            return Losses(net, task)
        from torch.nn.parallel import DistributedDataParallel

        meets = synchronize_batch_norm(net, self.worker_group.timeout_seconds)
        losses = Losses(net, task, meets=meets)

        # What a batch does not use (a level of labels that it lacks) has no gradient.
        return DistributedDataParallel(losses, broadcast_buffers=False, find_unused_parameters=True)

    def added(self, total: Tensor) -> float:
        """The sum over all workers of a number that each has."""
        if self.worker_group is None:
            return float(total.item())
        found = total.detach().to(torch.float64)
        torch.distributed.all_reduce(found)
        return float(found.item())


class Losses(nn.Module):
    """A net and what it is trained for, as one module."""

    def __init__(self, net: nn.Module, task: Task, *, meets: bool = False) -> None:
        super().__init__()
        self.net = net
        self._task = task
        self._meets = meets
        """Whether workers meet within the net, so that one without lists must go through it."""

    def forward(self, features: Tensor, batch: Batch | None, step: int) -> Tensor:
        """The sum of the losses of a batch; None: a batch of which no list is here."""
        if batch is None:
            nothing = self.net(features, _NO_LISTS).sum() if self._meets else torch.zeros(())
            return sum((p.sum() * 0.0 for p in self.net.parameters()), nothing)
        return self._task.total(self.net, features, batch, step)
