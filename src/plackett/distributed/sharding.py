"""Which lists each worker has, and how they get there.

Lists are cut, in their canonical order, into runs of about equally many documents. That order is
one of hashes, so a run is a random sample, and a worker's lists are one slice of every array.
A list is never divided.
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

Bounds = list[tuple[int, int]]


@dataclass(frozen=True)
class Outline:
    """What a worker knows of all lists, of which it has its own: enough to agree on batches."""

    keys: Keys
    sizes: Rows
    start: int
    """Position of its first list among all."""
    stop: int

    @classmethod
    def whole(cls, data: Dataset) -> Outline:
        """Of one process that has all lists."""
        return cls(data.keys, np.diff(data.offsets), 0, data.n_lists)

    def own(self, positions: Rows) -> Rows:
        """Those of the lists at these positions that the worker has, by their places with it."""
        return positions[(positions >= self.start) & (positions < self.stop)] - self.start


@dataclass(frozen=True)
class Place:
    """A part of a memory-mapped data set that every machine sees."""

    path: Path
    start: int
    stop: int

    def open(self) -> Dataset:
        """The lists."""
        return open_whole(self.path).lists(self.start, self.stop)


def open_whole(path: Path) -> Dataset:
    """A memory-mapped data set."""
    return open_mapped(path, missing="nan")


def cut(offsets: Offsets, count: int) -> Bounds:
    """Runs of lists with about equally many documents, at least one list each.

    >>> cut(np.array([0, 5, 6, 7, 10]), 2)
    [(0, 1), (1, 4)]
    """
    n_lists, n_docs = len(offsets) - 1, int(offsets[-1])
    if n_lists < count:
        raise UsageError(
            f"{n_lists} lists cannot be shared out among {count} workers, which need one each; use "
            "fewer workers."
        )
    bounds, start = [], 0
    for place in range(count):
        wanted = int(np.argmin(np.abs(offsets - n_docs * (place + 1) / count)))
        stop = min(max(wanted, start + 1), n_lists - (count - 1 - place))
        bounds.append((start, stop if place < count - 1 else n_lists))
        start = bounds[-1][1]
    return bounds


def place_of(data: Dataset) -> Path | None:
    """The folder of a memory-mapped data set, if ``data`` is all of one; else None."""
    array: Any = data.features
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    if not isinstance(array, np.memmap) or array.filename is None:
        return None
    folder = Path(array.filename).parent
    if not is_mapped(folder):
        return None
    there = open_mapped(folder, missing="nan")
    same = there.n_docs == data.n_docs and all(
        _equal(getattr(there, name), getattr(data, name))
        for name in ("keys", "labels", "weights", "document_weights")
    )
    return folder.resolve() if same else None


def _equal(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)
