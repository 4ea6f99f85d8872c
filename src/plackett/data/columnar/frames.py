"""Tables in memory: pandas, polars and Arrow tables, and CSV files, which are read into one.

Their columns have the same roles as those of Parquet files (:mod:`plackett.data.columnar.roles`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from plackett.base.errors import DataError, UsageError
from plackett.data.columnar.errors import name_file_in_errors
from plackett.data.columnar.reader import RowBuffer, batch_rows
from plackett.data.columnar.roles import check_types, find_roles, say_columns
from plackett.data.files import ReadOptions
from plackett.data.limits import open_binary
from plackett.data.table import Table


def read_csv(path: Path, options: ReadOptions) -> Table:
    """Read a .csv or .tsv file with a header, also one that ends in .gz."""
    separator = "\t" if ".tsv" in [suffix.lower() for suffix in path.suffixes] else ","
    with name_file_in_errors(path, "CSV file"), open_binary(path, options.limits) as text:
        frame = pyarrow.csv.read_csv(
            path if path.suffix.lower() != ".gz" else text,
            parse_options=pyarrow.csv.ParseOptions(delimiter=separator),
            convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True),
        )
        return read_frame(frame, options, source=str(path))


def read_frame(frame: Any, options: ReadOptions, *, source: str | None = None) -> Table:
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


def _read_table(table: pa.Table, options: ReadOptions, source: str | None) -> Table:
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
        f"{type(frame).__name__}; for arrays use Dataset.from_arrays(features, labels, query_ids)."
    )
