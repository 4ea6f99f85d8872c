"""Rows of Parquet and Arrow files as a :class:`~plackett.data.dataset.Table`.

Features are one column each, or one column of lists. They are read a few thousand rows at a time
into one float32 matrix, so the set is never in memory twice.

Record batches of Parquet and Arrow files, from one file or from a folder of them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.ragged import Features
from plackett.data.columnar.roles import (
    LABEL,
    QUERY,
    Roles,
    check_types,
    find_roles,
    refuse_other_roles,
)
from plackett.data.dataset import Table
from plackett.data.inputs import (
    Missing,
    as_document_weights,
    as_groups,
    as_ids,
    as_labels,
    as_weights,
    check_features,
    first_appearance,
)

PARQUET = ".parquet"
_BATCH_ROWS = 16_384  # fewer cost more time per column: measured with 136 columns
_BATCH_VALUES = 1 << 22
_IPC_MAGIC = b"ARROW1"


@dataclass(frozen=True)
class Shard:
    """One file of rows."""

    path: Path
    schema: pa.Schema
    n_rows: int
    n_bytes: int

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Give these columns, in this order, a few thousand rows at a time."""
        with naming(self.path):
            rows = batch_rows(len(columns))
            for batch in _batches(self.path, list(columns), rows):
                for start in range(0, batch.num_rows, rows):
                    yield batch.slice(start, rows)


def batch_rows(n_columns: int) -> int:
    """Largest number of rows that a batch of this many columns has."""
    return max(1, min(_BATCH_ROWS, _BATCH_VALUES // n_columns))


def open_shard(path: Path) -> Shard:
    """Find the columns and the number of rows of a file without reading its values."""
    with naming(path):
        if path.suffix.lower() == PARQUET:
            with pq.ParquetFile(path) as file:
                schema, n_rows = file.schema_arrow, file.metadata.num_rows
        else:
            with pa.memory_map(str(path)) as source:
                reader = _ipc_reader(source)
                schema = reader.schema
                n_rows = sum(batch.num_rows for batch in _ipc_batches(reader))
        if n_rows < 0:
            raise DataError(f"says that it has {n_rows} rows; it is damaged.")
    return Shard(path, schema, n_rows, path.stat().st_size)


def _batches(path: Path, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    if path.suffix.lower() == PARQUET:
        # Without pre_buffer a row group is decoded page by page, never held as a whole.
        with pq.ParquetFile(path, memory_map=True, pre_buffer=False) as file:
            for batch in file.iter_batches(rows, columns=columns):
                yield batch.select(columns)
    else:
        with pa.memory_map(str(path)) as source:
            for batch in _ipc_batches(_ipc_reader(source)):
                chosen = batch.select(columns)
                # Arrow trusts the offsets of strings and lists in a file: wrong ones crash.
                chosen.validate(full=True)
                yield chosen


def _ipc_reader(source: pa.NativeFile) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
    is_file = source.read(len(_IPC_MAGIC)) == _IPC_MAGIC
    source.seek(0)
    return pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)


def _ipc_batches(
    reader: pa.RecordBatchFileReader | pa.RecordBatchStreamReader,
) -> Iterator[pa.RecordBatch]:
    if isinstance(reader, pa.RecordBatchFileReader):
        for at in range(reader.num_record_batches):
            yield reader.get_batch(at)
    else:
        yield from reader


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file in errors, and turn what Arrow says of a damaged one into such an error."""
    try:
        yield
    except DataError as error:
        if error.path is not None:
            raise
        raise DataError(error.message, path=str(path)) from error
    except (FileNotFoundError, MemoryError):
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if os.strerror(errno.ENOMEM) in str(error):  # Arrow leaves the number out
            raise MemoryError(f"{path}: {error}") from error  # the file is not to blame
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "unreadable"
        raise DataError(
            f"not a readable Parquet or Arrow file: {reason}", path=str(path)
        ) from error


Progress: TypeAlias = Callable[[int, int], object]
"""Called with the bytes done and the bytes in all."""


def read_columns(
    paths: Sequence[Path],
    *,
    label: str | None = LABEL,
    query: str = QUERY,
    document: str | None = None,
    weight: str | None = None,
    features: str | Sequence[str] | None = None,
    n_features: int | None = None,
    missing: Missing = None,
    strict: bool = False,
    source: str | None = None,
    progress: Progress | None = None,
) -> Table:
    """Read Parquet or Arrow files as one table, in the order given.

    The arguments are those of :func:`plackett.data.reader.read`; ``source`` names the table in
    messages.
    """
    wanted = {"label": label, "query": query, "document": document, "weight": weight}
    found = open_columns(paths, source, n_features=n_features, features=features, **wanted)
    with naming(Path(found.name)):
        table = _read_rows(
            found.shards, RowReader(found.roles, found.shards, found.width, progress), missing
        )
        _check_lists(table, strict=strict)
    return replace(table, source=found.name)


@dataclass(frozen=True)
class Columns:
    """Files whose columns are known and fit together, before their rows are read."""

    name: str
    shards: tuple[Shard, ...]
    roles: Roles
    width: int
    """Number of features."""

    @property
    def n_docs(self) -> int:
        """Rows of all files."""
        return sum(shard.n_rows for shard in self.shards)


def open_columns(
    paths: Sequence[Path], source: str | None, *, n_features: int | None, **wanted: Any
) -> Columns:
    """Find and check the columns of files; ``wanted`` are the arguments of ``find_roles``."""
    shards = tuple(open_shard(path) for path in paths)
    first = shards[0]
    with naming(first.path):
        roles = find_roles(first.schema, **wanted)
    for shard in shards:
        with naming(shard.path):
            check_types(shard.schema, roles)
            refuse_other_roles(shard.schema, first.schema, roles.columns)
    name = source or str(first.path)
    with naming(Path(name)):
        width = _width(shards, roles)
        if n_features not in (None, width):
            raise DataError(f"there are {width} features, and n_features={n_features} was given.")
    return Columns(name, shards, roles, width)


def _read_rows(shards: Sequence[Shard], reader: RowReader, missing: Missing) -> Table:
    for shard in shards:
        with naming(shard.path):
            reader.add(shard, missing)
    return reader.table()


def _check_lists(table: Table, *, strict: bool) -> None:
    """Refuse what grouping would, here, where the file can be named."""
    if table.n_docs == 0:
        raise DataError("there are no documents.")
    if not strict and table.weights is None and table.groups is None:
        return
    names, codes, contiguous = first_appearance(table.query_ids)
    if strict and not contiguous:
        # Numbers are given by first appearance, so the first one that falls comes back.
        row = int(np.argmax(np.diff(codes) < 0)) + 1
        raise DataError(
            f"row {row} (counted from 0): query id {names[codes[row]].item()!r} comes back after "
            "rows of other queries; sort the rows by query, or read them without strict."
        )
    if table.weights is not None:
        as_weights(table.weights, names, codes)
    if table.groups is not None:
        as_groups(table.groups, names, codes)


class RowReader:
    """Arrays for all rows, filled shard by shard."""

    def __init__(
        self, roles: Roles, shards: Sequence[Shard], width: int, progress: Progress | None
    ) -> None:
        self.roles, self.progress = roles, progress
        n_docs = sum(shard.n_rows for shard in shards)
        self.n_bytes = sum(shard.n_bytes for shard in shards)
        self.features: Features = np.empty((n_docs, width), np.float32)
        self.labels = np.zeros(n_docs, np.float32)
        self.weights = None if roles.weight is None else np.empty(n_docs)
        self.document_weights = None if roles.document_weight is None else np.empty(n_docs)
        self.queries: list[NDArray[Any]] = []
        self.documents: list[NDArray[Any]] = []
        self.groups: list[NDArray[Any]] = []
        self.at = 0
        self.bytes_done = 0
        self.transposed: Features = np.empty((width, batch_rows(len(roles.columns))), np.float32)

    def add(self, shard: Shard, missing: Missing) -> None:
        first = self.at
        end = first + shard.n_rows
        for batch in shard.batches(self.roles.columns):
            if self.at + batch.num_rows > end:
                raise DataError(f"has more rows than the {shard.n_rows} it says; it is damaged.")
            self.add_batch(batch, self.at - first)
            if self.progress is not None:
                part = shard.n_bytes * (self.at - first) // shard.n_rows
                self.progress(self.bytes_done + part, self.n_bytes)
        if self.at != end:
            raise DataError(f"has {self.at - first} rows, and says {shard.n_rows}; it is damaged.")
        self.bytes_done += shard.n_bytes
        self.check(slice(first, self.at), missing)

    def check(self, rows: slice, missing: Missing) -> None:
        """Refuse wrong values; rows are counted from the first of these."""
        names = None if self.roles.listed else self.roles.features
        check_features(self.features[rows], missing, names)
        self.labels[rows] = as_labels(self.labels[rows], rows.stop - rows.start)
        if self.document_weights is not None:
            as_document_weights(self.document_weights[rows], rows.stop - rows.start)

    def add_batch(self, batch: pa.RecordBatch, row: int) -> None:
        """Take over the values of a batch, which begins at this row of its file."""
        rows, roles = slice(self.at, self.at + batch.num_rows), self.roles
        with np.errstate(over="ignore"):  # overflow gives inf, which the checks refuse
            if roles.label is not None:
                self.labels[rows] = _numbers(batch, roles.label, row)
            if self.weights is not None and roles.weight is not None:
                self.weights[rows] = _numbers(batch, roles.weight, row)
            if self.document_weights is not None and roles.document_weight is not None:
                self.document_weights[rows] = _numbers(batch, roles.document_weight, row)
            self._add_features(batch, rows, row)
        self.queries.append(_ids(batch, roles.query, row))
        if roles.document is not None:
            self.documents.append(_ids(batch, roles.document, row))
        if roles.group is not None:
            self.groups.append(_ids(batch, roles.group, row))
        self.at += batch.num_rows

    def _add_features(self, batch: pa.RecordBatch, rows: slice, row: int) -> None:
        if self.roles.listed:
            name = self.roles.features[0]
            self.features[rows] = _from_lists(batch, name, self.features.shape[1], row)
            return
        block = self.transposed[:, : batch.num_rows]
        for at, name in enumerate(self.roles.features):
            block[at] = _to_numpy(batch.column(name))
        self.features[rows] = block.T

    def table(self) -> Table:
        """All rows so far."""
        roles = self.roles
        made_up = not roles.named and roles.features == default_names(len(roles.features))
        return Table(
            features=self.features,
            labels=self.labels,
            query_ids=_join(self.queries, roles.query),
            document_ids=(
                None if roles.document is None else _join(self.documents, roles.document)
            ),
            weights=self.weights,
            document_weights=self.document_weights,
            groups=None if roles.group is None else _join(self.groups, roles.group),
            feature_names=None if roles.listed or made_up else roles.features,
        )


def default_names(n_features: int) -> tuple[str, ...]:
    """Names of columns whose features have none; read back, they mean "no names" again."""
    return tuple(f"f{at}" for at in range(1, n_features + 1))


def _width(shards: Sequence[Shard], roles: Roles) -> int:
    if not roles.listed:
        return len(roles.features)
    for shard in shards:
        for batch in shard.batches(roles.features):
            with naming(shard.path):
                width = int(pc.list_value_length(batch.column(0))[0].as_py() or 0)
                if width == 0:
                    raise DataError(
                        f"has no features: the first list of column {roles.features[0]!r} is empty."
                    )
                return width
    raise DataError("there are no documents.")


def _to_numpy(column: pa.Array) -> NDArray[Any]:
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _refuse_nulls(column: pa.Array, name: str, row: int) -> None:
    if column.null_count:
        at = row + int(np.argmax(_to_numpy(column.is_null())))
        raise DataError(f"row {at} (counted from 0): column {name!r} is null.")


def _numbers(batch: pa.RecordBatch, name: str, row: int) -> NDArray[Any]:
    column = batch.column(name)
    _refuse_nulls(column, name, row)
    return _to_numpy(column)


def _ids(batch: pa.RecordBatch, name: str, row: int) -> NDArray[Any]:
    column = batch.column(name)
    _refuse_nulls(column, name, row)
    return as_ids(column, len(column), what=f"column {name!r}")


def _join(pieces: list[NDArray[Any]], name: str) -> NDArray[Any]:
    if len({piece.dtype.kind for piece in pieces}) > 1:
        raise DataError(f"column {name!r} holds integers in some files and strings in others.")
    return np.concatenate(pieces) if pieces else np.empty(0, np.int64)


def _from_lists(batch: pa.RecordBatch, name: str, width: int, row: int) -> NDArray[Any]:
    column = batch.column(name)
    _refuse_nulls(column, name, row)
    lengths = _to_numpy(pc.list_value_length(column))
    differ = lengths != width
    if differ.any():
        at = int(np.argmax(differ))
        raise DataError(
            f"row {row + at} (counted from 0): {lengths[at]} features where the first row has "
            f"{width}; all rows need the same number."
        )
    return _to_numpy(column.flatten()).reshape(len(column), width)
