"""Read Parquet and Arrow files into a :class:`~plackett.data.inputs.Table`.

Features are one column each, or one column of lists. A few thousand rows are read at a time into
one float32 matrix, so the data is never in memory twice.

Tables in memory (pandas, polars, Arrow) and CSV files, which are read into one, are read the same
way. Their columns have the same roles as those of Parquet files (:mod:`plackett.data.columnar.roles`).
"""

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from plackett.base.errors import DataError, Message, Parameter, UsageError
from plackett.base.ragged import Features, Ids, Rows, factorize
from plackett.data import inputs
from plackett.data.columnar.roles import Roles, check_types, find_roles, is_category, refuse_other_roles, say_columns
from plackett.data.files import ByteProgress, DataFiles, ReadLimits, ReadOptions, check_memory, open_binary


@contextmanager
def name_file_in_errors(path: Path | None, kind: str = "Parquet or Arrow file") -> Iterator[None]:
    """Add the path to errors, and turn Arrow's errors into DataError.

    Parameters
    ----------
    path
        The file; None for a table in memory.
    kind
        What a file with such an error is not: "not a readable ``kind``".
    """
    name = None if path is None else str(path)
    try:
        yield
    except DataError as error:
        if error.path is not None or name is None:
            raise
        raise DataError(error.message, path=name, line=error.line) from error
    except (FileNotFoundError, MemoryError):
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if os.strerror(errno.ENOMEM) in str(error):  # Arrow does not set the error number
            raise MemoryError(f"{name}: {error}") from error
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "unreadable"
        if reason.startswith("Unknown error: Wrapping"):  # of text in an object of Python
            reason = "text that is not UTF-8"
        raise DataError(f"not a readable {kind}: {reason}", path=name) from error


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
        """Yield these columns, in this order, a few thousand rows at a time."""
        with name_file_in_errors(self.path):
            rows = batch_rows(len(columns))
            for batch in _batches(self.path, list(columns), rows):
                for start in range(0, batch.num_rows, rows):
                    yield batch.slice(start, rows)


@dataclass(frozen=True)
class ColumnarFiles:
    """Files whose columns are known and agree, before their rows are read."""

    name: str
    shards: tuple[Shard, ...]
    roles: Roles
    n_features: int

    @property
    def n_docs(self) -> int:
        """Rows of all files."""
        return sum(shard.n_rows for shard in self.shards)


def open_files(paths: Sequence[Path], options: ReadOptions, name: str) -> ColumnarFiles:
    """Find and check the columns of files; error messages call the set ``name``."""
    shards = tuple(open_shard(path) for path in paths)
    first = shards[0]
    with name_file_in_errors(first.path):
        roles = find_roles(first.schema, **options.columns)
    for shard in shards:
        with name_file_in_errors(shard.path):
            check_types(shard.schema, roles)
            refuse_other_roles(shard.schema, first.schema, roles.columns)
    with name_file_in_errors(Path(name)):
        n_features = _count_features(shards, roles)
        if options.n_features not in (None, n_features):
            parameter = Parameter("n_features", options.n_features)
            raise DataError(Message(f"there are {n_features} features, and ", parameter, " was given."))
    return ColumnarFiles(name, shards, roles, n_features)


def read_columns(files: ColumnarFiles, options: ReadOptions, progress: ByteProgress | None = None) -> inputs.Table:
    """Read all rows as one table, in the order of the files."""
    if options.features is None:
        say_columns(files.roles, files.shards[0].schema)
    check_memory(files.n_docs, files.n_features, files.name)
    buffer = RowBuffer(files.roles, files.n_docs, files.n_features)
    for shard, batch, row in iter_batches(files, progress):
        with name_file_in_errors(shard.path):
            buffer.add(batch, row, options.missing)
    with name_file_in_errors(Path(files.name)):
        table = buffer.table(source=files.name)
        _check_lists(table, strict=options.strict)
    return table


def iter_batches(
    files: ColumnarFiles, progress: ByteProgress | None = None
) -> Iterator[tuple[Shard, pa.RecordBatch, int]]:
    """Yield each batch of rows with its file and the number of its first row in that file."""
    total = sum(shard.n_bytes for shard in files.shards)
    done = 0
    for shard in files.shards:
        row = 0
        with name_file_in_errors(shard.path):
            for batch in shard.batches(files.roles.columns):
                if row + batch.num_rows > shard.n_rows:
                    raise DataError(f"has more rows than the {shard.n_rows} its metadata states; it is damaged.")
                yield shard, batch, row
                row += batch.num_rows
                if progress is not None:
                    progress(done + shard.n_bytes * row // shard.n_rows, total)
            if row != shard.n_rows:
                raise DataError(f"has {row} rows where its metadata states {shard.n_rows}; it is damaged.")
        done += shard.n_bytes


class RowBuffer:
    """Arrays for a known number of rows, filled batch by batch."""

    def __init__(self, roles: Roles, n_docs: int, n_features: int, categories: inputs.Categories | None = None) -> None:
        self.roles = roles
        self.known_categories = categories
        """Those of all rows, where these are some of them."""
        self.features: Features = np.empty((n_docs, n_features), np.float32)
        self.labels = np.zeros(n_docs, np.float32)
        self.weights = None if roles.weight is None else np.empty(n_docs)
        self.document_weights = None if roles.document_weight is None else np.empty(n_docs)
        self.positions = None if roles.position is None else np.empty(n_docs, np.int64)
        self.queries: list[Ids] = []
        self.documents: list[Ids] = []
        self.groups: list[Ids] = []
        self.categories = {
            name: {value: number for number, value in enumerate(values)} for name, values in (categories or {}).items()
        }
        """For each feature of categories, the number of each value in order of appearance."""
        self.n_filled = 0
        self.transposed: Features = np.empty((n_features, batch_rows(len(roles.columns))), np.float32)

    def add(self, batch: pa.RecordBatch, row: int, missing: inputs.Missing) -> None:
        """Copy and check the values of a batch; ``row`` is its first row in its file."""
        rows, roles = slice(self.n_filled, self.n_filled + batch.num_rows), self.roles
        with np.errstate(over="ignore"):  # overflow gives inf, which the checks refuse
            if roles.label is not None:
                self.labels[rows] = _numbers(batch, roles.label, row)
            if self.weights is not None and roles.weight is not None:
                self.weights[rows] = _numbers(batch, roles.weight, row)
            if self.document_weights is not None and roles.document_weight is not None:
                self.document_weights[rows] = _numbers(batch, roles.document_weight, row)
            self._add_features(batch, rows, row)
        if self.positions is not None and roles.position is not None:
            self.positions[rows] = inputs.as_positions(
                _numbers(batch, roles.position, row), batch.num_rows, first_row=row
            )
        self.queries.append(_ids(batch, roles.query, row))
        if roles.document is not None:
            self.documents.append(_ids(batch, roles.document, row))
        if roles.group is not None:
            self.groups.append(_ids(batch, roles.group, row))
        self.n_filled = rows.stop
        names = None if roles.listed else roles.features
        inputs.check_features(self.features[rows], missing, names, first_row=row)
        self.labels[rows] = inputs.as_labels(self.labels[rows], batch.num_rows, first_row=row)
        if self.document_weights is not None:
            inputs.as_document_weights(self.document_weights[rows], batch.num_rows, first_row=row)

    def _add_features(self, batch: pa.RecordBatch, rows: slice, row: int) -> None:
        if self.roles.listed:
            name = self.roles.features[0]
            self.features[rows] = _from_lists(batch, name, self.features.shape[1], row)
            return
        block = self.transposed[:, : batch.num_rows]
        for column, name in enumerate(self.roles.features):
            values = batch.column(name)
            if is_category(values.type) or name in self.roles.categorical:
                block[column] = self._number_categories(name, as_categories(values))
            else:
                block[column] = _to_numpy(values)
        self.features[rows] = block.T

    def _number_categories(self, name: str, column: pa.DictionaryArray) -> NDArray[Any]:
        """The number of each value; NaN where it is missing."""
        numbers = self.categories.setdefault(name, {})
        values = [value or "" for value in column.dictionary.to_pylist()]
        codes = np.array([numbers.setdefault(value, len(numbers)) for value in values] + [np.nan])
        indices = np.asarray(column.indices.fill_null(len(values)).to_numpy(zero_copy_only=False))
        return codes[indices]

    def _sort_categories(self) -> dict[str, tuple[str, ...]] | None:
        """Number the categories in alphabetical order, whatever the order of the rows."""
        if self.known_categories is not None:
            return dict(self.known_categories)
        result = {}
        for name, numbers in self.categories.items():
            column = self.features[:, self.roles.features.index(name)]
            used = np.unique(column[~np.isnan(column)]).astype(int).tolist()
            values = list(numbers)
            names = sorted(values[number] for number in used)
            new = np.full(len(values) + 1, np.nan, np.float32)
            new[[numbers[value] for value in names]] = np.arange(len(names))
            codes = np.nan_to_num(column, nan=len(values)).astype(np.int64)
            column[:] = new[codes]
            result[name] = tuple(names)
        return result or None

    def table(self, *, source: str | None = None) -> inputs.Table:
        """All rows as a table; error messages call it ``source``."""
        roles = self.roles
        categories = self._sort_categories()
        unnamed = not roles.named and roles.features == default_names(len(roles.features))
        return inputs.Table(
            features=self.features,
            labels=self.labels,
            query_ids=_join(self.queries, roles.query),
            document_ids=(None if roles.document is None else _join(self.documents, roles.document)),
            weights=self.weights,
            document_weights=self.document_weights,
            positions=self.positions,
            groups=None if roles.group is None else _join(self.groups, roles.group),
            feature_names=None if roles.listed or unnamed else roles.features,
            categories=categories,
            source=source,
        )


def find_categories(files: ColumnarFiles) -> inputs.Categories | None:
    """The values of all features that hold categories, in alphabetical order; reads these columns."""
    roles, schema = files.roles, files.shards[0].schema
    names = [name for name in roles.features if name in roles.categorical or is_category(schema.field(name).type)]
    values: dict[str, set[str]] = {name: set() for name in names}
    for shard in files.shards if names else ():
        for batch in shard.batches(names):
            for name in names:
                used = as_categories(batch.column(name)).dictionary_decode().unique().drop_null()
                values[name].update(used.to_pylist())
    return {name: tuple(sorted(some)) for name, some in values.items()} or None


def default_names(n_features: int) -> tuple[str, ...]:
    """Column names of features without names; read back, they mean "no names" again."""
    return tuple(f"f{number}" for number in range(1, n_features + 1))


def _check_lists(table: inputs.Table, *, strict: bool) -> None:
    """Make the checks of grouping here, where the file can be named."""
    if table.n_docs == 0:
        raise DataError("there are no documents.")
    if not strict and table.weights is None and table.groups is None:
        return
    names, codes, contiguous = factorize(table.query_ids)
    if strict and not contiguous:
        refuse_scattered(names, codes)
    if table.weights is not None:
        inputs.as_weights(table.weights, names, codes)
    if table.groups is not None:
        inputs.as_groups(table.groups, names, codes)


def refuse_scattered(names: Ids, codes: Rows) -> None:
    """Name the first row whose query has other queries between its rows."""
    # Codes are numbered by first appearance, so the first one that falls belongs to that row.
    row = int(np.argmax(np.diff(codes) < 0)) + 1
    raise DataError(
        f"row {row} (counted from 0): query id {names[codes[row]].item()!r} occurs again after "
        "rows of other queries; sort the rows by query, or read them without strict."
    )


def batch_rows(n_columns: int) -> int:
    """Largest number of rows in a batch of this many columns."""
    return max(1, min(_BATCH_ROWS, _BATCH_VALUES // n_columns))


def open_shard(path: Path) -> Shard:
    """Find the columns and the number of rows of a file without reading its values."""
    with name_file_in_errors(path):
        if path.suffix.lower() == PARQUET:
            with pq.ParquetFile(path) as file:
                schema, n_rows = file.schema_arrow, file.metadata.num_rows
        else:
            with pa.memory_map(str(path)) as source:
                reader = _ipc_reader(source)
                schema = reader.schema
                n_rows = sum(batch.num_rows for batch in _ipc_batches(reader))
        if n_rows < 0:
            raise DataError(f"its metadata states {n_rows} rows; it is damaged.")
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
                selected = batch.select(columns)
                # Arrow trusts the offsets of strings and lists in a file: wrong ones crash.
                selected.validate(full=True)
                yield selected


def _ipc_reader(source: pa.NativeFile) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
    is_file = source.read(len(_IPC_MAGIC)) == _IPC_MAGIC
    source.seek(0)
    return pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)


def _ipc_batches(reader: pa.RecordBatchFileReader | pa.RecordBatchStreamReader) -> Iterator[pa.RecordBatch]:
    if isinstance(reader, pa.RecordBatchFileReader):
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)
    else:
        yield from reader


def _count_features(shards: Sequence[Shard], roles: Roles) -> int:
    if not roles.listed:
        return len(roles.features)
    for shard in shards:
        for batch in shard.batches(roles.features):
            with name_file_in_errors(shard.path):
                width = int(pc.list_value_length(batch.column(0))[0].as_py() or 0)
                if width == 0:
                    raise DataError(f"has no features: the first list of column {roles.features[0]!r} is empty.")
                return width
    raise DataError("there are no documents.")


def _to_numpy(column: pa.Array) -> NDArray[Any]:
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _not_null(batch: pa.RecordBatch, name: str, row: int) -> pa.Array:
    column = batch.column(name)
    if column.null_count:
        bad = row + int(np.argmax(_to_numpy(column.is_null())))
        raise DataError(f"row {bad} (counted from 0): column {name!r} is null.")
    return column


def _numbers(batch: pa.RecordBatch, name: str, row: int) -> NDArray[Any]:
    return _to_numpy(_not_null(batch, name, row))


def _ids(batch: pa.RecordBatch, name: str, row: int) -> Ids:
    return inputs.as_ids(_not_null(batch, name, row), batch.num_rows, what=f"column {name!r}")


def _join(pieces: list[Ids], name: str) -> Ids:
    if len({piece.dtype.kind for piece in pieces}) > 1:
        raise DataError(f"column {name!r} holds integers in some files and strings in others.")
    return np.concatenate(pieces) if pieces else np.empty(0, np.int64)


def _from_lists(batch: pa.RecordBatch, name: str, width: int, row: int) -> NDArray[Any]:
    column = _not_null(batch, name, row)
    lengths = _to_numpy(pc.list_value_length(column))
    differ = lengths != width
    if differ.any():
        bad = int(np.argmax(differ))
        raise DataError(
            f"row {row + bad} (counted from 0): {lengths[bad]} features where the first row has "
            f"{width}; all rows need the same number."
        )
    return _to_numpy(column.flatten()).reshape(len(column), width)


def read_csv(path: Path, options: ReadOptions) -> inputs.Table:
    """Read a .csv or .tsv file with a header, also one that ends in .gz."""
    with name_file_in_errors(path, "CSV file"), open_binary(path, options.limits) as text:
        source = path if path.suffix.lower() != ".gz" else text
        frame = pyarrow.csv.read_csv(source, parse_options=_csv_options(path), convert_options=_CSV_VALUES)
        _check_header(frame.column_names)
        return read_frame(frame, options, source=str(path))


_CSV_VALUES = pyarrow.csv.ConvertOptions(strings_can_be_null=True)


def _csv_options(path: Path) -> pyarrow.csv.ParseOptions:
    is_tsv = ".tsv" in [suffix.lower() for suffix in path.suffixes]
    return pyarrow.csv.ParseOptions(delimiter="\t" if is_tsv else ",")


def _check_header(names: Sequence[str]) -> None:
    if len(names) == 1:
        raise DataError(f"has one column, {names[0]!r}; columns are separated by commas in .csv, by tabs in .tsv.")
    if all(name.strip().lstrip("-").replace(".", "", 1).isdecimal() for name in names):
        raise DataError(f"the first line must hold the names of the columns, got {', '.join(names[:5])} ...")


def column_names(files: DataFiles) -> list[str]:
    """The names of all columns of CSV, Parquet or Arrow files."""
    path = files.first
    if files.format == "csv":
        with name_file_in_errors(path, "CSV file"), open_binary(path, ReadLimits()) as text:
            return list(pyarrow.csv.open_csv(text, parse_options=_csv_options(path)).schema.names)
    return list(open_shard(path).schema.names)


def read_frame(frame: Any, options: ReadOptions, *, source: str | None = None) -> inputs.Table:
    """The rows of a table, checked, in their order.

    Parameters
    ----------
    frame
        A pandas or polars data frame, an Arrow table, or a mapping from names to columns.
    options
        Which columns hold what, as for :func:`plackett.read`.
    source
        Name of the file, for error messages.
    """
    with name_file_in_errors(None, "table"):
        return _read_table(as_arrow(frame), options, source)


def _read_table(table: pa.Table, options: ReadOptions, source: str | None) -> inputs.Table:
    roles = find_roles(table.schema, **options.columns)
    check_types(table.schema, roles)
    if options.features is None:
        say_columns(roles, table.schema)
    width = len(roles.features)
    if roles.listed:
        lengths = pc.list_value_length(table.column(roles.features[0]))
        width = int(lengths[0].as_py() or 0) if len(table) else 0
    if options.n_features not in (None, width):
        raise DataError(f"there are {width} features, and n_features={options.n_features} given.")
    buffer = RowBuffer(roles, len(table), width)
    row = 0
    for batch in table.select(roles.columns).to_batches(batch_rows(len(roles.columns))):
        buffer.add(batch, row, options.missing)
        row += batch.num_rows
    return buffer.table(source=source)


def as_categories(column: Any) -> pa.DictionaryArray:
    """A column of text or numbers, of any library, as texts with a dictionary; NaN is null."""
    if not isinstance(column, (pa.Array, pa.ChunkedArray)):
        column = column.to_arrow() if hasattr(column, "to_arrow") else pa.Array.from_pandas(column)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if is_category(column.type):
        return column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    return column.cast(pa.string()).dictionary_encode()


def as_arrow(frame: Any) -> pa.Table:
    """A table of any library as an Arrow table."""
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    library = type(frame).__module__.split(".")[0]
    if library == "pandas":
        frame = frame.rename(columns=str)
        return pa.Table.from_pandas(frame, preserve_index=False)
    if library == "polars":
        return (frame.collect() if hasattr(frame, "collect") else frame).to_arrow()
    if isinstance(frame, Mapping):
        return pa.table({str(name): column for name, column in frame.items()})
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.table(frame)
    raise UsageError(
        f"Dataset takes a table with named columns (pandas, polars, Arrow), got "
        f"{type(frame).__name__}; for arrays use Dataset.from_arrays(features, labels, query_ids), for files "
        "plackett.read(path)."
    )
