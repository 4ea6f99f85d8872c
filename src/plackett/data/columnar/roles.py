"""Which column of a table is what: label, query, document, weight and features.

What a file of ours says of its columns, so that names are not guessed from when it is read.

The note is a field of the schema's metadata. Any name can be that of a feature: without the note, a
feature ``weight`` would be read as the weights of lists.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import asdict, dataclass

import pyarrow as pa

from plackett.base.errors import DataError, UsageError

_KEY = b"plackett"


@dataclass(frozen=True)
class FeatureNote:
    """The columns that are features when the file is written; others have their default names."""

    features: tuple[str, ...]
    named: bool
    """False if the data set has no feature names, so that those of the columns are made up."""

    def metadata(self) -> dict[bytes, bytes]:
        """The note as metadata of a schema."""
        return {_KEY: json.dumps(asdict(self)).encode()}


def read_note(schema: pa.Schema) -> FeatureNote | None:
    """The note in a schema; None for files of others."""
    text = (schema.metadata or {}).get(_KEY)
    if text is None:
        return None
    try:
        content = json.loads(text)
        features, named = content["features"], content["named"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged() from error
    texts = isinstance(features, list) and all(isinstance(name, str) for name in features)
    if not (texts and isinstance(named, bool)):
        raise _damaged()
    return FeatureNote(tuple(features), named)


def refuse_other_roles(schema: pa.Schema, first: pa.Schema, columns: Sequence[str]) -> None:
    """Refuse a file of a set in which a column has another role than in the first file."""
    note, expected = read_note(schema), read_note(first)
    if note is None or expected is None:
        return
    features = set(note.features) ^ set(expected.features)
    for name in columns:
        if name in features:
            here, there = ("a", "no") if name in note.features else ("no", "a")
            raise DataError(
                f"column {name!r} is {here} feature here, and {there} feature in the first file; "
                "write the files alike."
            )


def _damaged() -> DataError:
    return DataError(
        "the note of which columns are features, in the schema's metadata, is damaged; write the "
        "file anew."
    )


LABEL, QUERY, DOCUMENT, WEIGHT, FEATURES = "label", "query_id", "document_id", "weight", "features"
DOCUMENT_WEIGHT, GROUP = "document_weight", "group_id"
_ALIASES = {
    LABEL: ("relevance", "rel", "grade", "target", "y"),
    QUERY: ("qid", "query"),
    DOCUMENT: ("docid", "doc_id"),
    WEIGHT: (),
    DOCUMENT_WEIGHT: (),
}
_SHOWN = 20  # columns named in a message


@dataclass(frozen=True)
class Roles:
    """The columns to read, by what they hold."""

    label: str | None
    query: str
    document: str | None
    weight: str | None
    document_weight: str | None
    group: str | None
    features: tuple[str, ...]
    listed: bool
    """True if ``features`` is one column whose values are lists."""
    named: bool = False
    """True if the file notes that its columns have the names of features."""

    @property
    def columns(self) -> list[str]:
        """All columns to read."""
        weights = (self.weight, self.document_weight)
        single = (self.label, self.query, self.document, *weights, self.group)
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
    ``relevance`` ...) if only one of them is there. ``document_id``, ``weight`` and
    ``document_weight`` are taken as such where they occur, unless they are named among the
    ``features`` or the file notes that they are features. ``group_id`` is a usual name for other
    things, so it is taken as such in files of our own only.
    """
    names, note = _distinct(schema.names), read_note(schema)
    asked = _asked(features, names)
    kept = {*asked, *(() if note is None else note.features)}
    plain = [name for name in names if name not in kept]
    single = (
        None if label is None else _find(label, LABEL, names, plain, "label"),
        _find(query, QUERY, names, plain, "query"),
        _find_optional(document, DOCUMENT, names, plain, "document"),
        _find_optional(weight, WEIGHT, names, plain, "weight"),
        _find_optional(None, DOCUMENT_WEIGHT, names, plain, "document_weight"),
        GROUP if note is not None and GROUP in plain and query != GROUP else None,
    )
    _refuse_two_roles(single, asked)
    # A set read without labels must not take them for a feature.
    labels = {LABEL, *(_ALIASES[LABEL] if label is None else ())}
    columns = asked or _left(schema, kept.difference(single), labels.union(n for n in single if n))
    if not columns and (note is None or note.features):
        raise DataError(f"has no features; {_existing(names)}.")
    listed = len(columns) == 1 and _is_list(schema.field(columns[0]).type)
    return Roles(*single, tuple(columns), listed, named=note is not None and note.named)


def check_types(schema: pa.Schema, roles: Roles) -> None:
    """Refuse a file that lacks a column, or whose columns are of types that cannot be read."""
    names = set(_distinct(schema.names))
    for name in roles.columns:
        if name not in names:
            raise DataError(f"there is no column {name!r}, which other files have.")
    for number in (roles.label, roles.weight, roles.document_weight):
        if number is not None and not is_numeric(schema.field(number).type):
            kind = schema.field(number).type
            raise DataError(f"column {number!r} must be numbers, and holds {kind}.")
    for name in roles.features:
        kind = schema.field(name).type
        if roles.listed and not _is_list(kind):
            raise DataError(f"column {name!r} must be lists of numbers, and holds {kind}.")
        if not (roles.listed or is_numeric(kind)):
            raise DataError(_not_numeric(name, kind))


def is_numeric(kind: pa.DataType) -> bool:
    """Whether a column of this type can be a feature; a column of nulls has missing values only."""
    if pa.types.is_dictionary(kind):
        return is_numeric(kind.value_type)
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    return any(test(kind) for test in tests) or pa.types.is_decimal(kind) or pa.types.is_null(kind)


def _is_list(kind: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests) and is_numeric(kind.value_type)


def _asked(features: str | Sequence[str] | None, names: Sequence[str]) -> list[str]:
    if features is None:
        return []
    asked = [features] if isinstance(features, str) else list(features)
    if not asked:
        raise UsageError("features= names no column; leave it out to take all that are left.")
    for name in asked:
        if name not in names:
            raise DataError(f"there is no feature column {name!r}; {_existing(names)}.")
    twice = [name for name, times in Counter(asked).items() if times > 1]
    if twice:
        raise UsageError(f"features= names column {twice[0]!r} more than once.")
    return asked


def _refuse_two_roles(single: Sequence[str | None], asked: Sequence[str]) -> None:
    """Refuse a column that was asked for in two roles."""
    roles = dict.fromkeys(asked, "a feature")
    kinds = ("label", "query", "document", "weight", "document weight", "group")
    for role, name in zip(kinds, single, strict=True):
        if name is None:
            continue
        if name in roles:
            raise UsageError(f"column {name!r} cannot be both {roles[name]} and {role}.")
        roles[name] = role


def _left(schema: pa.Schema, noted: Set[str], taken: Set[str]) -> list[str]:
    """Features where none were asked for: those that the file notes, and columns left over."""
    names = [name for name in schema.names if name in noted or name not in taken]
    if FEATURES in names and FEATURES not in noted and _is_list(schema.field(FEATURES).type):
        return [FEATURES]
    # The index of a pandas table is no feature.
    return [name for name in names if name in noted or not name.startswith("__index_level_")]


def _find(name: str, default: str, names: Sequence[str], plain: Sequence[str], option: str) -> str:
    """Find a column of this name, or if it is the default, a plain one of another usual name."""
    if name in names:
        return name
    aliases = _ALIASES[default] if name == default else ()
    there = [alias for alias in aliases if alias in plain]
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


def _find_optional(
    name: str | None, default: str, names: Sequence[str], plain: Sequence[str], option: str
) -> str | None:
    if name is not None:
        return _find(name, default, names, plain, option)
    there = any(alias in plain for alias in (default, *_ALIASES[default]))
    return _find(default, default, plain, plain, option) if there else None


def _distinct(names: list[str]) -> list[str]:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise DataError(f"column {twice[0]!r} occurs more than once.")
    return names


def _existing(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"the columns are {', '.join(map(repr, names[:_SHOWN]))}{more}"


def _not_numeric(name: str, kind: pa.DataType) -> str:
    return (
        f"column {name!r} holds {kind}, and features are numbers; encode it as numbers, or name "
        "the columns to use with features=, document= ..."
    )
