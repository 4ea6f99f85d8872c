"""Record batches of Parquet and Arrow files, from one file or from a folder of them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from plackett.base.errors import DataError

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
