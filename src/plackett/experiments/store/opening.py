"""Which database a path or URL means."""

from __future__ import annotations

import os
from pathlib import Path

from plackett.base.errors import UsageError
from plackett.experiments.store.database import Database
from plackett.experiments.store.postgresql import PostgreSQL
from plackett.experiments.store.sqlite import SQLite


def open_database(place: str | os.PathLike[str]) -> Database:
    """Open the database at a path or ``sqlite:///path`` or ``postgresql://user@host/name``."""
    text = os.fspath(place)
    scheme, sign, rest = text.partition("://")
    if not sign:
        return SQLite(Path(text))
    if scheme in ("postgresql", "postgres"):
        return PostgreSQL(text)
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        return SQLite(Path(rest[1:]))
    raise UsageError(
        f"a run store is a file, sqlite:///FILE or postgresql://USER@HOST/DATABASE, got {text!r}."
    )
