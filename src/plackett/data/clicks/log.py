"""Click logs: which document was shown at which position, and whether it was clicked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError, Message, UsageError
from plackett.base.ragged import Ids, Rows
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
    is_text: bool
    """Whether rows are lines of text."""
    first: int
    """Number of the first row."""


@dataclass(frozen=True, eq=False, repr=False)
class ClickLog:
    """Rows of a click log, checked: one per document and impression.

    Build it with :meth:`from_table`, :func:`~plackett.data.clicks.read_clicks` or
    :func:`~plackett.data.clicks.simulation`, not with the constructor.
    """

    impressions: Ids
    queries: Ids | None
    """None if the log has none; the documents then determine the query."""
    documents: Ids
    positions: Rows
    """From 1."""
    clicks: NDArray[np.bool_]
    by_rows: bool = False
    """Whether the documents are rows of the data set that was used for a simulation."""
    source: LogFile | None = None
    """The file of the rows, for error messages."""

    @classmethod
    def from_table(cls, table: Any, **columns: str) -> ClickLog:
        """Make a click log from a table: pandas, polars, Arrow, or a dictionary.

        Parameters
        ----------
        table
            With columns ``impression``, ``query`` (optional), ``document``, ``position`` (from 1)
            and ``click`` (0 or 1), or other common names (``session_id``, ``qid``, ``doc_id``,
            ``rank``, ``clicked`` ...).
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
        names = list(table) if isinstance(table, Mapping) else _column_names(table)
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
        return ClickLog(
            impressions=self.impressions[selected],
            queries=None if self.queries is None else self.queries[selected],
            documents=self.documents[selected],
            positions=self.positions[selected],
            clicks=self.clicks[selected],
            by_rows=self.by_rows,
        )

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
                f"there is no column {role!r} (nor {', '.join(map(repr, aliases))}); "
                f"{existing}; name it with {role}=."
            )
    return chosen


def row_error(source: LogFile | None, row: int, message: str) -> DataError:
    """An error in a row, counted from 0, with its place in the file if there is one."""
    if source is None:
        return DataError(Message(f"row {row} (counted from 0): ", message))
    if source.is_text:
        return DataError(message, path=source.path, line=row + source.first)
    return DataError(Message(f"row {row} (counted from 0): ", message), path=source.path)


def encode_ids(ids: Ids) -> Rows:
    """A number for each id, from 0 in sorted order; equal ids have equal numbers."""
    return np.unique(ids, return_inverse=True)[1].astype(np.int64)


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _column_names(table: Any) -> list[str]:
    names = getattr(table, "column_names", None)  # Arrow
    return [str(name) for name in (table.columns if names is None else names)]


def _as_values(values: Any, n_rows: int, name: str) -> NDArray[Any]:
    column = as_column(values)
    if column.shape != (n_rows,):
        raise DataError(
            f"column {name!r} must be {n_rows} values, one per row, got {column.shape}."
        )
    return column


def _as_positions(values: Any, n_rows: int, name: str, source: LogFile | None) -> Rows:
    column = _as_values(values, n_rows, name)
    numbers = column if column.dtype.kind in "iuf" else _parse_numbers(column)
    whole = np.where(np.isfinite(numbers), numbers, 0).astype(np.int64)
    bad = (whole != numbers) | (whole < 1)
    if bad.any():
        row = int(np.argmax(bad))
        raise row_error(
            source,
            row,
            f"position {column[row]} in column {name!r}; positions are whole numbers from 1.",
        )
    return whole


def _parse_numbers(column: NDArray[Any]) -> NDArray[np.float64]:
    """Numbers of a column of text; NaN for text that is not a number."""
    numbers = np.full(len(column), np.nan)
    for row, text in enumerate(column):
        with suppress(TypeError, ValueError):
            numbers[row] = float(text)
    return numbers


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
    """Refuse the first two neighbors in ``order`` that are marked as bad."""
    if bad.any():
        place = int(np.argmax(bad))
        earlier, later = sorted((int(order[place]), int(order[place + 1])))
        impression, first = log.impressions[later].item(), log.source.first if log.source else 0
        unit = "line" if log.source is not None and log.source.is_text else "row"
        message = f"{problem} impression {impression!r}: here and in {unit} {earlier + first}."
        raise row_error(log.source, later, message)
