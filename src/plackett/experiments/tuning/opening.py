"""Optuna's storage in the file or server that a run store is in."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from plackett.experiments.store import Identity, RunStore, StoreError

_PATIENCE = 60.0
"""Seconds to wait for another process that writes, as in the run store."""
_PAUSE = 0.05
_TABLES = Identity("", "tables of searches", {}, seed=0, part="tables", metric="", code="")


def need_optuna() -> None:
    """Say what to install where Optuna is not there."""
    try:
        import optuna
        import sqlalchemy  # noqa: F401
    except ImportError as error:
        raise ImportError("tuning needs Optuna: pip install 'plackett[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # we say ourselves what is being done


def open_storage(store: RunStore) -> Any:
    """Optuna's storage in the database of a run store.

    Its tables are made at the first time, and Optuna does not expect two processes to make them at
    once: a claim lets one after the other.
    """
    end = time.monotonic() + _PATIENCE
    store.release_dead()
    while not store.claim(_TABLES) and time.monotonic() < end:
        time.sleep(_PAUSE)
    try:
        return _opened(store)
    finally:
        store.release([_TABLES])


def _opened(store: RunStore) -> Any:
    from optuna.exceptions import StorageInternalError
    from optuna.storages import RDBStorage
    from sqlalchemy.exc import SQLAlchemyError

    url, arguments = _database(store.url)
    try:
        return RDBStorage(url, engine_kwargs=arguments)
    except (SQLAlchemyError, StorageInternalError, RuntimeError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise StoreError(store.place, f"cannot hold a search: {reason}") from error


def _database(text: str) -> tuple[str, dict[str, Any]]:
    scheme, sign, rest = text.partition("://")
    if sign and scheme in ("postgresql", "postgres"):
        return f"postgresql+psycopg://{rest}", {"pool_pre_ping": True}
    path = Path(rest[1:] if sign else text).absolute()
    # IMMEDIATE: a transaction that writes takes the right to write at its beginning, and waits for
    # it; one that comes to it later is refused if another process wrote in between.
    arguments = {"timeout": _PATIENCE, "isolation_level": "IMMEDIATE"}
    return f"sqlite:///{path}", {"connect_args": arguments}
