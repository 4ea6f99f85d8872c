"""Write Parquet and Arrow files, one row group at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.files import atomic_file
from plackett.base.ragged import Features, Ids, Labels
from plackett.data.columnar.reader import PARQUET, default_names
from plackett.data.columnar.roles import (
    DOCUMENT,
    DOCUMENT_WEIGHT,
    GROUP,
    LABEL,
    QUERY,
    WEIGHT,
    RoleNote,
)

if TYPE_CHECKING:
    pass


_GROUP_BYTES = 32 << 20  # of features in one row group


@dataclass(frozen=True)
class RowBlocks:
    """Rows to be written, in the order of the file; their features come block by block."""

    labels: Labels
    query_ids: Ids
    document_ids: Ids | None
    weights: NDArray[np.float64] | None
    """One per row."""
    document_weights: NDArray[np.float64] | None
    groups: NDArray[np.int64] | None
    """One per row."""
    feature_names: tuple[str, ...] | None
    n_features: int
    features: Callable[[int, int], Features]
    """Features of the rows from one number to another."""

    @property
    def n_docs(self) -> int:
        """Number of rows."""
        return len(self.labels)

    def spans(self) -> Iterator[tuple[int, int]]:
        """First and last row, exclusive, of each row group."""
        step = max(1, _GROUP_BYTES // max(1, 4 * self.n_features))
        for start in range(0, self.n_docs, step):
            yield start, min(start + step, self.n_docs)


def write_columns(path: Path, rows: RowBlocks) -> None:
    """Write ``label``, ``query_id``, ids and weights if any, and one column per feature.

    The schema notes which columns are features, so that they are read as such.
    """
    schema = _schema(rows)
    with atomic_file(path) as temporary, _writer(path, temporary, schema) as writer:
        for start, stop in rows.spans():
            writer.write_table(_table(rows, schema, start, stop))


def _writer(path: Path, temporary: Path, schema: pa.Schema) -> Any:
    if path.suffix.lower() == PARQUET:
        return pq.ParquetWriter(temporary, schema, compression="zstd")
    return pa.ipc.new_file(temporary, schema)


def _schema(rows: RowBlocks) -> pa.Schema:
    fields = [(LABEL, pa.float32()), (QUERY, _id_type(rows.query_ids))]
    if rows.document_ids is not None:
        fields.append((DOCUMENT, _id_type(rows.document_ids)))
    if rows.weights is not None:
        fields.append((WEIGHT, pa.float64()))
    if rows.document_weights is not None:
        fields.append((DOCUMENT_WEIGHT, pa.float64()))
    if rows.groups is not None:
        fields.append((GROUP, pa.int64()))
    names = rows.feature_names or default_names(rows.n_features)
    clash = {name for name, _ in fields}.intersection(names)
    if clash:
        raise DataError(
            f"the feature name {min(clash)!r} is also the name of the column of {min(clash)}s; "
            "rename the feature."
        )
    note = RoleNote(names, named=rows.feature_names is not None)
    return pa.schema(fields + [(name, pa.float32()) for name in names], note.metadata())


def _id_type(ids: Ids) -> pa.DataType:
    return pa.int64() if ids.dtype.kind == "i" else pa.string()


def _table(rows: RowBlocks, schema: pa.Schema, start: int, stop: int) -> pa.Table:
    single = (
        rows.labels,
        rows.query_ids,
        rows.document_ids,
        rows.weights,
        rows.document_weights,
        rows.groups,
    )
    columns: list[NDArray[Any]] = [c[start:stop] for c in single if c is not None]
    columns.extend(np.ascontiguousarray(rows.features(start, stop).T))
    arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
