"""A small table, and the files that hold it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq

from plackett.data.dataset import Dataset

COLUMNS: dict[str, Any] = {
    "query_id": ["a", "a", "b"],
    "label": [2, 0, 1],
    "price": [1.5, 2.5, 3.5],
    "clicks": [10, 0, 7],
}
EXPECTED = Dataset.from_arrays(
    [[1.5, 10], [2.5, 0], [3.5, 7]], [2, 0, 1], ["a", "a", "b"], feature_names=["price", "clicks"]
)


def write_file(path: Path, columns: dict[str, Any] | pa.Table) -> Path:
    """Write a Parquet or Arrow file in pieces of two rows."""
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=2)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    return path


def renamed(**names: str) -> dict[str, Any]:
    """The table with other names of columns."""
    return {names.get(name, name): column for name, column in COLUMNS.items()}
