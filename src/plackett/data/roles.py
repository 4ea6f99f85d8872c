"""Which column of a table is what: label, query, document, weight and features."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from plackett.base.errors import DataError

LABEL, QUERY, DOCUMENT, WEIGHT, FEATURES = "label", "query_id", "document_id", "weight", "features"
_ALIASES = {
    LABEL: ("relevance", "rel", "grade", "target", "y"),
    QUERY: ("qid", "query"),
    DOCUMENT: ("docid", "doc_id"),
    WEIGHT: (),
}
_SHOWN = 20  # columns named in a message


@dataclass(frozen=True)
class Roles:
    """The columns to read, by what they hold."""

    label: str | None
    query: str
    document: str | None
    weight: str | None
    features: tuple[str, ...]
    listed: bool
    """True if ``features`` is one column whose values are lists."""

    @property
    def columns(self) -> list[str]:
        """All columns to read."""
        single = (self.label, self.query, self.document, self.weight)
        return [name for name in single if name is not None] + list(self.features)


def find_roles(
    schema: pa.Schema,
    *,
    label: str | None = LABEL,
    query: str = QUERY,
    document: str | None = None,
    weight: str | None = None,
    features: str | Sequence[str] | None = None,
) -> Roles:
    """Assign columns to roles.

    A column asked for by its default name may also have one of the usual other names (``qid``,
    ``relevance`` ...) if only one of them is there. ``document_id`` and ``weight`` are taken as
    such where they occur, unless they are named among the ``features``.
    """
    names = _distinct(schema.names)
    asked = [features] if isinstance(features, str) else list(features or ())
    for name in asked:
        if name not in names:
            raise DataError(f"there is no feature column {name!r}; {_existing(names)}.")
    free = [name for name in names if name not in asked]
    roles = (
        None if label is None else _find(label, LABEL, free, "label"),
        _find(query, QUERY, free, "query"),
        _find_optional(document, DOCUMENT, free, "document"),
        _find_optional(weight, WEIGHT, free, "weight"),
    )
    # A set read without labels must not take them for a feature.
    taken = {*roles, LABEL}
    columns = asked or _feature_columns(schema, [name for name in free if name not in taken])
    listed = len(columns) == 1 and _is_list(schema.field(columns[0]).type)
    for name in columns:
        if not (listed or is_numeric(schema.field(name).type)):
            raise DataError(_not_numeric(name, schema.field(name).type))
    found_label, found_query, found_document, found_weight = roles
    assert found_query is not None
    return Roles(found_label, found_query, found_document, found_weight, tuple(columns), listed)


def is_numeric(kind: pa.DataType) -> bool:
    """Whether a column of this type can be a feature; a column of nulls has missing values only."""
    if pa.types.is_dictionary(kind):
        return is_numeric(kind.value_type)
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    return any(test(kind) for test in tests) or pa.types.is_decimal(kind) or pa.types.is_null(kind)


def _is_list(kind: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests) and is_numeric(kind.value_type)


def _feature_columns(schema: pa.Schema, names: list[str]) -> list[str]:
    if FEATURES in names and _is_list(schema.field(FEATURES).type):
        return [FEATURES]
    # The index of a pandas table is no feature.
    return [name for name in names if not name.startswith("__index_level_")]


def _find(name: str, default: str, names: list[str], option: str) -> str:
    if name in names:
        return name
    aliases = _ALIASES[default] if name == default else ()
    there = [alias for alias in aliases if alias in names]
    if len(there) == 1:
        return there[0]
    if there:
        raise DataError(
            f"there is no column {name!r}, and {len(there)} that could be it: "
            f"{', '.join(map(repr, there))}; choose with {option}=."
        )
    also = f" (nor {', '.join(map(repr, aliases))})" if aliases else ""
    raise DataError(
        f"there is no column {name!r}{also}; {_existing(names)}; choose with {option}=."
    )


def _find_optional(name: str | None, default: str, names: list[str], option: str) -> str | None:
    if name is not None:
        return _find(name, default, names, option)
    there = any(alias in names for alias in (default, *_ALIASES[default]))
    return _find(default, default, names, option) if there else None


def _distinct(names: list[str]) -> list[str]:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise DataError(f"column {twice[0]!r} occurs more than once.")
    return names


def _existing(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"the columns are {', '.join(map(repr, names[:_SHOWN]))}{more}"


def _not_numeric(name: str, kind: pa.DataType) -> str:
    return (
        f"column {name!r} holds {kind}, and features are numbers; encode it as numbers, or name "
        "the columns to use with features=, document= ..."
    )
