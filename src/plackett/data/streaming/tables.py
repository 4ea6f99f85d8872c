"""The rows of Parquet and Arrow files, a few thousand at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from plackett.base.errors import DataError
from plackett.data.arrays import Missing
from plackett.data.columns import Columns, RowReader
from plackett.data.shards import Shard, naming
from plackett.data.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

Progress: TypeAlias = Callable[[int, int], object]
"""Called with the bytes done and the bytes in all."""

Stamp: TypeAlias = tuple[int, int, int]

_ROW = re.compile(r"\brow (\d+) \(counted from 0\)")


def tables(columns: Columns, missing: Missing, progress: Progress | None = None) -> Iterator[Table]:
    """All rows in the order of the files, checked as :func:`plackett.read` checks them."""
    total = sum(shard.n_bytes for shard in columns.shards)
    done = 0
    kinds: tuple[str, ...] | None = None
    for shard in columns.shards:
        row = 0
        with naming(shard.path):
            for batch in shard.batches(columns.roles.columns):
                if row + batch.num_rows > shard.n_rows:
                    raise DataError(
                        f"has more rows than the {shard.n_rows} it says; it is damaged."
                    )
                table = _table(columns, shard, batch, row, missing)
                kinds = _same_kinds(table, kinds)
                row += batch.num_rows
                if progress is not None:
                    progress(done + shard.n_bytes * min(row, shard.n_rows) // shard.n_rows, total)
                yield table
            if row != shard.n_rows:
                raise DataError(f"has {row} rows, and says {shard.n_rows}; it is damaged.")
        done += shard.n_bytes


@contextmanager
def unchanged(columns: Columns) -> Iterator[None]:
    """Refuse what was read while somebody wrote to the files, or took them away."""
    before = [_stamp(shard.path) for shard in columns.shards]
    try:
        yield
    except Exception as error:  # whatever a file that is not whole brings about
        _refuse_changed(columns, before, error)
        raise
    _refuse_changed(columns, before, None)


def _refuse_changed(columns: Columns, before: list[Stamp | None], error: Exception | None) -> None:
    for shard, stamp in zip(columns.shards, before, strict=True):
        now = _stamp(shard.path)
        if now is None or now != stamp:
            what = "was taken away" if now is None else "was changed"
            raise DataError(
                f"{what} while it was read; try again when nobody writes to it.",
                path=str(shard.path),
            ) from error


def _stamp(path: Path) -> Stamp | None:
    """What differs when a file is written to or replaced; None if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _table(
    columns: Columns, shard: Shard, batch: pa.RecordBatch, row: int, missing: Missing
) -> Table:
    part = replace(shard, n_rows=batch.num_rows)
    reader = RowReader(columns.roles, [part], columns.width, None)
    reader.add_batch(batch, row)
    try:
        reader.check(slice(0, batch.num_rows), missing)
    except DataError as error:  # it counts rows from the first of the batch
        told = _ROW.sub(lambda m: f"row {int(m[1]) + row} (counted from 0)", error.message)
        raise DataError(told) from error
    return replace(reader.table(), source=columns.name)


def _same_kinds(table: Table, before: tuple[str, ...] | None) -> tuple[str, ...]:
    """Refuse ids that are integers in some places and strings in others."""
    ids = {"query": table.query_ids, "document": table.document_ids}
    kinds = tuple("" if each is None else each.dtype.kind for each in ids.values())
    for name, kind, old in zip(ids, kinds, before or kinds, strict=True):
        if kind != old:
            raise DataError(
                f"the column of {name} ids holds integers in some files and strings in others."
            )
    return kinds
