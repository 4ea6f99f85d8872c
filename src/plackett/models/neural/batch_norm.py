r"""Batch normalization over a batch that is divided among workers; PyTorch's ``SyncBatchNorm`` needs GPUs.

.. math:: \hat x = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}}, \qquad
    \frac{\partial L}{\partial x} = \frac{1}{\sqrt{\sigma^2 + \epsilon}} \Big(
    \frac{\partial L}{\partial \hat x} - \overline{\frac{\partial L}{\partial \hat x}}
    - \hat x\,\overline{\hat x \frac{\partial L}{\partial \hat x}}\Big)

with means and variances over the documents of all workers (Ioffe & Szegedy 2015). A worker without documents
contributes zeros. The running statistics are those of the whole batch, so all workers have the same.
"""

from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from plackett.base.errors import UsageError

_SUPPORTED = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def check_batch_norm(net: nn.Module) -> None:
    """Raise if a batch normalization layer cannot be synchronized among workers."""
    for layer in net.modules():
        if not isinstance(layer, _BatchNorm):
            continue
        kind = type(layer).__name__
        if type(layer) not in _SUPPORTED:
            supported = ", ".join(layer_type.__name__ for layer_type in _SUPPORTED)
            raise UsageError(
                f"a net with {kind} cannot be trained on a cluster, where a batch is divided among "
                f"workers; use one of {supported}, or fit without cluster=."
            )
        if not layer.track_running_stats:
            raise UsageError(
                f"the scores of a net with {kind}(track_running_stats=False) depend on the other documents "
                "in the batch, which differ among workers; set track_running_stats=True, or fit "
                "without cluster=."
            )


def synchronize_batch_norm(net: nn.Module, seconds: float) -> bool:
    """Replace batch normalization layers by ones that all workers share; return whether there are any."""
    places = [
        (parent, name, child)
        for parent in net.modules()
        for name, child in parent._modules.items()
        if isinstance(child, _BatchNorm)
    ]
    if not places:
        return False
    # A separate group: sums of one group are matched by their order, and DistributedDataParallel
    # adds up gradients at moments that may differ among workers.
    group = torch.distributed.new_group(timeout=timedelta(seconds=seconds))
    # A layer that is used in two places stays one layer.
    replacements = {child: SynchronizedBatchNorm(child, group) for _, _, child in places}
    for parent, name, child in places:
        setattr(parent, name, replacements[child])
    return True


class SynchronizedBatchNorm(_BatchNorm):
    """Batch normalization over the documents of all workers; in evaluation mode, PyTorch's."""

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
        # Channels last, so that each channel is one column whatever the shape.
        channels_last = input.movedim(1, -1)
        rows = channels_last.reshape(-1, self.num_features)
        count, mean, variance = self._compute_statistics(rows.detach())
        self._update_running(count, mean, variance)
        inverse = (variance + self.eps).rsqrt()
        output: Tensor = _Normalize.apply(rows, mean, inverse, count, self._group)  # type: ignore[no-untyped-call]
        if self.affine:
            output = output * self.weight + self.bias
        return output.reshape(channels_last.shape).movedim(-1, 1)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2 or input.shape[1] != self.num_features:
            shape = tuple(input.shape)
            raise ValueError(f"expected documents x {self.num_features} (x ...), got {shape}")

    def _compute_statistics(self, rows: Tensor) -> tuple[float, Tensor, Tensor]:
        """Number, mean and biased variance of the rows of all workers."""
        assert self.running_mean is not None
        # Sums of squares lose precision if the variance is small compared with the mean. Differences
        # from the running mean, which all workers share, avoid this.
        center = self.running_mean.to(torch.float64)
        centered = rows.to(torch.float64) - center
        count = centered.new_full((1,), len(rows))
        sums = torch.cat([centered.sum(0), centered.square().sum(0), count])
        torch.distributed.all_reduce(sums, group=self._group)
        total = float(sums[-1].item())
        if total < 2:
            raise UsageError(f"batch normalization needs two values per channel, got {total:g}.")
        first, second = (sums[:-1] / total).chunk(2)
        return total, center + first, (second - first.square()).clamp_min(0.0)

    @torch.no_grad()
    def _update_running(self, count: float, mean: Tensor, variance: Tensor) -> None:
        """Update the running statistics as PyTorch does, with the unbiased variance."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        share = 1.0 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        unbiased = variance * (count / (count - 1.0))
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, mean: Tensor, inverse: Tensor, count: float, group: Any) -> Tensor:
        scale = inverse.to(rows.dtype)
        normalized = (rows - mean.to(rows.dtype)) * scale
        ctx.save_for_backward(normalized, scale)
        ctx.count, ctx.group = count, group
        return normalized

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None, None, None]:
        normalized, scale = ctx.saved_tensors
        (gradient,) = upstream
        both = torch.cat([gradient, gradient * normalized], dim=1)
        sums = both.sum(0, dtype=torch.float64)
        torch.distributed.all_reduce(sums, group=ctx.group)
        mean, slope = (sums / ctx.count).to(gradient.dtype).chunk(2)
        return scale * (gradient - mean - normalized * slope), None, None, None, None
