"""Batches of whole lists: which lists, in which order, with which features.

The order of an epoch is a function of the seed, the epoch and the keys of the lists, so a resumed fit and the workers
of a distributed one, each of which takes its own lists from a batch, see the same batches.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from plackett.base.kernels import compiled
from plackett.base.ragged import Features, Keys, Labels, Offsets, Rows, take_lists
from plackett.base.random import mix_keys
from plackett.data import Dataset
from plackett.data.large_arrays import is_large, release_pages
from plackett.distributed import Partition, WorkerGroup
from plackett.models.neural.ranker import BaseNeuralRanker
from plackett.objectives import objective as as_objective

_RELEASED_AFTER = 4 << 20  # bytes; reading scattered lists loads many times as many bytes of a file
_ORDER = 0x6F72646572  # makes this order independent of the noise of objectives with the same seed


@dataclass(frozen=True)
class Batch:
    """Whole lists of a data set."""

    positions: Rows
    documents: slice | Rows
    offsets: Offsets
    """Offsets of the lists within these documents."""


@dataclass(frozen=True)
class BatchPlan:
    """The batches of a fit, and the part of them that this process holds."""

    partition: Partition
    positions: Rows
    """Indices, among all lists, of those with a loss: at least two different labels, for most objectives."""
    worker_group: WorkerGroup | None = None

    @classmethod
    def whole(cls, ranker: BaseNeuralRanker, data: Dataset) -> BatchPlan:
        """The plan of a fit in one process."""
        return cls(Partition.whole(data), find_trained_lists(ranker, data))

    def batches(self, ranker: BaseNeuralRanker, epoch: int) -> list[Rows]:
        """Indices of the lists of each batch, the same for all workers."""
        order = epoch_order(self.positions, self.partition.keys, seed=ranker.seed, epoch=epoch)
        limits = {"lists": ranker.batch_lists, "documents": ranker.batch_documents}
        return [order[a:b] for a, b in cut(order, self.partition.sizes, **limits)]

    def divisor(self, count: int, reduction: str) -> float:
        """The divisor of a sum of losses, given that the gradients of the workers are averaged."""
        workers = 1 if self.worker_group is None else self.worker_group.size
        return (count if reduction == "mean" else 1) / workers

    def noise_step(self, step: int) -> int:
        """A number that differs for each step and each worker, to seed the random numbers of nets."""
        group = self.worker_group
        return step if group is None else step * group.size + group.rank

    def sum_over_workers(self, value: Tensor) -> float:
        """Add up a number that each worker has."""
        if self.worker_group is None:
            return float(value.item())
        total = value.detach().to(torch.float64)
        torch.distributed.all_reduce(total)
        return float(total.item())


def make_batch(offsets: Offsets, positions: Rows) -> Batch:
    """Make a batch of the lists at these positions; adjacent lists become one slice."""
    first, last = positions[0], positions[-1]
    if len(positions) == 1 or (last - first == len(positions) - 1 and bool(np.all(np.diff(positions) == 1))):
        low, high = int(offsets[first]), int(offsets[last + 1])
        return Batch(positions, slice(low, high), offsets[first : last + 2] - low)
    return Batch(positions, *take_lists(offsets, positions))


def find_trained_lists(ranker: BaseNeuralRanker, data: Dataset) -> Rows:
    """Indices of the lists that have a loss."""
    if as_objective(ranker.objective).uses_one_level:
        return np.arange(data.n_lists)
    return learnable(data.labels, data.offsets)


def learnable(labels: Labels, offsets: Offsets) -> Rows:
    """Indices of the lists with at least two different labels; others have no gradient."""
    return np.flatnonzero(_has_different_labels(labels, offsets))


def epoch_order(positions: Rows, keys: Keys, *, seed: int, epoch: int) -> Rows:
    """The lists of an epoch, shuffled by seed, epoch and keys."""
    hashes = mix_keys(keys[positions], np.uint64(seed % 2**64) ^ np.uint64(_ORDER), np.uint64(epoch))
    # Identical lists have equal keys; their canonical order, which a stable sort keeps, decides.
    return positions[np.argsort(hashes, kind="stable")]


def cut(order: Rows, sizes: Rows, *, lists: int | None, documents: int | None) -> list[tuple[int, int]]:
    """Cut the order into batches within both limits; a longer list is its own batch. Return the bounds of batches."""
    if documents is None:
        assert lists is not None
        return [(a, min(a + lists, len(order))) for a in range(0, len(order), lists)]
    most = len(order) if lists is None else lists
    ends = np.cumsum(sizes[order])
    bounds, start, before = [], 0, 0
    while start < len(order):
        fitting = int(np.searchsorted(ends, before + documents, side="right"))
        stop = min(max(fitting, start + 1), start + most)
        bounds.append((start, stop))
        start, before = stop, int(ends[stop - 1])
    return bounds


def scoring_batches(offsets: Offsets, documents: int) -> Iterator[Batch]:
    """Yield all lists in order, in batches of about ``documents`` documents."""
    n_lists = len(offsets) - 1
    for start, stop in cut(np.arange(n_lists), np.diff(offsets), lists=None, documents=documents):
        yield make_batch(offsets, np.arange(start, stop))


class FeatureRows:
    """The features of a data set, copied batch by batch to a device.

    Batches are copied into memory that PyTorch allocates: the last bits of a matrix product may
    depend on the alignment of memory, and only PyTorch's is always the same.
    """

    def __init__(self, features: Features | csr_array, device: torch.device) -> None:
        self._features = features if isinstance(features, csr_array) else _as_tensor(features)
        self._device = device
        self._large = features if is_large(features) else None
        self._bytes_read = 0

    def __getitem__(self, documents: slice | Rows) -> Tensor:
        batch = self._copy(documents)
        self._bytes_read += batch.nbytes
        if self._large is not None and self._bytes_read > _RELEASED_AFTER:
            release_pages(self._large)
            self._bytes_read = 0
        return batch

    def _copy(self, documents: slice | Rows) -> Tensor:
        if isinstance(self._features, csr_array):
            return torch.from_numpy(self._features[documents].toarray()).to(self._device)
        if isinstance(documents, slice):
            return self._features[documents].to(self._device, copy=True)
        return self._features.index_select(0, torch.from_numpy(documents)).to(self._device)


def _as_tensor(features: Features) -> Tensor:
    """A tensor over the array's memory, which is only read."""
    with warnings.catch_warnings():
        # PyTorch has no read-only tensors and warns about read-only arrays.
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(features)


@compiled
def _has_different_labels(labels, offsets):  # type: ignore[no-untyped-def]
    differ = np.zeros(len(offsets) - 1, np.bool_)
    for q in range(len(differ)):
        for i in range(offsets[q] + 1, offsets[q + 1]):
            differ[q] |= labels[i] != labels[offsets[q]]
    return differ
