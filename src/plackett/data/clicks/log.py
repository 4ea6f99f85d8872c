"""Click logs: which document was shown at which position, and whether it was clicked.

Logs are read and written as CSV, TSV, Parquet and Arrow.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError, Message, UsageError
from plackett.base.files import atomic_file, require_regular
from plackett.base.ragged import Ids, Rows
from plackett.data.files import (
    COLUMNAR_SUFFIXES,
    CSV_SUFFIXES,
    DEFAULT_LIMITS,
    ByteProgress,
    PathLike,
    detect_format,
    open_binary,
)
from plackett.data.inputs import as_column, as_ids

COLUMNS: dict[str, tuple[str, ...]] = {
    "impression": ("impression_id", "session", "session_id", "serp_id"),
    "query": ("query_id", "qid"),
    "document": ("document_id", "doc_id", "docid", "doc", "url", "item_id"),
    "position": ("rank", "pos"),
    "click": ("clicked", "clicks", "is_click"),
}
"""Columns of a click log, and other names that are tried if a column is absent."""
OPTIONAL = ("query",)


_TRUE, _FALSE = ("1", "true", "t", "yes"), ("0", "false", "f", "no")


class LogFile(NamedTuple):
    """The file that a click log was read from."""

    path: str
    first: int | None
    """Number of the line of the first row; None if rows are not lines of text."""


@dataclass(frozen=True, eq=False, repr=False)
class ClickLog:
    """Rows of a click log, checked: one per document and impression.

    Build it with :meth:`from_table`, :func:`~plackett.data.clicks.read_clicks` or
    :func:`~plackett.data.clicks.simulate`, not with the constructor.
    """

    impressions: Ids
    queries: Ids | None
    """None if the log has none; the documents then determine the query."""
    documents: Ids
    positions: Rows
    """From 1."""
    clicks: NDArray[np.bool_]
    by_rows: bool = False
    """Whether document ids are row numbers of the simulated data set."""
    source: LogFile | None = None
    """The file of the rows, for error messages."""

    @classmethod
    def from_table(cls, table: Any, **columns: str) -> ClickLog:
        """Make a click log from a table: pandas, polars, Arrow, or a dictionary.

        Parameters
        ----------
        table
            With columns ``impression``, ``query`` (optional), ``document``, ``position`` (from 1) and ``click`` (0 or
            1), or other common names (``session_id``, ``qid``, ``doc_id``, ``rank``, ``clicked`` ...).
        **columns
            The names of these columns if they are different.

        Examples
        --------
        >>> from plackett.data.clicks import ClickLog
        >>> ClickLog.from_table(
        ...     {
        ...         "impression": [1, 1, 2, 2],
        ...         "query": ["tea", "tea", "tea", "tea"],
        ...         "document": ["a", "b", "b", "a"],
        ...         "rank": [1, 2, 1, 2],
        ...         "click": [0, 1, 0, 0],
        ...     }
        ... )
        ClickLog(2 impressions of 1 query, 4 rows, 1 click)
        """
        if isinstance(table, Mapping):
            names = list(table)
        else:  # Arrow's have column_names
            names = [str(name) for name in getattr(table, "column_names", None) or table.columns]
        chosen = choose_columns(names, columns)
        by_role = {role: table[name] for role, name in chosen.items()}
        return cls.from_columns(by_role, names=chosen)

    @classmethod
    def from_columns(
        cls, columns: Mapping[str, Any], *, names: Mapping[str, str], source: LogFile | None = None
    ) -> ClickLog:
        """Check columns by role; error messages use their names and their file."""
        n_rows = len(as_column(columns["impression"]))
        if n_rows == 0:
            raise DataError("the click log has no rows.")
        ids = {
            role: as_ids(columns[role], n_rows, what=f"column {names[role]!r}")
            for role in ("impression", "query", "document")
            if role in columns
        }
        log = cls(
            impressions=ids["impression"],
            queries=ids.get("query"),
            documents=ids["document"],
            positions=_as_positions(columns["position"], n_rows, names["position"], source),
            clicks=_as_clicks(columns["click"], n_rows, names["click"], source),
            source=source,
        )
        _check_impressions(log)
        return log

    def __len__(self) -> int:
        return len(self.clicks)

    def take(self, rows: ArrayLike) -> ClickLog:
        """Return some of the rows, by number or by a mask."""
        selected = np.asarray(rows)
        queries = None if self.queries is None else self.queries[selected]
        columns = (self.documents[selected], self.positions[selected], self.clicks[selected])
        return ClickLog(self.impressions[selected], queries, *columns, by_rows=self.by_rows)

    def of_queries(self, queries: ArrayLike) -> ClickLog:
        """Return the impressions of these queries, such as those of one part of a data set."""
        if self.queries is None:
            raise DataError("the click log has no column of queries to select by.")
        return self.take(np.isin(self.queries, np.asarray(queries)))

    def __repr__(self) -> str:
        impressions = len(np.unique(self.impressions))
        queries = ""
        if self.queries is not None:
            queries = f" of {_count(len(np.unique(self.queries)), 'query', 'queries')}"
        return (
            f"ClickLog({_count(impressions, 'impression')}{queries}, {_count(len(self), 'row')}, "
            f"{_count(int(self.clicks.sum()), 'click')})"
        )


def choose_columns(names: Sequence[str], requested: Mapping[str, str]) -> dict[str, str]:
    """The name of the column of each role; optional columns that are absent are left out."""
    for role in requested:
        if role not in COLUMNS:
            raise UsageError(f"a click log has the columns {', '.join(COLUMNS)}, not {role!r}.")
    existing = f"the columns are {', '.join(map(repr, names))}"
    chosen = {}
    for role, aliases in COLUMNS.items():
        if role in requested:
            if requested[role] not in names:
                raise DataError(f"there is no column {requested[role]!r}; {existing}.")
            chosen[role] = requested[role]
            continue
        present = [name for name in (role, *aliases) if name in names]
        if present:
            chosen[role] = present[0]
        elif role not in OPTIONAL:
            raise DataError(
                f"there is no column {role!r} (nor {', '.join(map(repr, aliases))}); {existing}; name it with {role}=."
            )
    return chosen


def row_error(source: LogFile | None, row: int, message: str) -> DataError:
    """An error in a row, counted from 0, with its place in the file if there is one."""
    if source is not None and source.first is not None:
        return DataError(message, path=source.path, line=row + source.first)
    path = None if source is None else source.path
    return DataError(Message(f"row {row} (counted from 0): ", message), path=path)


def encode_ids(ids: Ids) -> Rows:
    """A number for each id, from 0 in sorted order; equal ids have equal numbers."""
    return np.unique(ids, return_inverse=True)[1].astype(np.int64)


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _as_values(values: Any, n_rows: int, name: str) -> NDArray[Any]:
    column = as_column(values)
    if column.shape != (n_rows,):
        raise DataError(f"column {name!r} must be {n_rows} values, one per row, got {column.shape}.")
    return column


def _as_positions(values: Any, n_rows: int, name: str, source: LogFile | None) -> Rows:
    numbers = column = _as_values(values, n_rows, name)
    if column.dtype.kind not in "iuf":
        numbers = np.full(n_rows, np.nan)  # stays for text that is not a number
        for row, text in enumerate(column):
            with suppress(TypeError, ValueError):
                numbers[row] = float(text)
    whole = np.where(np.isfinite(numbers), numbers, 0).astype(np.int64)
    bad = (whole != numbers) | (whole < 1)
    if bad.any():
        row = int(np.argmax(bad))
        raise row_error(source, row, f"position {column[row]} in column {name!r}; positions are whole numbers from 1.")
    return whole


def _as_clicks(values: Any, n_rows: int, name: str, source: LogFile | None) -> NDArray[np.bool_]:
    column = _as_values(values, n_rows, name)
    if column.dtype.kind == "b":
        return np.ascontiguousarray(column, dtype=np.bool_)
    if column.dtype.kind in "iuf":
        yes, no = column == 1, column == 0
    else:
        text = np.char.lower(column.astype(np.str_))
        yes, no = np.isin(text, _TRUE), np.isin(text, _FALSE)
    bad = ~(yes | no)
    if bad.any():
        row = int(np.argmax(bad))
        raise row_error(source, row, f"{column[row]} in column {name!r}; a click is 0 or 1.")
    return np.ascontiguousarray(yes)


def _check_impressions(log: ClickLog) -> None:
    """Check that an impression has one query, and each document and position once."""
    impressions = encode_ids(log.impressions)
    if log.queries is not None:
        order = np.argsort(impressions, kind="stable")
        queries = encode_ids(log.queries)[order]
        same = np.diff(impressions[order]) == 0
        _refuse_pair(same & (np.diff(queries) != 0), order, log, "two queries in")
    for what, values in (("position", log.positions), ("document", encode_ids(log.documents))):
        order = np.lexsort((values, impressions))
        again = (np.diff(values[order]) == 0) & (np.diff(impressions[order]) == 0)
        _refuse_pair(again, order, log, f"the same {what} twice in")


def _refuse_pair(bad: NDArray[np.bool_], order: Rows, log: ClickLog, problem: str) -> None:
    """Raise DataError for the first two neighbors in ``order`` that are marked as bad."""
    if bad.any():
        place = int(np.argmax(bad))
        earlier, later = sorted((int(order[place]), int(order[place + 1])))
        first = None if log.source is None else log.source.first
        other = f"row {earlier}" if first is None else f"line {earlier + first}"
        message = f"{problem} impression {log.impressions[later].item()!r}: here and in {other}."
        raise row_error(log.source, later, message)


_BLOCK_BYTES = 8 << 20
_HEADER_BYTES = 1 << 20
_IDS = ("impression", "query", "document")


def read_clicks(path: PathLike, *, progress: ByteProgress | None = None, **columns: str) -> ClickLog:
    """Read a click log.

    Parameters
    ----------
    path
        ``.csv`` or ``.tsv`` with a header line, also followed by ``.gz``; ``.parquet``, ``.arrow`` or ``.feather``.
    progress
        Called now and then with the bytes done and the total number of bytes.
    **columns
        Names of the columns ``impression``, ``query``, ``document``, ``position`` and ``click`` if
        they have neither these nor other common names.

    Examples
    --------
    >>> import plackett as pk
    >>> log = pk.read_clicks("log.csv")  # doctest: +SKIP
    """
    source = Path(path)
    if not source.exists():
        raise DataError("there is no such file", path=str(source))
    require_regular(source)
    format_ = detect_format(source)
    if format_ not in ("csv", "columnar"):
        raise UsageError(
            f"{source}: a click log is CSV or TSV ({' '.join(CSV_SUFFIXES)}, also followed by .gz), "
            f"Parquet or Arrow ({' '.join(COLUMNAR_SUFFIXES)}), not {source.suffix!r}."
        )
    is_text = format_ == "csv"
    file = LogFile(str(source), first=2 if is_text else None)  # the first line of text is the header
    from plackett.data.columnar.reader import name_file_in_errors  # imports pyarrow

    with name_file_in_errors(source, "click log"):
        table, names = (_read_text if is_text else _read_columnar)(source, columns, progress)
        arrays = {role: _check_column(table.column(name), name, file) for role, name in names.items()}
        return ClickLog.from_columns(arrays, names=names, source=file)


def _read_text(path: Path, columns: Mapping[str, str], progress: ByteProgress | None) -> tuple[Any, dict[str, str]]:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    from plackett.data.columnar.reader import csv_delimiter

    separator = csv_delimiter(path)
    try:
        with open_binary(path, DEFAULT_LIMITS) as file:
            # A longer line is not a header: csv would read an endless line to its end.
            head = io.TextIOWrapper(io.BytesIO(io.BufferedReader(file).read(_HEADER_BYTES)), "utf-8", newline="")
            header = next(csv.reader(head, delimiter=separator), [])
    except (UnicodeDecodeError, csv.Error, OSError, EOFError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(f"not a readable click log: {reason}") from error
    names = choose_columns(header, columns)
    total = path.stat().st_size
    # Ids are read as text, so that 007 is not 7; columns of integers are converted later.
    types = {names[role]: pa.string() for role in _IDS if role in names}
    batches = []
    with open_binary(path, DEFAULT_LIMITS) as stream:
        reader = arrow_csv.open_csv(
            stream,
            arrow_csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            arrow_csv.ParseOptions(delimiter=separator, ignore_empty_lines=False),
            arrow_csv.ConvertOptions(
                column_types=types, include_columns=list(names.values()), strings_can_be_null=True, null_values=[""]
            ),
        )
        for batch in reader:
            batches.append(batch)
            if progress is not None:
                progress(min(stream.source_bytes, total), total)
    return pa.Table.from_batches(batches, reader.schema), names


def _read_columnar(path: Path, columns: Mapping[str, str], progress: ByteProgress | None) -> tuple[Any, dict[str, str]]:
    import pyarrow as pa

    from plackett.data.columnar.reader import open_shard

    shard = open_shard(path)
    names = choose_columns(shard.schema.names, columns)
    batches, rows = [], 0
    for batch in shard.batches(list(dict.fromkeys(names.values()))):
        batches.append(batch)
        rows += batch.num_rows
        if progress is not None:
            progress(shard.n_bytes * rows // max(shard.n_rows, 1), shard.n_bytes)
    if not batches:
        raise DataError("the click log has no rows.")
    return pa.Table.from_batches(batches), names


def _check_column(column: Any, name: str, file: LogFile) -> Any:
    """Raise for nulls; convert text to integers if all values are integers in standard notation (not 007 or +7)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count:
        row = int(np.argmax(np.asarray(column.is_null().to_numpy())))
        raise row_error(file, row, f"column {name!r} is empty.")
    if not (file.first is not None and pa.types.is_string(column.type)):
        return column
    integers = pc.all(pc.match_substring_regex(column, r"^(0|-?[1-9][0-9]{0,17})$")).as_py()
    return np.asarray((pc.cast(column, pa.int64()) if integers else column).to_numpy())


def write_clicks(log: ClickLog, path: PathLike) -> None:
    """Write a click log as CSV, TSV, Parquet or Arrow; the suffix selects the format."""
    import pyarrow as pa

    from plackett.data.columnar.blocks import open_writer

    target, suffixes = Path(path), (*CSV_SUFFIXES, *COLUMNAR_SUFFIXES)
    if target.suffix.lower() not in suffixes:
        raise UsageError(f"{target}: a click log is written as {', '.join(suffixes)}, not {target.suffix!r}.")
    columns = {"impression": log.impressions}
    if log.queries is not None:
        columns["query"] = log.queries
    columns |= {"document": log.documents, "position": log.positions}
    table = pa.table({**columns, "click": log.clicks.astype("i1")})
    with atomic_file(target) as temporary, open_writer(target, temporary, table.schema) as writer:
        writer.write_table(table)
