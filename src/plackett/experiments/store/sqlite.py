"""SQLite in WAL mode: one file, several processes of one machine, durable at every commit.

In WAL mode a commit appends to a log, and ``synchronous=FULL`` waits until the disk has it: a
process killed at any moment, or a machine that loses power, leaves every finished transaction and
no half of one. The log needs memory shared between processes, so the file must be on a local disk;
teams on several machines use PostgreSQL.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from plackett.base.errors import StoreError
from plackett.experiments.store.database import Database, Result

_PATIENCE = 60.0
"""Seconds to wait for another process that writes."""
_PAUSE = 0.05

_KEPT = "Finished trials are kept"
_WRITEABLE = "choose a folder in which you may write"
# By what SQLite says: the numbers of its errors are not in Python's module before 3.11.
_REASONS = {
    "disk is full": f"the disk is full. {_KEPT}; free some space and run the same again.",
    "readonly database": f"cannot be written; {_WRITEABLE}.",
    "unable to open": f"cannot be opened for writing; {_WRITEABLE}.",
    "locked": f"another process has been writing for {_PATIENCE:.0f} seconds. {_KEPT}; run the "
    "same again.",
    "not a database": "is not a run store; name another file, or move this one away.",
    "malformed": "is damaged; move it away or restore a copy, and run the same again.",
    "disk I/O": f"the disk does not take what is written to it. {_KEPT}.",
}


class SQLite(Database):
    """A connection to a file, which is made if it is not there."""

    blob, real = "BLOB", "REAL"
    now = "((julianday('now') - 2440587.5) * 86400.0)"

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(self.place, f"cannot be made: {error.strerror}.") from error
        self._connection = self._spoken(
            # No thread of ours shares a connection, but one may close what another one opened.
            lambda: sqlite3.connect(
                path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
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
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                self._connection.execute(statement)
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise self._error(error) from error
                time.sleep(_PAUSE)
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
        return StoreError(self.place, reason)
