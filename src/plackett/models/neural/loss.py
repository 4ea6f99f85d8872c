r"""The losses that nets are trained with: an objective over lists or label levels, or residuals.

For recurrent nets a list is split by the levels of its labels, highest first. At step t a list consists of the
documents at its t-th level and below, and those at that level must be ranked before the rest. A list with L levels
has L - 1 steps of weight 1 / (L - 1) each.

:func:`listwise_values` makes any objective a function that PyTorch can differentiate: the compiled list functions
return values and gradients, and the backward pass multiplies the gradient by the upstream factor of each list,

.. math:: \frac{\partial L}{\partial s_i} = \frac{\partial L}{\partial \ell_{q(i)}}
    \cdot \frac{\partial \ell_{q(i)}}{\partial s_i}.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from plackett.base.errors import UsageError
from plackett.base.ragged import Offsets, Rows, Scores, list_of_document, offsets_from_sizes, take_lists
from plackett.data import Dataset
from plackett.distributed import WorkerGroup
from plackett.models.fit_context import bind_objective
from plackett.models.neural.batch_norm import synchronize_batch_norm
from plackett.models.neural.batches import Batch
from plackett.models.neural.scorers import LevelScorer
from plackett.objectives import Objective
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
        array = to_float64(scores)
        if not np.isfinite(array).all():
            first = int(np.argmin(np.isfinite(array)))
            raise NotFiniteError(
                f"the net returned scores that are not finite: {array[first]} for document {first} of "
                f"the {len(array)} in the batch."
            )
        derivatives = lists.evaluate(array, step)
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


_NO_LISTS = np.zeros(1, np.int64)


class NetLoss(Protocol):
    """The loss of a net on a batch of lists."""

    def total(self, net: nn.Module, features: Tensor, batch: Batch, step: int) -> Tensor:
        """Return the sum of the losses of the lists."""


class ListLoss:
    """An objective of the scores of lists."""

    def __init__(self, objective: Objective, data: Dataset) -> None:
        self._lists = bind_objective(objective, data)

    def total(self, net: nn.Module, features: Tensor, batch: Batch, step: int) -> Tensor:
        scores = net(features, batch.offsets)
        return listwise_values(scores, self._lists.take(batch.positions), step).sum()


class ResidualLoss:
    """Squared distance from targets, averaged over the documents of each list."""

    def __init__(self, targets: Scores, data: Dataset, device: torch.device) -> None:
        sizes = np.diff(data.offsets)
        list_weights = np.ones(data.n_lists) if data.weights is None else data.weights
        weights = np.repeat(list_weights / np.maximum(sizes, 1), sizes)
        self._targets = torch.from_numpy(targets.astype(np.float32)).to(device)
        self._weights = torch.from_numpy(weights.astype(np.float32)).to(device)

    def total(self, net: nn.Module, features: Tensor, batch: Batch, step: int) -> Tensor:  # noqa: ARG002 - draws nothing
        documents = batch.documents
        rows = documents if isinstance(documents, slice) else torch.from_numpy(documents)
        distance = net(features, batch.offsets) - self._targets[rows]
        return (distance.square() * self._weights[rows]).sum()


class LossModule(nn.Module):
    """A net and its loss as one module, which DistributedDataParallel can wrap."""

    def __init__(self, net: nn.Module, loss: NetLoss, *, net_synchronizes: bool = False) -> None:
        super().__init__()
        self.net = net
        self._loss = loss
        self._net_synchronizes = net_synchronizes
        """Whether workers exchange sums within the net; then all of them must run it."""

    def forward(self, features: Tensor, batch: Batch | None, step: int) -> Tensor:
        """Return the sum of the losses of a batch; None means that this worker has no list of it."""
        if batch is None:
            total = torch.zeros(())
            if self._net_synchronizes:
                total = self.net(features, _NO_LISTS).sum()
            return sum((p.sum() * 0.0 for p in self.net.parameters()), total)
        return self._loss.total(self.net, features, batch, step)


def make_loss_module(
    net: nn.Module, loss: NetLoss, worker_group: WorkerGroup | None
) -> Callable[[Tensor, Batch | None, int], Tensor]:
    """Return the loss of a net whose backward pass adds up the gradients of all workers."""
    if worker_group is None:
        return LossModule(net, loss)
    from torch.nn.parallel import DistributedDataParallel

    synchronizes = synchronize_batch_norm(net, worker_group.timeout_seconds)
    module = LossModule(net, loss, net_synchronizes=synchronizes)
    # A batch may leave weights without gradient, for example if it lacks a level of labels.
    return DistributedDataParallel(module, broadcast_buffers=False, find_unused_parameters=True)


@dataclass(frozen=True)
class Level:
    """One step through the levels, for the lists of a batch that have it."""

    lists: BoundObjective
    documents: Tensor
    """Documents of the step, as positions in the batch."""
    of_level: Tensor
    """Those of them that are at this level."""
    sizes: Tensor
    """The number of documents of this level in each list."""
    previous: Tensor
    """For each document, the position of its list among those of the previous step."""


@dataclass(frozen=True)
class _Step:
    """One step through the levels, for all lists of a data set."""

    lists: BoundObjective
    documents: Rows
    of_level: NDArray[np.bool_]
    place: Rows
    """For each list of the data, its position in this step; -1 if it has no such level."""


class LevelLoss:
    """An objective of the scores of each step through the levels of labels."""

    def __init__(self, objective: Objective, data: Dataset) -> None:
        level, counts = _find_levels(data)
        n_steps = int(counts.max(initial=1)) - 1
        self._steps = [_make_step(objective, data, level, counts, t) for t in range(n_steps)]

    def total(self, net: nn.Module, features: Tensor, batch: Batch, step: int) -> Tensor:
        assert isinstance(net, LevelScorer)
        levels = list(self.select(batch, features.device))
        scores = net.score_levels(features, levels)
        return torch.cat([listwise_values(s, level.lists, step) for s, level in zip(scores, levels, strict=True)]).sum()

    def select(self, batch: Batch, device: torch.device) -> Iterator[Level]:
        """Yield the steps that the lists of a batch have."""
        previous: Rows | None = None
        for step in self._steps:
            places = step.place[batch.positions]
            present = places[places >= 0]
            if len(present) == 0:
                return
            entries, offsets = take_lists(step.lists.offsets, present)
            of_level = np.flatnonzero(step.of_level[entries])
            list_of = list_of_document(offsets)
            sizes = np.bincount(list_of[of_level], minlength=len(present))
            before = np.arange(len(present)) if previous is None else np.flatnonzero(places[previous] >= 0)
            documents = _places_in_batch(batch, step.documents[entries])
            arrays = (documents, of_level, sizes, before[list_of])
            yield Level(step.lists.take(present), *(torch.from_numpy(array).to(device) for array in arrays))
            previous = np.flatnonzero(places >= 0)


def _find_levels(data: Dataset) -> tuple[Rows, Rows]:
    """Each document's level in its list, 0 for the highest, and each list's number of levels."""
    list_of = list_of_document(data.offsets)
    order = np.lexsort((-data.labels, list_of))
    labels, lists = data.labels[order], list_of[order]
    falls = np.zeros(len(order), np.int64)
    falls[1:] = (labels[1:] < labels[:-1]) & (lists[1:] == lists[:-1])
    falls_of_list = np.bincount(lists[falls > 0], minlength=data.n_lists)
    falls_before = np.cumsum(falls_of_list) - falls_of_list
    level = np.empty(len(order), np.int64)
    level[order] = np.cumsum(falls) - falls_before[lists]
    return level, falls_of_list + 1


def _make_step(objective: Objective, data: Dataset, level: Rows, counts: Rows, t: int) -> _Step:
    list_of = list_of_document(data.offsets)
    present = counts > t + 1
    documents = np.flatnonzero(present[list_of] & (level >= t))
    of_level = level[documents] == t
    sizes = np.bincount(list_of[documents], minlength=data.n_lists)[present]
    weights = 1.0 / (counts[present] - 1.0)
    if data.weights is not None:
        weights = weights * data.weights[present]
    labels = np.where(of_level, data.labels[documents], np.float32(0.0))
    offsets: Offsets = offsets_from_sizes(sizes)
    document_weights = None if data.document_weights is None else data.document_weights[documents]
    lists = objective.bind(labels, offsets, data.keys[present], weights, document_weights=document_weights)
    place = np.where(present, np.cumsum(present) - 1, -1)
    return _Step(lists, documents, of_level, place)


def _places_in_batch(batch: Batch, documents: Rows) -> Rows:
    """Convert indices of documents in the data to indices in the batch."""
    if isinstance(batch.documents, slice):
        return documents - batch.documents.start
    order = np.argsort(batch.documents, kind="stable")
    return order[np.searchsorted(batch.documents, documents, sorter=order)]
