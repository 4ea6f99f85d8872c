"""What a file of ours says of its columns, so that names are not guessed from when it is read.

The note is a field of the schema's metadata. Any name can be that of a feature: without the note, a
feature ``weight`` would be read as the weights of lists.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa

from plackett.base.errors import DataError

_KEY = b"plackett"


@dataclass(frozen=True)
class RoleNote:
    """The columns that are features when the file is written; others have their default names."""

    features: tuple[str, ...]
    named: bool
    """False if the data set has no feature names, so that those of the columns are made up."""

    def metadata(self) -> dict[bytes, bytes]:
        """The note as metadata of a schema."""
        return {_KEY: json.dumps(asdict(self)).encode()}


def read_note(schema: pa.Schema) -> RoleNote | None:
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
    return RoleNote(tuple(features), named)


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
