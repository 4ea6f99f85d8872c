"""PostgreSQL, for teams: the store of several machines.

A connection that breaks (a server that restarts, a network that fails) is made anew and the
statement or transaction is done again: everything the store does can be done twice with the effect
of once.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from plackett.base.errors import StoreError
from plackett.experiments.store.database import Database, Result

_LOCK = 7_083_017_250_936_481_236  # any number that other programs do not use
_PATIENCE = 120.0
"""Seconds to wait for a server that does not answer."""
_PAUSE = 1.0


class PostgreSQL(Database):
    """A connection to a server."""

    blob, real = "BYTEA", "DOUBLE PRECISION"
    now = "extract(epoch from clock_timestamp())::double precision"

    def __init__(self, url: str, *, patience: float = _PATIENCE) -> None:
        self.place = without_password(url)
        self._url = url
        self._patience = patience
        self._inside = False
        self._connection: Any = self._connect()

    def execute(self, statement: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._again(lambda: self._once(statement, arguments))

    def atomically(self, work: Callable[[], Result], *, alone: bool = False) -> Result:
        def whole() -> Result:
            with self._connection.transaction():
                if alone:
                    self._once(f"SELECT pg_advisory_xact_lock({_LOCK})")
                self._inside = True
                try:
                    return work()
                finally:
                    self._inside = False

        return self._again(whole)

    def _once(self, statement: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(statement.replace("?", "%s"), arguments)
        return cursor.fetchall() if cursor.description else []

    def _again(self, work: Callable[[], Result]) -> Result:
        """Do the work; where the connection is lost, make another one and do it again."""
        import psycopg

        if self._inside:  # the transaction around this is what must be done again
            return work()
        end = time.monotonic() + self._patience
        while True:
            try:
                return work()
            except psycopg.Error as error:
                if not self._connection.closed or time.monotonic() > end:
                    raise self._error(error) from error
                self._reconnect(end)

    def close(self) -> None:
        self._connection.close()

    def _connect(self) -> Any:
        try:
            import psycopg
        except ImportError as error:
            raise ImportError(
                "a run store in PostgreSQL needs psycopg: pip install 'plackett[team]'"
            ) from error
        try:
            return psycopg.connect(self._url, autocommit=True)
        except psycopg.Error as error:
            raise self._error(error) from error

    def _reconnect(self, end: float) -> None:
        self._connection.close()
        while True:
            try:
                self._connection = self._connect()
                return
            except StoreError:
                if time.monotonic() > end:
                    raise
                time.sleep(_PAUSE)

    def _error(self, error: Exception) -> StoreError:
        said = " ".join(str(error).split()) or type(error).__name__
        return StoreError(self.place, f"the server says: {said}. Finished trials are kept.")


def without_password(url: str) -> str:
    """A URL as it may be shown.

    >>> without_password("postgresql://ann:secret@db/runs")
    'postgresql://ann@db/runs'
    """
    hidden = re.sub(r"^(\w+://[^:/@]*):[^@]*@", r"\1@", url)
    return re.sub(r"([?&]password=)[^&]*", r"\1...", hidden)
