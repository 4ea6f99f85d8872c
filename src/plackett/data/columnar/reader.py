"""Read Parquet and Arrow files, CSV, and tables in memory into a :class:`~plackett.data.inputs.Table`.

Features are one column each, or one column of lists. A few thousand rows are read at a time into one float32 matrix, so
the data is never in memory twice.
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

from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import Features, Ids, Rows, run_starts
from plackett.data import inputs
from plackett.data.canonical import CanonicalOrder, hash_documents
from plackett.data.columnar.roles import Roles, check_types, find_roles, is_category, refuse_other_roles, say_columns
from plackett.data.dataset import Dataset
from plackett.data.files import ByteProgress, DataFiles, ReadLimits, ReadOptions, check_memory, open_binary
from plackett.data.large_arrays import is_large, release_pages, rows_per_block


@contextmanager
def name_file_in_errors(path: Path | None, kind: str = "Parquet or Arrow file") -> Iterator[None]:
    """Add the path, if there is one, to errors, and turn Arrow's errors into DataError: "not a readable ``kind``"."""
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
        if reason.startswith("Unknown error: Wrapping"):  # an error about text in a Python object
            reason = "text that is not UTF-8"
        raise DataError(f"not a readable {kind}: {reason}", path=name) from error


PARQUET = ".parquet"
_BATCH_ROWS = 16_384  # smaller batches take more time per column, measured with 136 columns
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
            if self.path.suffix.lower() == PARQUET:
                # Without pre_buffer a row group is decoded page by page, never held as a whole.
                with pq.ParquetFile(self.path, memory_map=True, pre_buffer=False) as file:
                    for batch in file.iter_batches(rows, columns=list(columns)):
                        yield batch.select(list(columns))
                return
            with pa.memory_map(str(self.path)) as source:
                for batch in _ipc_batches(_ipc_reader(source)):
                    selected = batch.select(list(columns))
                    # Arrow trusts the offsets of strings and lists in a file: wrong offsets would crash.
                    selected.validate(full=True)
                    for start in range(0, batch.num_rows, rows):
                        yield selected.slice(start, rows)


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
        roles = find_roles(first.schema, options)
    for shard in shards:
        with name_file_in_errors(shard.path):
            check_types(shard.schema, roles)
            refuse_other_roles(shard.schema, first.schema, roles.columns)
    with name_file_in_errors(Path(name)):
        n_features = _count_features(shards, roles)
        options.check_width(n_features, name)
    return ColumnarFiles(name, shards, roles, n_features)


def read_columns(files: ColumnarFiles, options: ReadOptions, progress: ByteProgress | None = None) -> Dataset:
    """Read all rows into memory, in the order of the files."""
    if options.features is None:
        say_columns(files.roles, files.shards[0].schema)
    check_memory(files.n_docs, files.n_features, files.name)
    features = np.empty((files.n_docs, files.n_features), np.float32)
    return read_into(features, files, options, progress)


def read_into(features: Features, files: ColumnarFiles, options: ReadOptions, progress: ByteProgress | None) -> Dataset:
    """Read all rows, in the order of the files; their features are written to ``features``."""
    buffer = RowBuffer(files.roles, features, find_categories(files.roles, files.shards), {})
    hashes: list[NDArray[np.uint64]] = []
    large, first, step = is_large(features), 0, rows_per_block(4 * files.n_features)
    for shard, batch, row in iter_batches(files, progress):
        with name_file_in_errors(shard.path):
            rows = buffer.add(batch, row, options.missing)
        if large:  # hash them now, so that they are not read again
            documents = buffer.ids["document_ids"][-1] if "document_ids" in buffer.ids else None
            hashes.append(hash_documents(features[rows], documents))
            if rows.stop - first >= step:
                release_pages(features)
                first = rows.stop
    release_pages(features)
    with name_file_in_errors(Path(files.name)):
        if files.n_docs == 0:
            raise DataError("there are no documents.")
        dataset = Dataset.from_table(buffer.table(source=files.name), strict=options.strict)
    if not large:
        return dataset
    return dataset._replace(order=CanonicalOrder.of(np.concatenate(hashes), dataset.list_of_row, dataset.n_lists))


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


_NUMBERS = {"weights": "weight", "document_weights": "document_weight", "positions": "position"}
_IDS = {"query_ids": "query", "document_ids": "document", "groups": "group"}
"""The optional fields of a table, and the roles of their columns."""


class RowBuffer:
    """Arrays for a known number of rows, filled batch by batch.

    ``categories`` are those of all rows of the data set, even if the buffer holds only some of them. ``id_kinds``
    receives the type of each kind of ids and is shared by buffers that must agree.
    """

    def __init__(
        self, roles: Roles, features: Features, categories: inputs.Categories | None, id_kinds: dict[str, str]
    ) -> None:
        self.roles, self.features, self.categories, self.id_kinds = roles, features, categories, id_kinds
        n_docs = len(features)
        self.labels = np.zeros(n_docs, np.float32)
        self.numbers: dict[str, Any] = {
            field: np.empty(n_docs, np.int64 if field == "positions" else np.float64)
            for field, role in _NUMBERS.items()
            if getattr(roles, role) is not None
        }
        self.ids: dict[str, list[Ids]] = {field: [] for field, role in _IDS.items() if getattr(roles, role) is not None}
        self.run_lengths: list[Rows] = []
        self.category_numbers = {
            name: {value: number for number, value in enumerate(values)} for name, values in (categories or {}).items()
        }
        self.n_filled = 0
        self.transposed: Features = np.empty((features.shape[1], batch_rows(len(roles.columns))), np.float32)

    def add(self, batch: pa.RecordBatch, row: int, missing: inputs.Missing) -> slice:
        """Copy and check the values of a batch, and return its rows here; ``row`` is its first row in its file."""
        rows, roles = slice(self.n_filled, self.n_filled + batch.num_rows), self.roles
        with np.errstate(over="ignore"):  # overflow gives inf, for which the checks raise
            if roles.label is not None:
                self.labels[rows] = inputs.as_column(_not_null(batch, roles.label, row))
            for field, values in self.numbers.items():
                column = inputs.as_column(_not_null(batch, getattr(roles, _NUMBERS[field]), row))
                is_position = field == "positions"
                values[rows] = inputs.as_positions(column, len(column), first_row=row) if is_position else column
            self._add_features(batch, rows, row)
        for field in self.ids:
            self._add_ids(field, batch, row)
        self.n_filled = rows.stop
        names = None if roles.listed else roles.features
        inputs.check_features(self.features[rows], missing, names, first_row=row)
        self.labels[rows] = inputs.as_labels(self.labels[rows], batch.num_rows, first_row=row)
        if "document_weights" in self.numbers:
            inputs.as_document_weights(self.numbers["document_weights"][rows], batch.num_rows, first_row=row)
        return rows

    def _add_ids(self, field: str, batch: pa.RecordBatch, row: int) -> None:
        name = getattr(self.roles, _IDS[field])
        ids = inputs.as_ids(_not_null(batch, name, row), batch.num_rows, what=f"column {name!r}")
        kind = ids.dtype.kind
        if self.id_kinds.setdefault(field, kind) != kind:
            raise DataError(f"column {name!r} holds integers in some files and strings in others.")
        if field == "query_ids":
            starts = run_starts(ids)
            self.run_lengths.append(np.diff(np.append(starts, len(ids))))
            ids = ids[starts]
        self.ids[field].append(ids)

    def _add_features(self, batch: pa.RecordBatch, rows: slice, row: int) -> None:
        if self.roles.listed:
            self.features[rows] = _from_lists(batch, self.roles.features[0], self.features.shape[1], row)
            return
        block = self.transposed[:, : batch.num_rows]
        for column, name in enumerate(self.roles.features):
            values = batch.column(name)
            if name in self.category_numbers:
                block[column] = self._number_categories(name, as_categories(values))
            else:
                block[column] = inputs.as_column(values)
        self.features[rows] = block.T

    def _number_categories(self, name: str, column: pa.DictionaryArray) -> NDArray[Any]:
        """The number of each value; NaN where it is missing."""
        numbers, values = self.category_numbers[name], column.dictionary.to_pylist()
        codes = np.array([numbers.get(value, np.nan) for value in values] + [np.nan])
        indices = np.asarray(column.indices.fill_null(len(values)).to_numpy(zero_copy_only=False))
        return codes[indices]

    def table(self, *, source: str | None = None) -> inputs.Table:
        """All rows as a table; error messages call it ``source``."""
        roles, none = self.roles, np.empty(0, np.int64)
        unnamed = not roles.named and roles.features == default_names(len(roles.features))
        ids: dict[str, Any] = {name: np.concatenate(pieces or [none]) for name, pieces in self.ids.items()}
        return inputs.Table(
            features=self.features,
            labels=self.labels,
            **ids,
            **self.numbers,
            feature_names=None if roles.listed or unnamed else roles.features,
            categories=self.categories,
            source=source,
            run_lengths=np.concatenate(self.run_lengths or [none]),
        )


def find_categories(roles: Roles, sources: Sequence[Shard | pa.Table]) -> inputs.Categories | None:
    """The values of all features that hold categories, in alphabetical order; reads these columns."""
    # A shard may lack some values, and its column may then have another type.
    types = [{name: source.schema.field(name).type for name in roles.features} for source in sources]
    names = [name for name in roles.features if name in roles.categorical or any(is_category(t[name]) for t in types)]
    values: dict[str, set[str]] = {name: set() for name in names}
    for source in sources if names else ():
        batches = source.batches(names) if isinstance(source, Shard) else source.select(names).to_batches()
        for batch in batches:
            for name in names:
                used = as_categories(batch.column(name)).dictionary_decode().unique().drop_null()
                values[name].update(used.to_pylist())
    return {name: tuple(sorted(some)) for name, some in values.items()} or None


def default_names(n_features: int) -> tuple[str, ...]:
    """Column names of features without names; read back, they mean "no names" again."""
    return tuple(f"f{number}" for number in range(1, n_features + 1))


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


def _not_null(batch: pa.RecordBatch, name: str, row: int) -> pa.Array:
    column = batch.column(name)
    if column.null_count:
        bad = row + int(np.argmax(inputs.as_column(column.is_null())))
        raise DataError(f"row {bad} (counted from 0): column {name!r} is null.")
    return column


def _from_lists(batch: pa.RecordBatch, name: str, width: int, row: int) -> NDArray[Any]:
    column = _not_null(batch, name, row)
    lengths = inputs.as_column(pc.list_value_length(column))
    differ = lengths != width
    if differ.any():
        bad = int(np.argmax(differ))
        raise DataError(
            f"row {row + bad} (counted from 0): {lengths[bad]} features where the first row has "
            f"{width}; all rows need the same number."
        )
    return inputs.as_column(column.flatten()).reshape(len(column), width)


def read_csv(path: Path, options: ReadOptions) -> inputs.Table:
    """Read a .csv or .tsv file with a header, also one that ends in .gz."""
    with name_file_in_errors(path, "CSV file"), open_binary(path, options) as text:
        source = path if path.suffix.lower() != ".gz" else text
        columns = pyarrow.csv.ParseOptions(delimiter=csv_delimiter(path))
        values = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
        frame = pyarrow.csv.read_csv(source, parse_options=columns, convert_options=values)
        names = frame.column_names
        if len(names) == 1:
            raise DataError(f"has one column, {names[0]!r}; columns are separated by commas in .csv, by tabs in .tsv.")
        if all(name.strip().lstrip("-").replace(".", "", 1).isdecimal() for name in names):
            raise DataError(f"the first line must hold the names of the columns, got {', '.join(names[:5])} ...")
        return read_frame(frame, options, source=str(path))


def csv_delimiter(path: Path) -> str:
    """The separator of the columns of a .csv or .tsv file, also one that ends in .gz."""
    return "\t" if path.name.lower().removesuffix(".gz").endswith(".tsv") else ","


def column_names(files: DataFiles) -> list[str]:
    """The names of all columns of CSV, Parquet or Arrow files."""
    path = files.first
    if files.format == "csv":
        with name_file_in_errors(path, "CSV file"), open_binary(path, ReadLimits()) as text:
            columns = pyarrow.csv.ParseOptions(delimiter=csv_delimiter(path))
            return list(pyarrow.csv.open_csv(text, parse_options=columns).schema.names)
    return list(open_shard(path).schema.names)


@name_file_in_errors(None, "table")
def read_frame(frame: Any, options: ReadOptions, *, source: str | None = None) -> inputs.Table:
    """The checked rows of a table of any library, in order; error messages call it ``source``."""
    table = as_arrow(frame)
    roles = find_roles(table.schema, options)
    check_types(table.schema, roles)
    if options.features is None:
        say_columns(roles, table.schema)
    width = len(roles.features)
    if roles.listed:
        lengths = pc.list_value_length(table.column(roles.features[0]))
        width = int(lengths[0].as_py() or 0) if len(table) else 0
    options.check_width(width, source)
    features = np.empty((len(table), width), np.float32)
    buffer = RowBuffer(roles, features, find_categories(roles, [table]), {})
    row = 0
    for batch in table.select(roles.columns).to_batches(batch_rows(len(roles.columns))):
        buffer.add(batch, row, options.missing)
        row += batch.num_rows
    return buffer.table(source=source)


def as_categories(column: Any) -> pa.DictionaryArray:
    """A column of text or numbers, of any library, as dictionary-encoded strings; NaN is null."""
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
        f"Dataset takes a table with named columns (pandas, polars, Arrow), got {type(frame).__name__}; for arrays use "
        "Dataset.from_arrays(features, labels, query_ids), for files plackett.read(path)."
    )
