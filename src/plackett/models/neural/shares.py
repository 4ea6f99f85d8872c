"""Which lists batches are made of, and which of them this process has.

One process has them all. Workers agree on the batches, for which they need only the keys and sizes
of all lists; each then takes its own lists out of a batch, and gradients are added up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from plackett.base.ragged import Rows
from plackett.data.dataset import Dataset
from plackett.distributed.peers import Peers
from plackett.distributed.sharding import Outline
from plackett.models.neural.batches import Batch, cut, epoch_order, learnable
from plackett.models.neural.norms import spread_norms
from plackett.models.neural.settings import NetSettings
from plackett.models.neural.tasks import Task

_NO_LISTS = np.zeros(1, np.int64)


@dataclass(frozen=True)
class Share:
    """The lists of a fit."""

    outline: Outline
    positions: Rows
    """Of the lists with two levels of labels, among all."""
    peers: Peers | None = None

    @classmethod
    def whole(cls, data: Dataset) -> Share:
        """Of a fit by one process."""
        return cls(Outline.whole(data), learnable(data.labels, data.offsets))

    def batches(self, given: NetSettings, epoch: int) -> list[Rows]:
        """Positions of the lists of each batch, the same for all workers."""
        order = epoch_order(self.positions, self.outline.keys, seed=given.seed, epoch=epoch)
        limits = {"lists": given.batch_lists, "documents": given.batch_documents}
        return [order[a:b] for a, b in cut(order, self.outline.sizes, **limits)]

    def divisor(self, count: int, reduction: str) -> float:
        """What the sum of this process's losses is divided by, in a batch of ``count`` lists.

        DistributedDataParallel gives the mean of the gradients of all workers; a batch of one
        process has their sum.
        """
        workers = 1 if self.peers is None else self.peers.size
        return (count if reduction == "mean" else 1) / workers

    def noise(self, step: int) -> int:
        """A number for what nets draw: different for each step, and for each worker."""
        return step if self.peers is None else step * self.peers.size + self.peers.rank

    def losses(self, net: nn.Module, task: Task) -> Callable[[Tensor, Batch | None, int], Tensor]:
        """The sum of the losses of the lists here; going back from it adds up all gradients."""
        if self.peers is None:
            return Losses(net, task)
        from torch.nn.parallel import DistributedDataParallel

        meets = spread_norms(net, self.peers.seconds)
        losses = Losses(net, task, meets=meets)

        # What a batch does not use (a level of labels that it lacks) has no gradient.
        return DistributedDataParallel(losses, broadcast_buffers=False, find_unused_parameters=True)

    def added(self, total: Tensor) -> float:
        """The sum over all workers of a number that each has."""
        if self.peers is None:
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
