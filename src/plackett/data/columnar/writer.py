"""Write Parquet and Arrow files, one row group at a time."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.files import atomic_file
from plackett.data.canonical import dense_rows, take
from plackett.data.columnar.reader import PARQUET, csv_delimiter, default_names
from plackett.data.columnar.roles import DOCUMENT, DOCUMENT_WEIGHT, GROUP, LABEL, POSITION, QUERY, WEIGHT, FeatureNote
from plackett.data.dataset import Dataset
from plackett.data.files import ByteProgress, detect_format
from plackett.data.inputs import Categories
from plackett.data.large_arrays import release_pages
from plackett.data.mapped import row_blocks

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
        if path.suffix.lower() == PARQUET:
            writer = pq.ParquetWriter(temporary, schema, compression="zstd")
        elif detect_format(path) == "csv":
            file = stack.enter_context(pa.output_stream(str(temporary), compression=compression))
            options = pyarrow.csv.WriteOptions(delimiter=csv_delimiter(path))
            writer = pyarrow.csv.CSVWriter(file, schema, write_options=options)
        else:
            writer = pa.ipc.new_file(temporary, schema)
        yield stack.enter_context(writer)


def _make_schema(dataset: Dataset, columns: Mapping[str, NDArray[Any]]) -> pa.Schema:
    names = dataset.feature_names or default_names(dataset.n_features)
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
