"""Roles of the columns of a file: label, query, document, weight and features, found by name.

Files that plackett writes note which columns are features, so that one named ``weight`` is not read as list weights.
"""

import json
import logging
import re
import warnings
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import asdict, dataclass

import pyarrow as pa

from plackett.base.errors import DataError, DataWarning, Message, Parameter, UsageError
from plackett.data.files import ReadOptions

LABEL, QUERY, DOCUMENT, WEIGHT, FEATURES = "label", "query_id", "document_id", "weight", "features"
DOCUMENT_WEIGHT, POSITION, GROUP = "document_weight", "position", "group_id"
_ALIASES = {
    LABEL: ("relevance", "rel", "grade", "target", "y"),
    QUERY: ("qid", "query"),
    DOCUMENT: ("docid", "doc_id"),
    WEIGHT: (),
    DOCUMENT_WEIGHT: (),
}
_MAX_NAMED = 20  # columns named in a message
_METADATA_KEY = b"plackett"
_NOT_A_FEATURE = re.compile(
    r"(^|_)(ids?|url|uri|rank|position|fold|split|index|timestamp)$|^unnamed: \d+$", re.IGNORECASE
)
_LOGGER = logging.getLogger("plackett")


@dataclass(frozen=True)
class Roles:
    """The columns to read, by what they hold."""

    label: str | None
    query: str
    document: str | None
    weight: str | None
    document_weight: str | None
    position: str | None
    group: str | None
    features: tuple[str, ...]
    listed: bool
    """True if ``features`` is one column whose values are lists."""
    named: bool = False
    """True if the file notes that its feature columns have feature names."""
    categorical: tuple[str, ...] = ()
    """Features that are categories, whatever their type."""

    @property
    def columns(self) -> list[str]:
        """All columns to read."""
        weights = (self.weight, self.document_weight)
        single = (self.label, self.query, self.document, *weights, self.position, self.group)
        return [name for name in single if name is not None] + list(self.features)


def find_roles(schema: pa.Schema, options: ReadOptions) -> Roles:
    """Assign columns to roles.

    A column with a default name may also have one of its aliases (``qid``, ``relevance`` ...) if
    only one of them is present. ``document_id``, ``weight`` and ``document_weight`` have their role
    if they exist, unless ``features`` names them or the file notes that they are features.
    ``position`` and ``group_id`` often mean something else: they have a role only in files that plackett wrote.
    """
    names, note = _check_distinct(schema.names), read_note(schema)
    label, query, drop, categorical = options.label, options.query, options.drop, options.categorical
    dropped = {drop} if isinstance(drop, str) else set(drop)
    for name in sorted(dropped.difference(names)):
        raise DataError(f"there is no column {name!r} to drop; {_list_columns(names)}.")
    names = [name for name in names if name not in dropped]
    requested = _requested_features(options.features, names)
    known = {*requested, *(() if note is None else note.features)} - dropped
    others = [name for name in names if name not in known]
    single = (
        None if label is None else _find(label, LABEL, names, others, "label"),
        _find(query, QUERY, names, others, "query"),
        _find_optional(options.document, DOCUMENT, names, others, "document"),
        _find_optional(options.weight, WEIGHT, names, others, "weight"),
        _find_optional(None, DOCUMENT_WEIGHT, names, others, "document_weight"),
        POSITION if note is not None and POSITION in others else None,
        GROUP if note is not None and GROUP in others and query != GROUP else None,
    )
    taken = dict.fromkeys(requested, "a feature")
    kinds = ("label", "query", "document", "weight", "document weight", "position", "group")
    for role, column in zip(kinds, single, strict=True):
        if column in taken:
            raise UsageError(f"column {column!r} cannot be both {taken[column]} and {role}.")
        if column is not None:
            taken[column] = role
    # In data read without labels, the column of labels must not become a feature.
    labels = {LABEL, *(_ALIASES[LABEL] if label is None else ())}
    assigned = labels.union(dropped, (name for name in single if name))
    columns = requested or _remaining_features(schema, known.difference(single), assigned)
    if not columns and (note is None or note.features):
        raise DataError(f"has no features; {_list_columns(names)}.")
    listed = len(columns) == 1 and _is_list(schema.field(columns[0]).type)
    chosen = (categorical,) if isinstance(categorical, str) else tuple(categorical)
    for name in chosen:
        if name not in columns or listed:
            raise DataError(f"there is no feature column {name!r} to take as categories; {_list_columns(names)}.")
    return Roles(*single, tuple(columns), listed, note is not None and note.named, chosen)


def check_types(schema: pa.Schema, roles: Roles) -> None:
    """Raise DataError for a file that lacks a column, or whose columns have types that cannot be read."""
    names = set(_check_distinct(schema.names))
    for name in roles.columns:
        if name not in names:
            raise DataError(f"there is no column {name!r}, which other files have.")
    for number in (roles.label, roles.weight, roles.document_weight, roles.position):
        if number is not None and not is_numeric(schema.field(number).type):
            kind = schema.field(number).type
            raise DataError(f"column {number!r} must be numbers, got {kind}.")
    for name in roles.features:
        kind = schema.field(name).type
        if roles.listed and not _is_list(kind):
            raise DataError(f"column {name!r} must be lists of numbers, got {kind}.")
        if name in roles.categorical and not pa.types.is_nested(kind):
            continue
        if not (roles.listed or is_numeric(kind) or is_category(kind)):
            parts = f"column {name!r} holds {kind}, and features are numbers; take it as categories with "
            more = Parameter("categorical"), ", leave it out with ", Parameter("drop"), ", or name the features with "
            raise DataError(Message(parts, *more, Parameter("features"), "."))


@dataclass(frozen=True)
class FeatureNote:
    """Which columns of a file that plackett wrote are features; others have default names."""

    features: tuple[str, ...]
    named: bool
    """False if the data set has no feature names; those of the columns are then generated."""

    def metadata(self) -> dict[bytes, bytes]:
        """The note as metadata of a schema."""
        return {_METADATA_KEY: json.dumps(asdict(self)).encode()}


def read_note(schema: pa.Schema) -> FeatureNote | None:
    """The note in a schema; None for files of other programs."""
    text = (schema.metadata or {}).get(_METADATA_KEY)
    if text is None:
        return None
    try:
        content = json.loads(text)
        features, named = content["features"], content["named"]
        is_text = isinstance(features, list) and all(isinstance(name, str) for name in features)
        if not (is_text and isinstance(named, bool)):
            raise TypeError("features must be a list of texts, and named true or false")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(
            "the metadata of the schema that tells which columns are features is damaged; write the file again."
        ) from error
    return FeatureNote(tuple(features), named)


def refuse_other_roles(schema: pa.Schema, first: pa.Schema, columns: Sequence[str]) -> None:
    """Raise DataError for a file in which a column has another role than in the first file."""
    note, expected = read_note(schema), read_note(first)
    if note is None or expected is None:
        return
    features = set(note.features) ^ set(expected.features)
    for name in columns:
        if name in features:
            here, there = ("a", "no") if name in note.features else ("no", "a")
            raise DataError(
                f"column {name!r} is {here} feature here, and {there} feature in the first file; "
                "write all files with the same columns."
            )


def is_numeric(kind: pa.DataType) -> bool:
    """Whether a column of this type can be a feature; in a column of nulls all are missing."""
    if pa.types.is_dictionary(kind):
        return is_numeric(kind.value_type)
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
    return any(test(kind) for test in tests)


def is_category(kind: pa.DataType) -> bool:
    """Whether a column of this type holds categories: text with a dictionary of its values."""
    if not pa.types.is_dictionary(kind):
        return False
    return pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type)


def say_columns(roles: Roles, schema: pa.Schema) -> None:
    """Log which columns are used; warn of features whose names suggest another role."""
    if read_note(schema) is not None:
        return  # the file states which columns are features
    odd = [name for name in roles.features if _NOT_A_FEATURE.search(name)]
    others = {"label": roles.label, "query": roles.query, "document": roles.document}
    taken = ", ".join(f"{role} {name!r}" for role, name in others.items() if name is not None)
    shown = _list_names(roles.features)
    plural = "" if len(roles.features) == 1 else "s"
    _LOGGER.info("took %s, and %d feature%s: %s", taken, len(roles.features), plural, shown)
    if odd and not roles.listed:
        warnings.warn(
            f"{_list_names(odd)} {'is' if len(odd) == 1 else 'are'} taken as "
            f"{'a feature' if len(odd) == 1 else 'features'}; name the features with features=, or "
            "leave columns out with drop=.",
            DataWarning,
            stacklevel=6,
        )


def _is_list(kind: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests) and is_numeric(kind.value_type)


def _requested_features(features: str | Sequence[str] | None, names: Sequence[str]) -> list[str]:
    if features is None:
        return []
    requested = [features] if isinstance(features, str) else list(features)
    if not requested:
        raise UsageError("features= names no column; leave it out to use all remaining columns.")
    for name in requested:
        if name not in names:
            raise DataError(f"there is no feature column {name!r}; {_list_columns(names)}.")
    if duplicates := _find_duplicates(requested):
        raise UsageError(f"features= names column {duplicates[0]!r} more than once.")
    return requested


def _remaining_features(schema: pa.Schema, noted: Set[str], assigned: Set[str]) -> list[str]:
    """Features by default: the columns that the file notes, and those without another role."""
    names = [name for name in schema.names if name in noted or name not in assigned]
    if FEATURES in names and FEATURES not in noted and _is_list(schema.field(FEATURES).type):
        return [FEATURES]
    # The index of a pandas table is not a feature.
    return [name for name in names if name in noted or not name.startswith("__index_level_")]


def _find(name: str, default: str, names: Sequence[str], others: Sequence[str], option: str) -> str:
    """Find a column by name; the default name may also be one of its aliases among ``others``."""
    if name in names:
        return name
    aliases = _ALIASES[default] if name == default else ()
    candidates = [alias for alias in aliases if alias in others]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        others = f", and {len(candidates)} that could be it: {', '.join(map(repr, candidates))}"
    else:
        others = (f" (nor {', '.join(map(repr, aliases))})" if aliases else "") + f"; {_list_columns(names)}"
    raise DataError(Message(f"there is no column {name!r}{others}; choose with ", Parameter(option), "."))


def _find_optional(
    name: str | None, default: str, names: Sequence[str], others: Sequence[str], option: str
) -> str | None:
    if name is not None:
        return _find(name, default, names, others, option)
    present = any(alias in others for alias in (default, *_ALIASES[default]))
    return _find(default, default, others, others, option) if present else None


def _check_distinct(names: list[str]) -> list[str]:
    if duplicates := _find_duplicates(names):
        raise DataError(f"column {duplicates[0]!r} occurs more than once.")
    return names


def _find_duplicates(names: Sequence[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _list_columns(names: Sequence[str]) -> str:
    return f"the columns are {_list_names(names)}"


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return f"{', '.join(map(repr, names[:_MAX_NAMED]))}{more}"
