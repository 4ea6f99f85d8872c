"""Batches of whole lists: which lists, in which order, with which features.

The order of an epoch is a function of seed, epoch and the keys of the lists, so it depends neither
on the order of the data nor on hidden state, and a fit taken up again goes on with the same
batches.

The levels of labels of each list, the highest first, as lists of their own.

At step t a list takes part with its documents that are not above its t-th level; those of the level
are to be ranked before the rest. A list of L levels has L - 1 steps, each with the weight
1 / (L - 1), so that the steps together weigh as much as one list.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from plackett.base.kernels import compiled
from plackett.base.ragged import (
    Features,
    Keys,
    Labels,
    Offsets,
    Rows,
    list_of_document,
    offsets_from_sizes,
    take_lists,
)
from plackett.base.random import combine
from plackett.data.dataset import Dataset
from plackett.data.large_arrays import is_large, release_pages
from plackett.objectives import Objective
from plackett.objectives.objective import BoundObjective

_RELEASED_AFTER = 4 << 20  # bytes: lists from all over a file bring many times as many along
_ORDER = 0x6F72646572  # keeps this order apart from the noise of objectives with the same seed


@dataclass(frozen=True)
class Batch:
    """Whole lists."""

    positions: Rows
    """Of the lists in the data."""
    documents: slice | Rows
    """Of these lists in the data."""
    offsets: Offsets
    """Of these lists among these documents."""


def batch_of(offsets: Offsets, positions: Rows) -> Batch:
    """The lists at these positions; neighbours in their order are one slice."""
    first, last = positions[0], positions[-1]
    if last - first == len(positions) - 1 and (len(positions) == 1 or _rising(positions)):
        low, high = int(offsets[first]), int(offsets[last + 1])
        return Batch(positions, slice(low, high), offsets[first : last + 2] - low)
    return Batch(positions, *take_lists(offsets, positions))


def learnable(labels: Labels, offsets: Offsets) -> Rows:
    """Positions of the lists with at least two levels of labels; others have no gradient."""
    return np.flatnonzero(_differing(labels, offsets))


def epoch_order(positions: Rows, keys: Keys, *, seed: int, epoch: int) -> Rows:
    """The lists of an epoch, shuffled by seed, epoch and keys."""
    base = np.uint64(combine(np.uint64(seed % 2**64) ^ np.uint64(_ORDER), np.uint64(epoch)))
    words = _words(keys[positions], base)
    # Equal lists have equal keys: their places, which the canonical order fixes, decide.
    return positions[np.argsort(words, kind="stable")]


def cut(
    order: Rows, sizes: Rows, *, lists: int | None, documents: int | None
) -> list[tuple[int, int]]:
    """Where to cut the order into batches of at most so many lists and documents.

    A list longer than ``documents`` is a batch of its own.
    """
    if documents is None:
        assert lists is not None
        return [(a, min(a + lists, len(order))) for a in range(0, len(order), lists)]
    most = len(order) if lists is None else lists
    ends = np.cumsum(sizes[order])
    bounds, start, before = [], 0, 0
    while start < len(order):
        fits = int(np.searchsorted(ends, before + documents, side="right"))
        stop = min(max(fits, start + 1), start + most)
        bounds.append((start, stop))
        start, before = stop, int(ends[stop - 1])
    return bounds


class FeatureRows:
    """The features of a data set, handed out batch by batch on a device.

    Each batch is copied into memory of PyTorch's own: products of matrices may differ in their last
    bits with the alignment of memory, and only PyTorch's is the same each time.
    """

    def __init__(self, features: Features | csr_array, device: torch.device) -> None:
        self._sparse = features if isinstance(features, csr_array) else None
        self._dense = None if isinstance(features, csr_array) else _borrowed(features)
        self._device = device
        self._large = features if is_large(features) else None
        self._handed_out = 0

    def __getitem__(self, documents: slice | Rows) -> Tensor:
        batch = self._copy(documents)
        self._handed_out += batch.nbytes
        if self._large is not None and self._handed_out > _RELEASED_AFTER:
            release_pages(self._large)
            self._handed_out = 0
        return batch

    def _copy(self, documents: slice | Rows) -> Tensor:
        if self._dense is None:
            assert self._sparse is not None
            return torch.from_numpy(self._sparse[documents].toarray()).to(self._device)
        if isinstance(documents, slice):
            return self._dense[documents].to(self._device, copy=True)
        return self._dense.index_select(0, torch.from_numpy(documents)).to(self._device)


def blocks(offsets: Offsets, documents: int) -> Iterator[Batch]:
    """All lists in order, in batches of about so many documents."""
    n_lists = len(offsets) - 1
    sizes = np.diff(offsets)
    for start, stop in cut(np.arange(n_lists), sizes, lists=None, documents=documents):
        yield batch_of(offsets, np.arange(start, stop))


def _borrowed(features: Features) -> Tensor:
    """A tensor over the array's own memory; nobody writes to it."""
    with warnings.catch_warnings():
        # PyTorch has no read-only tensors and warns of arrays that are.
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(features)


def _rising(positions: Rows) -> bool:
    return bool(np.all(np.diff(positions) == 1))


@compiled
def _words(keys, base):  # type: ignore[no-untyped-def]
    out = np.empty_like(keys)
    for q in range(len(keys)):
        out[q] = combine(base, keys[q])
    return out


@compiled
def _differing(labels, offsets):  # type: ignore[no-untyped-def]
    out = np.zeros(len(offsets) - 1, np.bool_)
    for q in range(len(out)):
        for i in range(offsets[q] + 1, offsets[q + 1]):
            out[q] |= labels[i] != labels[offsets[q]]
    return out


@dataclass(frozen=True)
class Level:
    """One step of the lists of a batch that are not through yet."""

    lists: BoundObjective
    documents: Tensor
    """That take part, as places in the batch."""
    chosen: Tensor
    """Which of them are of the level."""
    sizes: Tensor
    """How many of them, list by list."""
    below: Tensor
    """For each document, the place of its list among those of the step before."""


@dataclass(frozen=True)
class _Step:
    """One step of all lists."""

    lists: BoundObjective
    documents: Rows
    chosen: NDArray[np.bool_]
    place: Rows
    """For each list of the data, its place here; -1 if it has no such level."""

    def of(self, batch: Batch, previous: Rows | None, device: torch.device) -> Level:
        where = self.place[batch.positions]
        here = where[where >= 0]
        entries, offsets = take_lists(self.lists.offsets, here)
        chosen = np.flatnonzero(self.chosen[entries])
        list_of = list_of_document(offsets)
        sizes = np.bincount(list_of[chosen], minlength=len(here))
        before = np.arange(len(here)) if previous is None else np.flatnonzero(where[previous] >= 0)
        tensors = (_inside(batch, self.documents[entries]), chosen, sizes, before[list_of])
        return Level(
            self.lists.take(here), *(torch.from_numpy(each).to(device) for each in tensors)
        )


class Levels:
    """The steps of all lists of a data set."""

    def __init__(self, objective: Objective, data: Dataset) -> None:
        level, counts = _levels(data)
        self._steps = [
            _step(objective, data, level, counts, t) for t in range(int(counts.max(initial=1)) - 1)
        ]

    def of(self, batch: Batch, device: torch.device) -> Iterator[Level]:
        """The steps of the lists of a batch, while there are any."""
        previous: Rows | None = None
        for step in self._steps:
            present = step.place[batch.positions] >= 0
            if not present.any():
                return
            yield step.of(batch, previous, device)
            previous = np.flatnonzero(present)


def _levels(data: Dataset) -> tuple[Rows, Rows]:
    """Each document's level in its list, 0 for the highest, and each list's number of levels."""
    list_of = list_of_document(data.offsets)
    order = np.lexsort((-data.labels, list_of))
    labels, lists = data.labels[order], list_of[order]
    falls = np.zeros(len(order), np.int64)
    falls[1:] = (labels[1:] < labels[:-1]) & (lists[1:] == lists[:-1])
    running = np.cumsum(falls)
    level = np.empty(len(order), np.int64)
    filled = np.flatnonzero(np.diff(data.offsets))
    first = np.zeros(data.n_lists, np.int64)
    first[filled] = running[data.offsets[filled]]
    level[order] = running - first[lists]
    counts = np.zeros(data.n_lists, np.int64)
    np.maximum.at(counts, list_of, level + 1)
    return level, counts


def _step(objective: Objective, data: Dataset, level: Rows, counts: Rows, t: int) -> _Step:
    list_of = list_of_document(data.offsets)
    alive = counts > t + 1
    documents = np.flatnonzero(alive[list_of] & (level >= t))
    chosen = level[documents] == t
    sizes = np.bincount(list_of[documents], minlength=data.n_lists)[alive]
    weights = 1.0 / (counts[alive] - 1.0)
    if data.weights is not None:
        weights = weights * data.weights[alive]
    labels = np.where(chosen, data.labels[documents], np.float32(0.0))
    offsets: Offsets = offsets_from_sizes(sizes)
    each = None if data.document_weights is None else data.document_weights[documents]
    lists = objective.bind(labels, offsets, data.keys[alive], weights, document_weights=each)
    place = np.where(alive, np.cumsum(alive) - 1, -1)
    return _Step(lists, documents, chosen, place)


def _inside(batch: Batch, documents: Rows) -> Rows:
    """Places in the batch of documents of the data."""
    if isinstance(batch.documents, slice):
        return documents - batch.documents.start
    order = np.argsort(batch.documents, kind="stable")
    return order[np.searchsorted(batch.documents, documents, sorter=order)]
