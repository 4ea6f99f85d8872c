"""Parquet and Arrow files larger than memory.

:func:`spool` copies the features into a scratch file and keeps the small arrays in memory; the rows of a list may be
anywhere. :func:`iter_list_blocks` yields whole lists and reads the files once; the rows of a list must be together.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.files import atomic_file
from plackett.base.ragged import run_starts
from plackett.data.canonical import dense_rows, take
from plackett.data.columnar import reader
from plackett.data.columnar.roles import DOCUMENT, DOCUMENT_WEIGHT, GROUP, LABEL, POSITION, QUERY, WEIGHT, FeatureNote
from plackett.data.dataset import Dataset
from plackett.data.files import ByteProgress, ReadOptions, detect_format
from plackett.data.inputs import Categories, Missing, Table
from plackett.data.large_arrays import release_pages, rows_per_block, scratch_array
from plackett.data.mapped import row_blocks

_PER_ROW = ("features", "query_ids", "labels", "document_ids", "weights", "document_weights", "positions", "groups")
_FileStamp: TypeAlias = tuple[int, int, int]


def iter_tables(files: reader.ColumnarFiles, missing: Missing, progress: ByteProgress | None = None) -> Iterator[Table]:
    """Read all rows in the order of the files, a few thousand at a time."""
    id_kinds: dict[str, str] = {}
    categories = reader.find_categories(files.roles, files.shards)
    for shard, batch, row in reader.iter_batches(files, progress):
        with reader.name_file_in_errors(shard.path):
            features = np.empty((batch.num_rows, files.n_features), np.float32)
            buffer = reader.RowBuffer(files.roles, features, categories, id_kinds)
            buffer.add(batch, row, missing)
            table = buffer.table(source=files.name)
        assert table.run_lengths is not None
        yield replace(table, query_ids=np.repeat(table.query_ids, table.run_lengths), run_lengths=None)


@contextmanager
def refuse_changes(files: reader.ColumnarFiles) -> Iterator[None]:
    """Raise if a file is written to or removed while it is read."""
    before = [_stamp(shard.path) for shard in files.shards]
    error: Exception | None = None
    try:
        yield
    except Exception as raised:  # a file that is being written can cause any error
        error = raised
    for shard, stamp in zip(files.shards, before, strict=True):
        now = _stamp(shard.path)
        if now is None or now != stamp:
            event = "was removed" if now is None else "was changed"
            raise DataError(
                f"{event} while it was read; try again when no other program writes to it.", path=str(shard.path)
            ) from error
    if error is not None:
        raise error


def _stamp(path: Path) -> _FileStamp | None:
    """Numbers that change when a file is written to or replaced; None if there is no file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def spool(
    files: reader.ColumnarFiles, options: ReadOptions, folder: Path, progress: ByteProgress | None = None
) -> Dataset:
    """Read files to a data set with its features in a scratch file.

    The scratch file is in ``folder`` and has the size of the features as float32. Only the options ``missing`` and
    ``strict`` are used.
    """
    features = scratch_array(folder, (files.n_docs, files.n_features), np.float32)
    with refuse_changes(files):
        return reader.read_into(features, files, options, progress)


def iter_list_blocks(
    files: reader.ColumnarFiles, missing: Missing, progress: ByteProgress | None = None
) -> Iterator[Dataset]:
    """Yield data sets of a few thousand documents in whole lists, in the order of the files.

    ``rows`` count through all files from 0. Raises DataError for files without a document.
    """
    first, seen = 0, set[Any]()
    with refuse_changes(files):
        for table in _cut_at_lists(iter_tables(files, missing, progress), 4 * files.n_features):
            for query in table.query_ids[run_starts(table.query_ids)].tolist():
                if query in seen:
                    raise DataError(
                        f"query id {query!r} occurs again after rows of other queries; streamed rows must "
                        "be grouped by query: sort them by query, or convert the files to the "
                        "memory-mapped format (plackett convert), which groups them.",
                        path=table.source,
                    )
                seen.add(query)
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
        last_list = int(run_starts(joined.query_ids)[-1])  # it may continue in the next table
        if last_list > 0:
            yield _slice_table(joined, 0, last_list)
        waiting = [_slice_table(joined, last_list, joined.n_docs)]
        # This avoids joining a list that is longer than a block again for each block.
        wanted = max(least, 2 * waiting[0].n_docs)
    if waiting:
        yield _join_tables(waiting)


def _join_tables(parts: list[Table]) -> Table:
    if len(parts) == 1:
        return parts[0]
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in _PER_ROW
        if getattr(parts[0], name) is not None
    }
    return replace(parts[0], **arrays)


def _slice_table(table: Table, start: int, stop: int) -> Table:
    rows = slice(start, stop)
    arrays: dict[str, Any] = {name: take(getattr(table, name), rows) for name in _PER_ROW}
    return replace(table, **arrays)


_GROUP_BYTES = 32 << 20  # of features in one row group


def write_columns(path: Path, dataset: Dataset, progress: ByteProgress | None = None) -> None:
    """Write ``label``, ``query_id``, ids and weights if any, and one column per feature.

    The schema records which columns are features, so that they are read as such. ``progress`` is called with the rows
    done and their number.
    """
    optional = {
        DOCUMENT: dataset.document_ids,
        WEIGHT: take(dataset.weights, dataset.list_of_row),
        DOCUMENT_WEIGHT: dataset.document_weights,
        POSITION: dataset.positions,
        GROUP: take(dataset.groups, dataset.list_of_row),
    }
    columns = {LABEL: dataset.labels, QUERY: dataset.query_ids}
    columns |= {name: values for name, values in optional.items() if values is not None}
    schema = _make_schema(dataset, columns)
    with atomic_file(path) as temporary, open_writer(path, temporary, schema) as writer:
        for rows in row_blocks(dataset.n_docs, dataset.n_features, _GROUP_BYTES):
            block = [values[rows] for values in columns.values()]
            block.extend(np.ascontiguousarray(dense_rows(dataset.features, rows).T))
            arrays = [_make_array(c, field, dataset.categories) for c, field in zip(block, schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            release_pages(dataset.features)
            if progress is not None:
                progress(rows.stop, dataset.n_docs)


@contextmanager
def open_writer(path: Path, temporary: Path, schema: pa.Schema) -> Iterator[Any]:
    """Open a writer of the format of ``path`` that writes to ``temporary``."""
    compression = "gzip" if path.suffix.lower() == ".gz" else None
    with ExitStack() as stack:
        if path.suffix.lower() == reader.PARQUET:
            writer = pq.ParquetWriter(temporary, schema, compression="zstd")
        elif detect_format(path) == "csv":
            file = stack.enter_context(pa.output_stream(str(temporary), compression=compression))
            options = pyarrow.csv.WriteOptions(delimiter=reader.csv_delimiter(path))
            writer = pyarrow.csv.CSVWriter(file, schema, write_options=options)
        else:
            writer = pa.ipc.new_file(temporary, schema)
        yield stack.enter_context(writer)


def _make_schema(dataset: Dataset, columns: Mapping[str, NDArray[Any]]) -> pa.Schema:
    names = dataset.feature_names or reader.default_names(dataset.n_features)
    clash = set(columns).intersection(names)
    if clash:
        raise DataError(
            f"the feature name {min(clash)!r} is also the name of the column of {min(clash)}s; rename the feature."
        )
    fields = [
        (name, pa.string() if values.dtype.kind in "OU" else pa.from_numpy_dtype(values.dtype))
        for name, values in columns.items()
    ]
    note = FeatureNote(names, named=dataset.feature_names is not None)
    category = pa.dictionary(pa.int32(), pa.string())
    kinds = [category if name in (dataset.categories or ()) else pa.float32() for name in names]
    return pa.schema(fields + list(zip(names, kinds, strict=True)), note.metadata())


def _make_array(column: NDArray[Any], field: pa.Field, categories: Categories | None) -> pa.Array:
    if categories is None or field.name not in categories:
        return pa.array(column, field.type)
    missing = np.isnan(column)
    codes = pa.array(np.where(missing, 0, column).astype(np.int32), mask=missing)
    return pa.DictionaryArray.from_arrays(codes, pa.array(categories[field.name], pa.string()))
