"""Whole lists out of rows that come block by block.

A list that goes on in the next block, or in the next file, is put together before it is handed out.
Rows of a list must stand next to each other: a list that comes back later has already been handed
out, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from plackett.base.errors import DataError
from plackett.base.ragged import Ids
from plackett.data.arrays import Missing
from plackett.data.columns import Columns
from plackett.data.dataset import Dataset
from plackett.data.on_disk import block_rows
from plackett.data.streaming.tables import Progress, tables, unchanged
from plackett.data.table import Table

_PER_ROW = (
    "features",
    "labels",
    "query_ids",
    "document_ids",
    "weights",
    "document_weights",
    "groups",
)


def whole_lists(
    columns: Columns, missing: Missing, progress: Progress | None = None
) -> Iterator[Dataset]:
    """Data sets of a few thousand documents, in the order of the files.

    ``rows`` count through all files from 0. Files without a document are refused, as in reading.
    """
    first, seen = 0, _Seen()
    with unchanged(columns):
        for table in _cut_at_lists(tables(columns, missing, progress), 4 * columns.width):
            yield _dataset(table, first, seen)
            first += table.n_docs
    if first == 0:
        raise DataError("there are no documents.", path=columns.name)


def _cut_at_lists(parts: Iterator[Table], row_bytes: int) -> Iterator[Table]:
    """The same rows in blocks of whole lists."""
    least = wanted = block_rows(row_bytes)
    waiting: list[Table] = []
    for table in parts:
        waiting.append(table)
        if sum(part.n_docs for part in waiting) < wanted:
            continue
        joined = _joined(waiting)
        end = _last_start(joined.query_ids)
        if end > 0:
            yield _cut(joined, 0, end)
        waiting = [_cut(joined, end, joined.n_docs)]
        # A list longer than blocks is not put together anew for each of them.
        wanted = max(least, 2 * waiting[0].n_docs)
    if waiting:
        yield _joined(waiting)


class _Seen:
    """Queries that have been handed out."""

    def __init__(self) -> None:
        self.names: set[Any] = set()

    def add(self, names: Ids, source: str | None) -> None:
        for name in names.tolist():
            if name in self.names:
                raise DataError(
                    f"query id {name!r} comes back after rows of other queries; rows that are "
                    "streamed must stand next to each other list by list: sort them by query, or "
                    "convert the files to the memory-mapped form (plackett convert), which puts "
                    "them in order.",
                    path=source,
                )
            self.names.add(name)


def _dataset(table: Table, first: int, seen: _Seen) -> Dataset:
    runs = table.query_ids[1:] != table.query_ids[:-1]
    seen.add(table.query_ids[np.flatnonzero(np.concatenate([[True], runs]))], table.source)
    dataset = Dataset.from_table(table)
    return replace(dataset, rows=dataset.rows + first)


def _last_start(ids: Ids) -> int:
    """Where the last list begins, which may not be whole yet."""
    changes = np.flatnonzero(ids[1:] != ids[:-1])
    return int(changes[-1]) + 1 if len(changes) else 0


def _joined(parts: list[Table]) -> Table:
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in _PER_ROW
        if getattr(parts[0], name) is not None
    }
    return replace(parts[0], **columns)


def _cut(table: Table, start: int, stop: int) -> Table:
    columns: dict[str, Any] = {
        name: getattr(table, name)[start:stop]
        for name in _PER_ROW
        if getattr(table, name) is not None
    }
    return replace(table, **columns)
