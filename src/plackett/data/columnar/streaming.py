"""Parquet and Arrow files as a data set whose features are in a scratch file on disk.

The files are read twice. The first pass keeps what is small (labels, ids, hashes of documents),
from which the canonical order follows; the second puts each row of features where it belongs. Rows
of a list may be anywhere: in neighbouring files or far apart.

The rows of Parquet and Arrow files, a few thousand at a time.

Whole lists out of rows that come block by block.

A list that goes on in the next block, or in the next file, is put together before it is handed out.
Rows of a list must stand next to each other: a list that comes back later has already been handed
out, and is refused.

All of a streamed data set but its features, with scores that were found on the way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.ragged import Features, Ids, Rows, Scores, offsets_from_sizes
from plackett.data.canonical import Arrangement, arrange_hashes, hash_documents
from plackett.data.columnar.reader import Columns, RowReader, Shard, naming
from plackett.data.dataset import Dataset, Table, report_scattered
from plackett.data.inputs import Missing, as_groups, as_weights, first_appearance
from plackett.data.large_arrays import BLOCK_BYTES, release_pages, rows_per_block, scratch_array
from plackett.data.writer import Halves

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


_PER_ROW = ("labels", "document_ids", "weights", "document_weights", "groups")


def spool(
    columns: Columns,
    *,
    missing: Missing,
    strict: bool,
    folder: Path,
    progress: Progress | None = None,
) -> Dataset:
    """The data set that reading the files gives, with its features in a scratch file.

    Parameters
    ----------
    columns
        The files.
    missing, strict
        As for :func:`plackett.read`.
    folder
        Where the scratch file goes; it needs room for the features as float32.
    progress
        Called with the bytes done and the bytes in all: each file counts twice.
    """
    halves = Halves(progress)
    small = _Small()
    with unchanged(columns):  # other values in the second pass would be those of other documents
        for table in tables(columns, missing, halves.first):
            small.add(table)
        with naming(Path(columns.name)):
            lists = small.lists(columns.name, strict=strict)
        plan = arrange_hashes(small.joined("hashes"), lists.codes, len(lists.names))
        features = _in_order(columns, plan.rows, missing, folder, halves.second)
    return _dataset(small, lists, plan, features)


@dataclass(frozen=True)
class _Lists:
    """The lists in order of first appearance."""

    names: Ids
    codes: Rows
    """The list of each row."""
    weights: NDArray[np.float64] | None
    groups: Rows | None


@dataclass
class _Small:
    """All of the rows but their features."""

    pieces: dict[str, list[NDArray[Any]]] = field(default_factory=dict)
    feature_names: tuple[str, ...] | None = None

    def add(self, table: Table) -> None:
        self.feature_names = table.feature_names
        for name in _PER_ROW:
            self._keep(name, getattr(table, name))
        self._keep("hashes", hash_documents(table.features, table.document_ids))
        # Ids are kept once per run of equal ones: as text they would be the largest of all.
        ids = table.query_ids
        starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
        self._keep("heads", ids[starts])
        self._keep("lengths", np.diff(np.append(starts, len(ids))))

    def _keep(self, name: str, piece: NDArray[Any] | None) -> None:
        if piece is not None:
            self.pieces.setdefault(name, []).append(piece)

    def joined(self, name: str) -> NDArray[Any]:
        return np.concatenate(self.pieces.pop(name))

    def optional(self, name: str) -> NDArray[Any] | None:
        return self.joined(name) if name in self.pieces else None

    def lists(self, source: str, *, strict: bool) -> _Lists:
        if not self.pieces:
            raise DataError("there are no documents.")
        names, runs, contiguous = first_appearance(self.joined("heads"))
        codes = np.repeat(runs, self.joined("lengths"))
        if not contiguous:
            _report(source, names, codes, strict=strict)
        weights, groups = self.optional("weights"), self.optional("groups")
        return _Lists(
            names,
            codes,
            None if weights is None else as_weights(weights, names, codes),
            None if groups is None else as_groups(groups, names, codes),
        )


def _report(source: str, names: Ids, codes: Rows, *, strict: bool) -> None:
    if strict:
        row = int(np.argmax(np.diff(codes) < 0)) + 1
        raise DataError(
            f"row {row} (counted from 0): query id {names[codes[row]].item()!r} comes back after "
            "rows of other queries; sort the rows by query, or read them without strict."
        )
    report_scattered(source, strict=False)


def _in_order(
    columns: Columns, rows: Rows, missing: Missing, folder: Path, progress: Progress
) -> Features:
    """The features in canonical order: row ``rows[i]`` of the files is document i."""
    places = np.empty(len(rows), np.int64)
    places[rows] = np.arange(len(rows))
    out = scratch_array(folder, (len(rows), columns.width), np.float32)
    at = written = 0
    for table in tables(columns, missing, progress):
        block = np.ascontiguousarray(table.features)
        _scatter(block, places[at : at + len(block)], out)
        at, written = at + len(block), written + block.nbytes
        if written > BLOCK_BYTES:
            release_pages(out)
            written = 0
    release_pages(out)
    return out


def _dataset(small: _Small, lists: _Lists, plan: Arrangement, features: Features) -> Dataset:
    ids, each = small.optional("document_ids"), small.optional("document_weights")
    return Dataset(
        features=features,
        labels=small.joined("labels")[plan.rows],
        offsets=plan.offsets,
        query_ids=lists.names[plan.lists],
        keys=plan.keys,
        rows=plan.rows,
        document_ids=None if ids is None else ids[plan.rows],
        weights=None if lists.weights is None else lists.weights[plan.lists],
        document_weights=None if each is None else each[plan.rows],
        feature_names=small.feature_names,
        groups=None if lists.groups is None else lists.groups[plan.lists],
    )


@njit(cache=True, nogil=True, parallel=True)
def _scatter(block, places, out):  # type: ignore[no-untyped-def]
    for i in prange(len(block)):
        out[places[i], :] = block[i, :]


_TABLE_FIELDS = (
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
            yield _as_dataset(table, first, seen)
            first += table.n_docs
    if first == 0:
        raise DataError("there are no documents.", path=columns.name)


def _cut_at_lists(parts: Iterator[Table], row_bytes: int) -> Iterator[Table]:
    """The same rows in blocks of whole lists."""
    least = wanted = rows_per_block(row_bytes)
    waiting: list[Table] = []
    for table in parts:
        waiting.append(table)
        if sum(part.n_docs for part in waiting) < wanted:
            continue
        joined = _join_tables(waiting)
        end = _last_start(joined.query_ids)
        if end > 0:
            yield _cut(joined, 0, end)
        waiting = [_cut(joined, end, joined.n_docs)]
        # A list longer than blocks is not put together anew for each of them.
        wanted = max(least, 2 * waiting[0].n_docs)
    if waiting:
        yield _join_tables(waiting)


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


def _as_dataset(table: Table, first: int, seen: _Seen) -> Dataset:
    runs = table.query_ids[1:] != table.query_ids[:-1]
    seen.add(table.query_ids[np.flatnonzero(np.concatenate([[True], runs]))], table.source)
    dataset = Dataset.from_table(table)
    return replace(dataset, rows=dataset.rows + first)


def _last_start(ids: Ids) -> int:
    """Where the last list begins, which may not be whole yet."""
    changes = np.flatnonzero(ids[1:] != ids[:-1])
    return int(changes[-1]) + 1 if len(changes) else 0


def _join_tables(parts: list[Table]) -> Table:
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in _TABLE_FIELDS
        if getattr(parts[0], name) is not None
    }
    return replace(parts[0], **columns)


def _cut(table: Table, start: int, stop: int) -> Table:
    columns: dict[str, Any] = {
        name: getattr(table, name)[start:stop]
        for name in _TABLE_FIELDS
        if getattr(table, name) is not None
    }
    return replace(table, **columns)


def without_features(
    parts: Iterable[Dataset], score: Callable[[Dataset], Scores] | None = None
) -> tuple[Dataset, Scores | None]:
    """The lists of all parts as one data set of no features, in canonical order, and their scores.

    Parameters
    ----------
    parts
        Whole lists, as :func:`plackett.data.columnar.streaming.whole_lists` gives them.
    score
        What to make of the documents of each part, while their features are there.
    """
    kept: list[Dataset] = []
    scores: list[Scores] = []
    for part in parts:
        if score is not None:
            scores.append(score(part))
        nothing = np.empty((part.n_docs, 0), np.float32)
        kept.append(replace(part, features=nothing, feature_names=None))
    if not kept:
        raise DataError("there are no documents.")
    joined, order = _join_lists(kept)
    return joined, np.concatenate(scores)[order] if score is not None else None


def _join_lists(parts: Sequence[Dataset]) -> tuple[Dataset, NDArray[np.int64]]:
    """All lists in the order of their keys, and where their documents were."""
    keys = np.concatenate([part.keys for part in parts])
    lists = np.argsort(keys, kind="stable")
    sizes = np.concatenate([np.diff(part.offsets) for part in parts])
    starts, offsets = offsets_from_sizes(sizes)[:-1], offsets_from_sizes(sizes[lists])
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes[lists])
    documents = np.repeat(starts[lists], sizes[lists]) + within

    def taken(name: str, order: NDArray[np.int64]) -> Any:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else np.concatenate(values)[order]

    joined = Dataset(
        features=np.empty((len(documents), 0), np.float32),
        labels=taken("labels", documents),
        offsets=offsets,
        query_ids=taken("query_ids", lists),
        keys=keys[lists],
        rows=taken("rows", documents),
        document_ids=taken("document_ids", documents),
        weights=taken("weights", lists),
        document_weights=taken("document_weights", documents),
    )
    return joined, documents
