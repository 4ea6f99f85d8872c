"""Click logs into files that can be read back."""

from __future__ import annotations

import os
from pathlib import Path

from plackett.base.errors import UsageError
from plackett.base.files import atomic_file
from plackett.data.clicks.log import ClickLog
from plackett.data.clicks.reading import SEPARATORS, text_form
from plackett.data.formats import COLUMNS as TABLES


def write_clicks(log: ClickLog, path: str | os.PathLike[str]) -> None:
    """Write a click log as CSV, TSV, Parquet or Arrow; the suffix says which."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv as arrow_csv

    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in (*SEPARATORS, *TABLES):
        raise UsageError(
            f"{target}: a click log is written as {', '.join((*SEPARATORS, *TABLES))}, not "
            f"{target.suffix!r}."
        )
    columns = {"impression": log.impressions}
    if log.queries is not None:
        columns["query"] = log.queries
    columns |= {"document": log.documents, "position": log.positions}
    table = pa.table({**columns, "click": log.clicks.astype("i1")})
    with atomic_file(target) as temporary:
        if text_form(target) is not None:
            options = arrow_csv.WriteOptions(delimiter=SEPARATORS[suffix], quoting_style="needed")
            arrow_csv.write_csv(table, temporary, options)
        elif suffix == ".parquet":
            pq.write_table(table, temporary, compression="zstd")
        else:
            with pa.ipc.new_file(temporary, table.schema) as writer:
                writer.write_table(table)
