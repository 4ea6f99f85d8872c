"""The databases of a run store: SQLite for one machine, PostgreSQL for teams.

Statements are written once, in the SQL that both share, with ``?`` for arguments; class attributes
hold the words in which they differ. A statement outside of :meth:`Database.atomically` is a
transaction of its own.

SQLite runs in WAL mode with ``synchronous=FULL``: a commit appends to a log and waits until it is
on disk. A process that is killed, or a machine that loses power, leaves every finished transaction
and no half of one. The log needs memory that processes share, so the file must be on a local disk.

With PostgreSQL, a lost connection (a server that restarts, a network that fails) is made again and
the statement or transaction is repeated: every operation of the store has the same effect if it is
done twice.

A claim says which process is running which trial, so that no two run the same one. It is a lease: it holds for some
seconds, and its owner renews it while it works (:class:`~plackett.experiments.store.store.Heartbeat`). The claim of a
process that died expires and another process takes the trial. If a process was only suspended and wakes up after
that, both finish; the second result, which is the same, is not written.
"""

import os
import re
import shutil
import socket
import sqlite3
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from plackett.base.errors import StoreError, require
from plackett.distributed.local_pool import is_running

Result = TypeVar("Result")


class Database(ABC):
    """A connection; must not be shared by threads or processes."""

    blob: ClassVar[str]
    """Column type of bytes."""
    real: ClassVar[str]
    """Column type of double-precision numbers."""
    now: ClassVar[str]
    """Expression for the seconds since 1970 by the clock of the database."""

    location: str
    """Path or URL for messages, without a password."""

    @abstractmethod
    def execute(self, statement: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows; StoreError if the database refuses."""

    @abstractmethod
    def atomically(self, work: Callable[[], Result], *, alone: bool = False) -> Result:
        """Execute all statements of ``work`` in one durable transaction.

        ``work`` is called again if the connection is lost; doing it twice must have the effect of once. ``alone`` locks
        out other processes that would create the tables.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


_SQLITE_SECONDS = 60.0
"""How long to wait for another process that writes."""
_SQLITE_PAUSE = 0.05
_SQLITE_SPACE = 1 << 16
"""Bytes that a connection takes on disk at least."""

_KEPT = "Finished trials are kept"
_WRITABLE = "choose a folder that is writable"
# By message: Python has the numbers of SQLite's errors only from 3.11 on.
_REASONS = {
    "disk is full": f"the disk is full. {_KEPT}; free some space and run the same again.",
    "readonly database": f"is read-only; {_WRITABLE}.",
    "unable to open": f"cannot be opened for writing; {_WRITABLE}.",
    "locked": f"another process has been writing for {_SQLITE_SECONDS:.0f} seconds. {_KEPT}; run the same again.",
    "not a database": "is not a run store; use another file.",
    "malformed": "is damaged; move it away or restore a copy, and run the same again.",
    "disk I/O": f"writing to the disk failed. {_KEPT}.",
}


class SQLite(Database):
    """A connection to a file, which is created if it does not exist."""

    blob, real = "BLOB", "REAL"
    now = "((julianday('now') - 2440587.5) * 86400.0)"

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
        return self._translate_errors(lambda: self._connection.execute(statement, arguments).fetchall())

    def atomically(self, work: Callable[[], Result], *, alone: bool = False) -> Result:  # noqa: ARG002 - a writer always is
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
        with suppress(sqlite3.Error):
            self._connection.close()

    def _execute_when_unlocked(self, statement: str) -> None:
        """Execute a statement that does not wait for locks by itself."""
        end = time.monotonic() + _SQLITE_SECONDS
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

    def _translate_errors(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except sqlite3.Error as error:
            raise self._error(error) from error

    def _error(self, error: sqlite3.Error) -> StoreError:
        message = str(error)
        if "disk I/O" in message and shutil.disk_usage(Path(self.location).parent).free < _SQLITE_SPACE:
            message = "disk is full"  # which SQLite says of its data, but not of its shared memory
        reason = next((text for key, text in _REASONS.items() if key in message), f"{message}.")
        return StoreError(self.location, reason)


_LOCK = 7_083_017_250_936_481_236  # any number that other programs are unlikely to use
_POSTGRESQL_SECONDS = 120.0
"""How long to wait for a server that does not answer."""
_POSTGRESQL_PAUSE = 1.0


class PostgreSQL(Database):
    """A connection to a server."""

    blob, real = "BYTEA", "DOUBLE PRECISION"
    now = "extract(epoch from clock_timestamp())::double precision"

    def __init__(self, url: str, *, patience: float = _POSTGRESQL_SECONDS) -> None:
        self.location = without_password(url)
        self._url = url
        self._patience = patience
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
        message = " ".join(str(error).split()) or type(error).__name__
        return StoreError(self.location, f"the server says: {message}. Finished trials are kept.")


def without_password(url: str) -> str:
    """Remove the password from a URL.

    >>> without_password("postgresql://ann:secret@db/runs")
    'postgresql://ann@db/runs'
    """
    hidden = re.sub(r"^(\w+://[^:/@]*):[^@]*@", r"\1@", url)
    return re.sub(r"([?&]password=)[^&]*", r"\1...", hidden)


LEASE = 60.0
"""Seconds until a claim expires unless it is renewed."""


def new_owner() -> str:
    """A unique name for this process, with its host and process id."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


def is_dead(owner: str) -> bool:
    """Whether the owner was a process of this machine that has ended."""
    host, _, process = owner.rpartition(":")[0].rpartition(":")
    return host == socket.gethostname() and process.isdigit() and not is_running(int(process))


def claim(database: Database, digest: str, owner: str, lease: float) -> bool:
    """Claim a trial that is neither finished nor claimed by another; returns whether it worked."""

    def take() -> bool:
        # First the claim, then the check for a result: a process that finishes a trial removes its
        # claim in the same transaction, so the next one to get the claim sees the result.
        database.execute(
            f"""INSERT INTO claim (digest, owner, expires) VALUES (?, ?, {database.now} + ?)
            ON CONFLICT (digest) DO UPDATE SET owner = excluded.owner, expires = excluded.expires
            WHERE claim.expires < {database.now} OR claim.owner = excluded.owner""",
            (digest, owner, lease),
        )
        ((holder,),) = database.execute("SELECT owner FROM claim WHERE digest = ?", (digest,))
        if holder != owner:
            return False
        if database.execute("SELECT 1 FROM trial WHERE digest = ?", (digest,)):
            release(database, [digest], owner)
            return False
        return True

    return database.atomically(take)


def renew(database: Database, digests: Iterable[str], owner: str, lease: float) -> None:
    """Extend these claims by another lease, except those that others have taken over."""
    for digest in digests:
        database.execute(
            f"UPDATE claim SET expires = {database.now} + ? WHERE digest = ? AND owner = ?", (lease, digest, owner)
        )


def release(database: Database, digests: Iterable[str], owner: str) -> None:
    """Delete claims."""
    for digest in digests:
        database.execute("DELETE FROM claim WHERE digest = ? AND owner = ?", (digest, owner))


def held(database: Database) -> dict[str, str]:
    """The owner of each claim that has not expired."""
    rows = database.execute(f"SELECT digest, owner FROM claim WHERE expires >= {database.now}")
    return dict(rows)
