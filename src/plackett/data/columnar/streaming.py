"""Parquet and Arrow files larger than memory.

:func:`spool` makes a data set whose features are in a scratch file: it copies the features there,
block by block, and keeps the small arrays (labels, ids, hashes of documents) in memory. The rows of
a list may be anywhere.

:func:`iter_list_blocks` yields whole lists block by block and reads the files once. The rows of a
list must be next to each other: a list that occurs again later has already been yielded, and is an
error.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.ragged import Features, factorize, run_starts
from plackett.data.canonical import CanonicalOrder, hash_documents, take
from plackett.data.columnar.reader import (
    ColumnarFiles,
    RowBuffer,
    find_categories,
    iter_batches,
    name_file_in_errors,
    refuse_scattered,
)
from plackett.data.dataset import Dataset
from plackett.data.files import ByteProgress, ReadOptions
from plackett.data.inputs import Categories, Missing, Table, as_groups, as_weights, warn_scattered
from plackett.data.large_arrays import BLOCK_BYTES, release_pages, rows_per_block, scratch_array

_SMALL_ARRAYS = ("labels", "document_ids", "weights", "document_weights", "positions", "groups")
_TABLE_ARRAYS = ("features", "query_ids", *_SMALL_ARRAYS)
_FileStamp: TypeAlias = tuple[int, int, int]


def iter_tables(files: ColumnarFiles, missing: Missing, progress: ByteProgress | None = None) -> Iterator[Table]:
    """Read all rows in the order of the files, a few thousand at a time."""
    kinds: tuple[str, ...] | None = None
    categories = find_categories(files)
    for shard, batch, row in iter_batches(files, progress):
        with name_file_in_errors(shard.path):
            buffer = RowBuffer(files.roles, batch.num_rows, files.n_features, categories)
            buffer.add(batch, row, missing)
            table = buffer.table(source=files.name)
            kinds = _check_id_types(table, kinds)
        yield table


def _check_id_types(table: Table, previous: tuple[str, ...] | None) -> tuple[str, ...]:
    """Refuse ids that are integers in some files and strings in others."""
    columns = {"query": table.query_ids, "document": table.document_ids}
    kinds = tuple("" if ids is None else ids.dtype.kind for ids in columns.values())
    for name, kind, before in zip(columns, kinds, previous or kinds, strict=True):
        if kind != before:
            raise DataError(f"the column of {name} ids holds integers in some files and strings in others.")
    return kinds


@contextmanager
def refuse_changes(files: ColumnarFiles) -> Iterator[None]:
    """Raise if a file is written to or removed while it is read."""
    before = [_stamp(shard.path) for shard in files.shards]
    try:
        yield
    except Exception as error:  # a file that is being written can cause any error
        _check_unchanged(files, before, error)
        raise
    _check_unchanged(files, before, None)


def _check_unchanged(files: ColumnarFiles, before: list[_FileStamp | None], cause: Exception | None) -> None:
    for shard, stamp in zip(files.shards, before, strict=True):
        now = _stamp(shard.path)
        if now is None or now != stamp:
            event = "was removed" if now is None else "was changed"
            raise DataError(
                f"{event} while it was read; try again when no other program writes to it.", path=str(shard.path)
            ) from cause


def _stamp(path: Path) -> _FileStamp | None:
    """Numbers that change when a file is written to or replaced; None if there is no file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def spool(files: ColumnarFiles, options: ReadOptions, folder: Path, progress: ByteProgress | None = None) -> Dataset:
    """The data set that reading the files gives, with its features in a scratch file.

    The file is in ``folder`` and takes the size of the features as float32. Of the options, ``missing`` and ``strict``
    are used.
    """
    small = _SmallArrays()
    features = scratch_array(folder, (files.n_docs, files.n_features), np.float32)
    start = written = 0
    with refuse_changes(files):
        for table in iter_tables(files, options.missing, progress):
            small.add(table)
            block = np.asarray(table.features)
            features[start : start + len(block)] = block
            start, written = start + len(block), written + block.nbytes
            if written > BLOCK_BYTES:
                release_pages(features)
                written = 0
    release_pages(features)
    with name_file_in_errors(Path(files.name)):
        return small.dataset(features, files.name, strict=options.strict)


@dataclass
class _SmallArrays:
    """All columns of the rows but their features, collected table by table."""

    pieces: dict[str, list[NDArray[Any]]] = field(default_factory=dict)
    feature_names: tuple[str, ...] | None = None
    categories: Categories | None = None

    def add(self, table: Table) -> None:
        self.feature_names, self.categories = table.feature_names, table.categories
        for name in _SMALL_ARRAYS:
            self._append(name, getattr(table, name))
        self._append("hashes", hash_documents(table.features, table.document_ids))
        # Query ids are kept once per run of equal ones: as text they would be the largest column.
        starts = run_starts(table.query_ids)
        self._append("heads", table.query_ids[starts])
        self._append("lengths", np.diff(np.append(starts, table.n_docs)))

    def _append(self, name: str, piece: NDArray[Any] | None) -> None:
        if piece is not None:
            self.pieces.setdefault(name, []).append(piece)

    def pop(self, name: str) -> NDArray[Any]:
        return np.concatenate(self.pieces.pop(name))

    def pop_optional(self, name: str) -> NDArray[Any] | None:
        return self.pop(name) if name in self.pieces else None

    def dataset(self, features: Features, source: str, *, strict: bool) -> Dataset:
        """The data set of these columns and features."""
        if not self.pieces:
            raise DataError("there are no documents.")
        names, runs, contiguous = factorize(self.pop("heads"))
        codes = np.repeat(runs, self.pop("lengths"))
        if not contiguous:
            if strict:
                refuse_scattered(names, codes)
            warn_scattered(source)
        weights, groups = self.pop_optional("weights"), self.pop_optional("groups")
        return Dataset._make(
            order=CanonicalOrder.of(self.pop("hashes"), codes, len(names)),
            features=features,
            labels=self.pop("labels"),
            list_of_row=codes,
            list_ids=names,
            document_ids=self.pop_optional("document_ids"),
            weights=None if weights is None else as_weights(weights, names, codes),
            document_weights=self.pop_optional("document_weights"),
            positions=self.pop_optional("positions"),
            feature_names=self.feature_names,
            groups=None if groups is None else as_groups(groups, names, codes),
            categories=self.categories,
        )


def iter_list_blocks(files: ColumnarFiles, missing: Missing, progress: ByteProgress | None = None) -> Iterator[Dataset]:
    """Yield data sets of a few thousand documents in whole lists, in the order of the files.

    ``rows`` count through all files from 0. Files without a document are refused.
    """
    first, seen = 0, set[Any]()
    with refuse_changes(files):
        for table in _cut_at_lists(iter_tables(files, missing, progress), 4 * files.n_features):
            _refuse_repeated(table, seen)
            block = Dataset.from_table(table)
            yield block._replace(rows=block.rows + first)
            first += table.n_docs
    if first == 0:
        raise DataError("there are no documents.", path=files.name)


def _cut_at_lists(tables: Iterator[Table], row_bytes: int) -> Iterator[Table]:
    """The same rows in blocks of whole lists."""
    least = wanted = rows_per_block(row_bytes)
    waiting: list[Table] = []
    for table in tables:
        waiting.append(table)
        if sum(part.n_docs for part in waiting) < wanted:
            continue
        joined = _join_tables(waiting)
        last_list = int(run_starts(joined.query_ids)[-1])  # it may go on in the next table
        if last_list > 0:
            yield _slice_table(joined, 0, last_list)
        waiting = [_slice_table(joined, last_list, joined.n_docs)]
        # Avoids joining a list that is longer than a block again for each block.
        wanted = max(least, 2 * waiting[0].n_docs)
    if waiting:
        yield _join_tables(waiting)


def _refuse_repeated(table: Table, seen: set[Any]) -> None:
    """Refuse a query of an earlier block; add the others to ``seen``."""
    for query in table.query_ids[run_starts(table.query_ids)].tolist():
        if query in seen:
            raise DataError(
                f"query id {query!r} occurs again after rows of other queries; streamed rows must "
                "be grouped by query: sort them by query, or convert the files to the "
                "memory-mapped format (plackett convert), which groups them.",
                path=table.source,
            )
        seen.add(query)


def _join_tables(parts: list[Table]) -> Table:
    if len(parts) == 1:
        return parts[0]
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in _TABLE_ARRAYS
        if getattr(parts[0], name) is not None
    }
    return replace(parts[0], **arrays)


def _slice_table(table: Table, start: int, stop: int) -> Table:
    rows = slice(start, stop)
    arrays: dict[str, Any] = {name: take(getattr(table, name), rows) for name in _TABLE_ARRAYS}
    return replace(table, **arrays)
