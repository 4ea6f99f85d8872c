"""What the store needs of a database.

Statements are written once, in the SQL that SQLite and PostgreSQL share, with ``?`` for arguments;
the words in which the two differ are fields. A statement outside of :meth:`Database.atomically`
is a transaction of its own.

SQLite in WAL mode: one file, several processes of one machine, durable at every commit.

In WAL mode a commit appends to a log, and ``synchronous=FULL`` waits until the disk has it: a
process killed at any moment, or a machine that loses power, leaves every finished transaction and
no half of one. The log needs memory shared between processes, so the file must be on a local disk;
teams on several machines use PostgreSQL.

PostgreSQL, for teams: the store of several machines.

A connection that breaks (a server that restarts, a network that fails) is made anew and the
statement or transaction is done again: everything the store does can be done twice with the effect
of once.
"""

from __future__ import annotations

import re
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from plackett.base.errors import StoreError
from plackett.base.optional import require

Result = TypeVar("Result")


class Database(ABC):
    """One connection; not to be shared by threads or processes."""

    blob: ClassVar[str]
    """Type of a column of bytes."""
    real: ClassVar[str]
    """Type of a column of double-precision numbers."""
    now: ClassVar[str]
    """Expression for the seconds since 1970 by the clock of the database, which all share."""

    location: str
    """Where it is, for messages; without a password."""

    @abstractmethod
    def execute(self, statement: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and give its rows.

        Raises
        ------
        StoreError
            If the database refuses; the text says why.
        """

    @abstractmethod
    def atomically(self, work: Callable[[], Result], *, alone: bool = False) -> Result:
        """Do all statements of ``work`` durably, or none of them.

        Parameters
        ----------
        work
            May be called again if the connection is lost on the way: what it does twice must have
            the effect of once.
        alone
            Let no other process change the tables meanwhile.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


_SQLITE_PATIENCE = 60.0
"""Seconds to wait for another process that writes."""
_SQLITE_PAUSE = 0.05

_KEPT = "Finished trials are kept"
_WRITEABLE = "choose a folder in which you may write"
# By what SQLite says: the numbers of its errors are not in Python's module before 3.11.
_REASONS = {
    "disk is full": f"the disk is full. {_KEPT}; free some space and run the same again.",
    "readonly database": f"cannot be written; {_WRITEABLE}.",
    "unable to open": f"cannot be opened for writing; {_WRITEABLE}.",
    "locked": f"another process has been writing for {_SQLITE_PATIENCE:.0f} seconds. {_KEPT}; "
    "run the same again.",
    "not a database": "is not a run store; name another file, or move this one away.",
    "malformed": "is damaged; move it away or restore a copy, and run the same again.",
    "disk I/O": f"the disk does not take what is written to it. {_KEPT}.",
}


class SQLite(Database):
    """A connection to a file, which is made if it is not there."""

    blob, real = "BLOB", "REAL"
    now = "((julianday('now') - 2440587.5) * 86400.0)"

    def __init__(self, path: Path) -> None:
        self.location = str(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(self.location, f"cannot be made: {error.strerror}.") from error
        self._connection = self._spoken(
            # No thread of ours shares a connection, but one may close what another one opened.
            lambda: sqlite3.connect(
                path, timeout=_SQLITE_PATIENCE, isolation_level=None, check_same_thread=False
            )
        )
        try:
            self._patiently("PRAGMA journal_mode=WAL")
            self.execute("PRAGMA synchronous=FULL")
        except StoreError:
            self.close()
            raise

    def execute(self, statement: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._spoken(lambda: self._connection.execute(statement, arguments).fetchall())

    def atomically(self, work: Callable[[], Result], *, alone: bool = False) -> Result:  # noqa: ARG002 - who writes is alone
        # IMMEDIATE takes the right to write at once. A transaction that begins with reading and
        # goes on with writing is refused, without waiting, if another one wrote in between.
        self.execute("BEGIN IMMEDIATE")
        try:
            result = work()
            self.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # a full disk may have rolled back already
                self._connection.execute("ROLLBACK")
            raise
        return result

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()

    def _patiently(self, statement: str) -> None:
        """Changing the journal does not wait for others by itself."""
        end = time.monotonic() + _SQLITE_PATIENCE
        while True:
            try:
                self._connection.execute(statement)
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise self._error(error) from error
                time.sleep(_SQLITE_PAUSE)
            except sqlite3.Error as error:
                raise self._error(error) from error

    def _spoken(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except sqlite3.Error as error:
            raise self._error(error) from error

    def _error(self, error: sqlite3.Error) -> StoreError:
        said = str(error)
        reason = next((text for key, text in _REASONS.items() if key in said), f"{said}.")
        return StoreError(self.location, reason)


_LOCK = 7_083_017_250_936_481_236  # any number that other programs do not use
_POSTGRESQL_PATIENCE = 120.0
"""Seconds to wait for a server that does not answer."""
_POSTGRESQL_PAUSE = 1.0


class PostgreSQL(Database):
    """A connection to a server."""

    blob, real = "BYTEA", "DOUBLE PRECISION"
    now = "extract(epoch from clock_timestamp())::double precision"

    def __init__(self, url: str, *, patience: float = _POSTGRESQL_PATIENCE) -> None:
        self.location = without_password(url)
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
        require("psycopg")
        import psycopg

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
                time.sleep(_POSTGRESQL_PAUSE)

    def _error(self, error: Exception) -> StoreError:
        said = " ".join(str(error).split()) or type(error).__name__
        return StoreError(self.location, f"the server says: {said}. Finished trials are kept.")


def without_password(url: str) -> str:
    """A URL as it may be shown.

    >>> without_password("postgresql://ann:secret@db/runs")
    'postgresql://ann@db/runs'
    """
    hidden = re.sub(r"^(\w+://[^:/@]*):[^@]*@", r"\1@", url)
    return re.sub(r"([?&]password=)[^&]*", r"\1...", hidden)
