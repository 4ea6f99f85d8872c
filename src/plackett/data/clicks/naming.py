"""Which column of a click log is what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plackett.base.errors import DataError, UsageError

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
