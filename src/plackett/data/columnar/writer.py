"""Write Parquet and Arrow files, one row group at a time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.files import atomic_file
from plackett.base.ragged import Features, Ids, Labels
from plackett.data.columnar.reader import PARQUET, default_names
from plackett.data.columnar.roles import DOCUMENT, DOCUMENT_WEIGHT, GROUP, LABEL, POSITION, QUERY, WEIGHT, FeatureNote
from plackett.data.files import detect_format
from plackett.data.inputs import Categories
from plackett.data.mapped import row_blocks

_GROUP_BYTES = 32 << 20  # of features in one row group


@dataclass(frozen=True)
class RowSource:
    """Rows to write, in the order of the file; their features are produced block by block."""

    labels: Labels
    query_ids: Ids
    n_features: int
    features: Callable[[int, int], Features]
    """Features of the rows from a start to a stop."""
    document_ids: Ids | None = None
    weights: NDArray[np.float64] | None = None
    """One per row."""
    document_weights: NDArray[np.float64] | None = None
    positions: NDArray[np.int64] | None = None
    groups: NDArray[np.int64] | None = None
    """One per row."""
    feature_names: tuple[str, ...] | None = None
    categories: Categories | None = None

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns before those of the features, by name."""
        optional = {
            DOCUMENT: self.document_ids,
            WEIGHT: self.weights,
            DOCUMENT_WEIGHT: self.document_weights,
            POSITION: self.positions,
            GROUP: self.groups,
        }
        present = {name: values for name, values in optional.items() if values is not None}
        return {LABEL: self.labels, QUERY: self.query_ids, **present}


def write_columns(path: Path, rows: RowSource) -> None:
    """Write ``label``, ``query_id``, ids and weights if any, and one column per feature.

    The schema records which columns are features, so that they are read as such.
    """
    schema = _make_schema(rows)
    with atomic_file(path) as temporary, _open_writer(path, temporary, schema) as writer:
        for group in row_blocks(len(rows.labels), rows.n_features, _GROUP_BYTES):
            writer.write_table(_make_table(rows, schema, group))


def _open_writer(path: Path, temporary: Path, schema: pa.Schema) -> Any:
    if path.suffix.lower() == PARQUET:
        return pq.ParquetWriter(temporary, schema, compression="zstd")
    if detect_format(path) == "csv":
        return _open_csv(path, temporary, schema)
    return pa.ipc.new_file(temporary, schema)


@contextmanager
def _open_csv(path: Path, temporary: Path, schema: pa.Schema) -> Iterator[pyarrow.csv.CSVWriter]:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    options = pyarrow.csv.WriteOptions(delimiter="\t" if ".tsv" in suffixes else ",")
    compression = "gzip" if suffixes[-1] == ".gz" else None
    with (
        pa.output_stream(str(temporary), compression=compression) as file,
        pyarrow.csv.CSVWriter(file, schema, write_options=options) as writer,
    ):
        yield writer


def _make_schema(rows: RowSource) -> pa.Schema:
    columns = rows.columns
    names = rows.feature_names or default_names(rows.n_features)
    clash = set(columns).intersection(names)
    if clash:
        raise DataError(
            f"the feature name {min(clash)!r} is also the name of the column of {min(clash)}s; rename the feature."
        )
    fields = [(name, _column_type(values)) for name, values in columns.items()]
    note = FeatureNote(names, named=rows.feature_names is not None)
    category = pa.dictionary(pa.int32(), pa.string())
    kinds = [category if name in (rows.categories or ()) else pa.float32() for name in names]
    return pa.schema(fields + list(zip(names, kinds, strict=True)), note.metadata())


def _column_type(values: NDArray[Any]) -> pa.DataType:
    return pa.string() if values.dtype.kind in "OU" else pa.from_numpy_dtype(values.dtype)


def _make_table(rows: RowSource, schema: pa.Schema, group: slice) -> pa.Table:
    columns = [values[group] for values in rows.columns.values()]
    columns.extend(np.ascontiguousarray(rows.features(group.start, group.stop).T))
    arrays = [_make_array(c, field, rows) for c, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _make_array(column: NDArray[Any], field: pa.Field, rows: RowSource) -> pa.Array:
    if not pa.types.is_dictionary(field.type):
        return pa.array(column, field.type)
    missing = np.isnan(column)
    codes = pa.array(np.where(missing, 0, column).astype(np.int32), mask=missing)
    values = list((rows.categories or {})[field.name])
    return pa.DictionaryArray.from_arrays(codes, pa.array(values, pa.string()))
