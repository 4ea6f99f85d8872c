"""The levels of labels of each list, the highest first, as lists of their own.

At step t a list takes part with its documents that are not above its t-th level; those of the level
are to be ranked before the rest. A list of L levels has L - 1 steps, each with the weight
1 / (L - 1), so that the steps together weigh as much as one list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plackett.base.ragged import Offsets, Rows, from_sizes, list_of_document
from plackett.data.dataset import Dataset
from plackett.models.neural.batches import Batch
from plackett.models.neural.listwise import gathered, take_lists
from plackett.objectives import Objective
from plackett.objectives.bound import Lists


@dataclass(frozen=True)
class Level:
    """One step of the lists of a batch that are not through yet."""

    lists: Lists
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

    lists: Lists
    documents: Rows
    chosen: NDArray[np.bool_]
    place: Rows
    """For each list of the data, its place here; -1 if it has no such level."""

    def of(self, batch: Batch, previous: Rows | None, device: torch.device) -> Level:
        where = self.place[batch.positions]
        here = where[where >= 0]
        entries, offsets = gathered(self.lists.offsets, here)
        chosen = np.flatnonzero(self.chosen[entries])
        list_of = list_of_document(offsets)
        sizes = np.bincount(list_of[chosen], minlength=len(here))
        before = np.arange(len(here)) if previous is None else np.flatnonzero(where[previous] >= 0)
        tensors = (_inside(batch, self.documents[entries]), chosen, sizes, before[list_of])
        return Level(
            take_lists(self.lists, here), *(torch.from_numpy(each).to(device) for each in tensors)
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
    offsets: Offsets = from_sizes(sizes)
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
