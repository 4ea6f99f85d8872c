"""The databases of a run store: SQLite for one machine, PostgreSQL for teams.

Statements are written once, in the SQL that both share, with ``?`` for arguments; class attributes hold the words in
which they differ. A statement outside of :meth:`SQLite.atomically` is a transaction of its own.

SQLite runs in WAL mode with ``synchronous=FULL``: a commit appends to a log and waits until it is
on disk. If a process is killed or a machine loses power, every finished transaction is kept and no
partial one. The log needs memory that processes share, so the file must be on a local disk.

With PostgreSQL, a lost connection (the server restarts, the network fails) is reopened and the statement or transaction
is repeated: every operation of the store has the same effect if it is done twice.
"""

import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from plackett.base.errors import StoreError, require

Result = TypeVar("Result")


_SQLITE_SECONDS = 60.0  # how long to wait for another process that writes
_SQLITE_PAUSE = 0.05
_SQLITE_SPACE = 1 << 16  # bytes that a connection takes on disk at least

_KEPT = "Finished trials are kept"
_WRITABLE = "choose a folder that is writable"
# By message, because Python has the codes of SQLite's errors only from 3.11 on.
_REASONS = {
    "disk is full": f"the disk is full. {_KEPT}; free some space and run the same again.",
    "readonly database": f"is read-only; {_WRITABLE}.",
    "unable to open": f"cannot be opened for writing; {_WRITABLE}.",
    "locked": f"another process has been writing for {_SQLITE_SECONDS:.0f} seconds. {_KEPT}; run the same again.",
    "not a database": "is not a run store; use another file.",
    "malformed": "is damaged; move it away or restore a copy, and run the same again.",
    "disk I/O": f"writing to the disk failed. {_KEPT}.",
}


class SQLite:
    """A connection to a file, which is created if it does not exist; must not be shared by threads or processes."""

    blob, real = "BLOB", "REAL"  # column types of bytes and of double-precision numbers
    now = "((julianday('now') - 2440587.5) * 86400.0)"  # seconds since 1970 by the clock of the database

    def __init__(self, path: Path) -> None:
        self.location = str(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(self.location, f"cannot be created: {error.strerror}.") from error
        self._connection = self._translate_errors(
            # Threads do not share a connection, but one may close what another one opened.
            lambda: sqlite3.connect(path, timeout=_SQLITE_SECONDS, isolation_level=None, check_same_thread=False)
        )
        try:
            self._execute_when_unlocked("PRAGMA journal_mode=WAL")
            self.execute("PRAGMA synchronous=FULL")
        except StoreError:
            self.close()
            raise

    def execute(self, statement: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows; StoreError if the database refuses."""
        return self._translate_errors(lambda: self._connection.execute(statement, arguments).fetchall())

    def atomically(self, work: Callable[[], Result], *, alone: bool = False) -> Result:  # noqa: ARG002 - a writer always is
        """Execute all statements of ``work`` in one durable transaction.

        ``work`` is called again if the connection is lost, so calling it twice must have the effect of calling it once.
        ``alone`` locks out other processes that would create the tables.
        """
        # IMMEDIATE takes the write lock at once. A transaction that reads first and writes later
        # fails, without waiting, if another one wrote in between.
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
        """Close the connection."""
        with suppress(sqlite3.Error):
            self._connection.close()

    def _execute_when_unlocked(self, statement: str) -> None:
        """Execute a statement that does not wait for locks by itself."""
        end = time.monotonic() + _SQLITE_SECONDS
        while True:
            try:
                self.execute(statement)
                return
            except StoreError as error:
                if "locked" not in str(error.__cause__) or time.monotonic() > end:
                    raise
                time.sleep(_SQLITE_PAUSE)

    def _translate_errors(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except sqlite3.Error as error:
            message = str(error)
            if "disk I/O" in message and shutil.disk_usage(Path(self.location).parent).free < _SQLITE_SPACE:
                message = "disk is full"  # SQLite reports this for its data, but not for its shared memory
            reason = next((text for key, text in _REASONS.items() if key in message), f"{message}.")
            raise StoreError(self.location, reason) from error


_LOCK = 7_083_017_250_936_481_236  # any number that other programs are unlikely to use
_POSTGRESQL_SECONDS = 120.0  # how long to wait for a server that does not answer
_POSTGRESQL_PAUSE = 1.0


class PostgreSQL:
    """A connection to a server, with the methods of :class:`SQLite`."""

    blob, real = "BYTEA", "DOUBLE PRECISION"
    now = "extract(epoch from clock_timestamp())::double precision"

    def __init__(self, url: str) -> None:
        self.location = without_password(url)
        self._url = url
        self._in_transaction = False
        self._connection: Any = self._connect()

    def execute(self, statement: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._retry(lambda: self._execute(statement, arguments))

    def atomically(self, work: Callable[[], Result], *, alone: bool = False) -> Result:
        def transaction() -> Result:
            with self._connection.transaction():
                if alone:
                    self._execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
                self._in_transaction = True
                try:
                    return work()
                finally:
                    self._in_transaction = False

        return self._retry(transaction)

    def _execute(self, statement: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(statement.replace("?", "%s"), arguments)
        return cursor.fetchall() if cursor.description else []

    def _retry(self, work: Callable[[], Result]) -> Result:
        """Call ``work``, and again after reconnecting if the connection is lost."""
        import psycopg

        if self._in_transaction:  # the whole transaction must be repeated
            return work()
        end = time.monotonic() + _POSTGRESQL_SECONDS
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
        message = " ".join(str(error).split()) or type(error).__name__
        return StoreError(self.location, f"the server says: {message}. Finished trials are kept.")


Database: TypeAlias = SQLite | PostgreSQL


def without_password(url: str) -> str:
    """Remove the password from a URL.

    >>> without_password("postgresql://ann:secret@db/runs")
    'postgresql://ann@db/runs'
    """
    hidden = re.sub(r"^(\w+://[^:/@]*):[^@]*@", r"\1@", url)
    return re.sub(r"([?&]password=)[^&]*", r"\1...", hidden)
