"""A click log: what was shown to whom at which position, and whether it was clicked.

Which column of a click log is what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import Ids, Rows
from plackett.data.inputs import as_column, as_ids

COLUMNS: dict[str, tuple[str, ...]] = {
    "impression": ("impression_id", "session", "session_id", "serp_id"),
    "query": ("query_id", "qid"),
    "document": ("document_id", "doc_id", "docid", "doc", "url", "item_id"),
    "position": ("rank", "pos"),
    "click": ("clicked", "clicks", "is_click"),
}
"""Columns of a click log, and other names that are tried where the first is absent."""
OPTIONAL = ("query",)


def choose_columns(names: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """The name of the column of each role; roles that may be absent are left out."""
    for role in given:
        if role not in COLUMNS:
            raise UsageError(f"a click log has the columns {', '.join(COLUMNS)}, not {role!r}.")
    chosen = {}
    for role, aliases in COLUMNS.items():
        if role in given:
            if given[role] not in names:
                raise DataError(f"there is no column {given[role]!r}; {_existing(names)}.")
            chosen[role] = given[role]
            continue
        there = [name for name in (role, *aliases) if name in names]
        if there:
            chosen[role] = there[0]
        elif role not in OPTIONAL:
            raise DataError(
                f"there is no column {role!r} (nor {', '.join(map(repr, aliases))}); "
                f"{_existing(names)}; name it with {role}=."
            )
    return chosen


def _existing(names: Sequence[str]) -> str:
    return f"the columns are {', '.join(map(repr, names))}"


_TRUE, _FALSE = ("1", "true", "t", "yes"), ("0", "false", "f", "no")


class Source(NamedTuple):
    """A file of rows."""

    path: str
    lines: bool
    """Whether rows are lines of text."""
    first: int
    """Number of the first row."""


def at_row(source: Source | None, row: int, message: str) -> DataError:
    """An error in a row, counted from 0, with its place in the file if it came from one."""
    if source is None:
        return DataError(f"row {row} (counted from 0): {message}")
    if source.lines:
        return DataError(message, path=source.path, line=row + source.first)
    return DataError(f"row {row} (counted from 0): {message}", path=source.path)


@dataclass(frozen=True, eq=False, repr=False)
class ClickLog:
    """Rows of a click log, checked: one per document and impression.

    Build it with :meth:`from_table`, :func:`~plackett.data.clicks.read_clicks` or
    :func:`~plackett.data.clicks.simulation`, not with the constructor.
    """

    impressions: Ids
    queries: Ids | None
    """None if the log does not say; documents then tell the query."""
    documents: Ids
    positions: Rows
    """From 1."""
    clicks: NDArray[np.bool_]
    by_rows: bool = False
    """The documents are rows of the data set that was simulated on."""
    source: Source | None = None
    """Where the rows come from, for messages."""

    @classmethod
    def from_table(cls, table: Any, **columns: str) -> ClickLog:
        """Take the columns of a table: pandas, polars, Arrow, or a dictionary.

        Parameters
        ----------
        table
            With columns ``impression``, ``query`` (optional), ``document``, ``position`` (from 1)
            and ``click`` (0 or 1), or the usual other names (``session_id``, ``qid``, ``doc_id``,
            ``rank``, ``clicked`` ...).
        **columns
            The names of these columns where they are others.

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
        found = {role: table[name] for role, name in chosen.items()}
        return cls.from_columns(found, names=chosen)

    @classmethod
    def from_columns(
        cls, found: Mapping[str, Any], *, names: Mapping[str, str], source: Source | None = None
    ) -> ClickLog:
        """Check columns by role; their names and where they come from are for messages."""
        n = len(as_column(found["impression"]))
        if n == 0:
            raise DataError("the click log has no rows.")
        ids = {
            role: as_ids(found[role], n, what=f"column {names[role]!r}")
            for role in ("impression", "query", "document")
            if role in found
        }
        log = cls(
            impressions=ids["impression"],
            queries=ids.get("query"),
            documents=ids["document"],
            positions=_as_positions(found["position"], n, names["position"], source),
            clicks=_as_clicks(found["click"], n, names["click"], source),
            source=source,
        )
        _check_impressions(log)
        return log

    def __len__(self) -> int:
        return len(self.clicks)

    def take(self, rows: ArrayLike) -> ClickLog:
        """Some of the rows, by number or by a mask."""
        which = np.asarray(rows)
        return ClickLog(
            impressions=self.impressions[which],
            queries=None if self.queries is None else self.queries[which],
            documents=self.documents[which],
            positions=self.positions[which],
            clicks=self.clicks[which],
            by_rows=self.by_rows,
        )

    def of_queries(self, queries: ArrayLike) -> ClickLog:
        """Only the impressions of these queries, such as those of one part of a data set."""
        if self.queries is None:
            raise DataError("the click log has no column of queries to choose by.")
        return self.take(np.isin(self.queries, np.asarray(queries)))

    def __repr__(self) -> str:
        impressions = len(np.unique(self.impressions))
        of = ""
        if self.queries is not None:
            of = f" of {_count(len(np.unique(self.queries)), 'query', 'queries')}"
        return (
            f"ClickLog({_count(impressions, 'impression')}{of}, {_count(len(self), 'row')}, "
            f"{_count(int(self.clicks.sum()), 'click')})"
        )


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _column_names(table: Any) -> list[str]:
    names = getattr(table, "column_names", None)  # Arrow
    return [str(name) for name in (table.columns if names is None else names)]


def _as_positions(values: Any, n: int, name: str, source: Source | None) -> Rows:
    column = as_column(values)
    if column.shape != (n,):
        raise DataError(f"column {name!r} must be {n} values, one per row, got {column.shape}.")
    numbers = column if column.dtype.kind in "iuf" else _from_text(column)
    whole = np.where(np.isfinite(numbers), numbers, 0).astype(np.int64)
    bad = (whole != numbers) | (whole < 1)
    if bad.any():
        row = int(np.argmax(bad))
        raise at_row(
            source,
            row,
            f"position {column[row]} in column {name!r}; positions are whole numbers from 1.",
        )
    return whole


def _from_text(column: NDArray[Any]) -> NDArray[np.float64]:
    """Positions that came as text; NaN for what is not a number."""
    found = np.full(len(column), np.nan)
    for row, text in enumerate(column):
        with suppress(TypeError, ValueError):
            found[row] = float(text)
    return found


def _as_clicks(values: Any, n: int, name: str, source: Source | None) -> NDArray[np.bool_]:
    column = as_column(values)
    if column.shape != (n,):
        raise DataError(f"column {name!r} must be {n} values, one per row, got {column.shape}.")
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
        raise at_row(source, row, f"{column[row]} in column {name!r}; a click is 0 or 1.")
    return np.ascontiguousarray(yes)


def _check_impressions(log: ClickLog) -> None:
    """An impression has one query, and shows a document and fills a position once."""
    impressions = codes_of(log.impressions)
    if log.queries is not None:
        order = np.argsort(impressions, kind="stable")
        queries = codes_of(log.queries)[order]
        same = np.diff(impressions[order]) == 0
        _refuse(same & (np.diff(queries) != 0), order, log, "two queries in")
    for what, values in (("position", log.positions), ("document", codes_of(log.documents))):
        order = np.lexsort((values, impressions))
        again = (np.diff(values[order]) == 0) & (np.diff(impressions[order]) == 0)
        _refuse(again, order, log, f"the same {what} twice in")


def _refuse(bad: NDArray[np.bool_], order: Rows, log: ClickLog, what: str) -> None:
    if bad.any():
        at = int(np.argmax(bad))
        a, b = sorted((int(order[at]), int(order[at + 1])))
        impression, first = log.impressions[b].item(), log.source.first if log.source else 0
        kind = "line" if log.source is not None and log.source.lines else "row"
        message = f"{what} impression {impression!r}: here and in {kind} {a + first}."
        raise at_row(log.source, b, message)


def codes_of(ids: Ids) -> Rows:
    """A number for each id, the same for the same."""
    return np.unique(ids, return_inverse=True)[1].astype(np.int64)
