"""Partitions: which lists each worker has, and how they get there.

The lists, in canonical order, are cut into runs with about equally many documents. The canonical
order is an order of hashes, so each run is a random sample, and a worker's lists are one slice of
every array. A list is never divided.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plackett.base.errors import UsageError
from plackett.base.ragged import Keys, Offsets, Rows
from plackett.data.dataset import Dataset
from plackett.data.mapped import is_mapped, open_mapped


@dataclass(frozen=True)
class Partition:
    """The training lists of one worker, and the keys and sizes of all lists.

    Every worker knows the keys and sizes of all lists, so that all can agree on batches.
    """

    keys: Keys
    sizes: Rows
    start: int
    """Position of the worker's first list among all lists."""
    stop: int

    @classmethod
    def whole(cls, data: Dataset) -> Partition:
        """The partition of a single process that has all lists."""
        return cls(data.keys, np.diff(data.offsets), 0, data.n_lists)

    def to_local(self, positions: Rows) -> Rows:
        """Convert positions among all lists to the worker's own; other lists are left out."""
        return positions[(positions >= self.start) & (positions < self.stop)] - self.start


@dataclass(frozen=True)
class MappedSlice:
    """A run of lists in a memory-mapped data set that every machine sees."""

    path: Path
    start: int
    stop: int

    def open(self) -> Dataset:
        """Open the lists."""
        return open_folder(self.path).lists(self.start, self.stop)


def open_folder(path: Path) -> Dataset:
    """Open a memory-mapped data set."""
    return open_mapped(path, missing="nan")


def split_lists(offsets: Offsets, count: int) -> list[tuple[int, int]]:
    """Cut lists into ``count`` runs with about equally many documents, at least one list each.

    >>> split_lists(np.array([0, 5, 6, 7, 10]), 2)
    [(0, 1), (1, 4)]
    """
    n_lists, n_docs = len(offsets) - 1, int(offsets[-1])
    if n_lists < count:
        raise UsageError(
            f"{n_lists} lists cannot be divided among {count} workers, which need at least one "
            "each; use fewer workers."
        )
    bounds, start = [], 0
    for i in range(count):
        nearest = int(np.argmin(np.abs(offsets - n_docs * (i + 1) / count)))
        stop = min(max(nearest, start + 1), n_lists - (count - 1 - i))
        bounds.append((start, stop if i < count - 1 else n_lists))
        start = bounds[-1][1]
    return bounds


def find_mapped_folder(data: Dataset) -> Path | None:
    """The folder of a memory-mapped data set if ``data`` is all of it, else None."""
    array: Any = data.features
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    if not isinstance(array, np.memmap) or array.filename is None:
        return None
    folder = Path(array.filename).parent
    if not is_mapped(folder):
        return None
    stored = open_folder(folder)
    same = stored.n_docs == data.n_docs and all(
        _is_equal(getattr(stored, name), getattr(data, name))
        for name in ("keys", "labels", "weights", "document_weights")
    )
    return folder.resolve() if same else None


def _is_equal(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)
