"""The run store: finished trials by what determines their results.

Two trials with the same :class:`Identity` give the same result, so one of them need not be run.
Everything that changes a result is part of it: the data, the system with all its settings, the
seed, the split, the metric for selection, and the code. Everything else is left out: machine, folder,
metrics that are computed from the scores afterwards, and threads, which change at most the last bits of
nets, of CatBoost, XGBoost and quantized trees.

The tables:

``trial``
    One row per finished trial; its digest is the primary key, so no trial can count twice.
``per_list``
    The values of a metric on the test lists of a trial.
``importance``
    The share of each feature in the model of a trial.
``checksum``
    The SHA-256 of each of these, checked when a trial is read.
``claim``
    Trials that a process is running, and when its claim expires.
``about``
    The version of this schema.

A claim says which process is running which trial, so that no two run the same one. It is a lease: it holds for some
seconds, and its owner renews it while it works (:class:`Heartbeat`). The claim of a process that died expires and
another process takes the trial. If a process was only suspended and wakes up after that, both finish; the second
result, which is the same, is not written.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import StoreError, UsageError
from plackett.base.ragged import Scores, Values
from plackett.distributed.driver_process import Closing
from plackett.distributed.local_pool import is_running
from plackett.experiments.database import Database, PostgreSQL, SQLite


@dataclass(frozen=True)
class Identity:
    """What determines the result of a trial, as data that can be written as JSON."""

    data: str  # fingerprint of the data that the protocol divides
    system: str  # name of the system, for display only; its settings determine the result
    settings: Mapping[str, Any]  # class and all parameters of the ranker
    seed: int
    part: str  # the split, as text that determines it
    metric: str  # the metric by which the model is selected
    code: str
    libraries: Mapping[str, str] = field(default_factory=dict)  # versions of the libraries that the ranker uses

    @cached_property
    def digest(self) -> str:
        """64 hexadecimal digits; the same in every process and on every machine."""
        # A renamed system is still the same system.
        content = {key: value for key, value in self.to_dict().items() if key != "system"}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)


def open_database(location: str | os.PathLike[str]) -> Database:
    """Open the database at a path or ``sqlite:///path`` or ``postgresql://user@host/name``."""
    text = os.fspath(location)
    scheme, sign, rest = text.partition("://")
    if not sign:
        return SQLite(Path(text))
    if scheme in ("postgresql", "postgres"):
        return PostgreSQL(text)
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        return SQLite(Path(rest[1:]))
    raise UsageError(f"a run store is a file, sqlite:///FILE or postgresql://USER@HOST/DATABASE, got {text!r}.")


_STORED = np.dtype("<f8")  # eight bytes per number, the same on every machine

Curves = Mapping[str, Mapping[str, Sequence[float]]]
"""Mean of a metric after each training step, by part of the data and metric."""


@dataclass(frozen=True)
class Outcome:
    """The result of one trial on its test lists."""

    values: Mapping[str, Values]  # by metric: one value per list, NaN where the metric drops the list
    scores: Scores  # one per document; other metrics can be computed from them without training again
    seconds: float
    curves: Curves = field(default_factory=dict)
    """Learning curves by part of the data; of linear models, values by penalty."""
    importance: Values | None = None  # share of each feature in the model, for trees and linear models


def to_blob(numbers: NDArray[np.float64]) -> bytes:
    """Encode numbers as bytes."""
    return np.ascontiguousarray(numbers, dtype=_STORED).tobytes()


def from_blob(blob: bytes) -> NDArray[np.float64]:
    """Decode the bytes of :func:`to_blob`."""
    return np.frombuffer(blob, dtype=_STORED).astype(np.float64)


VERSION = 1

_TABLES = (
    "CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS trial (
        digest TEXT PRIMARY KEY,
        identity TEXT NOT NULL,
        system TEXT NOT NULL,
        data TEXT NOT NULL,
        seconds {real} NOT NULL,
        curves TEXT NOT NULL,
        scores {blob} NOT NULL,
        owner TEXT NOT NULL,
        finished {real} NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS per_list (
        digest TEXT NOT NULL REFERENCES trial (digest),
        metric TEXT NOT NULL,
        numbers {blob} NOT NULL,
        PRIMARY KEY (digest, metric))""",
    # Stores made before this table was added get it when they are opened.
    """CREATE TABLE IF NOT EXISTS importance (
        digest TEXT PRIMARY KEY REFERENCES trial (digest),
        numbers {blob} NOT NULL)""",
    # SHA-256 of what get returns: of the trial itself, of its importance and of each metric.
    """CREATE TABLE IF NOT EXISTS checksum (
        digest TEXT NOT NULL REFERENCES trial (digest),
        item TEXT NOT NULL,
        sha256 TEXT NOT NULL,
        PRIMARY KEY (digest, item))""",
    """CREATE TABLE IF NOT EXISTS claim (
        digest TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        expires {real} NOT NULL)""",
)


def create_tables(database: Database) -> None:
    """Create the tables if they do not exist; StoreError if they are of another version."""

    def create() -> str:
        for table in _TABLES:
            database.execute(table.format(blob=database.blob, real=database.real))
        database.execute(
            "INSERT INTO about (name, value) VALUES ('schema', ?) ON CONFLICT (name) DO NOTHING", (str(VERSION),)
        )
        ((version,),) = database.execute("SELECT value FROM about WHERE name = 'schema'")
        return str(version)

    version = database.atomically(create, alone=True)
    if version != str(VERSION):
        raise StoreError(
            database.location,
            f"was written by another version of plackett (schema {version}, this one reads schema "
            f"{VERSION}); use that version, or another store.",
        )


_TRIAL, _IMPORTANCE, _METRIC = "trial", "importance", "metric:"


def _sum_of(values: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for value in values:
        content = bytes(value) if isinstance(value, (bytes, memoryview)) else str(value).encode()
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


LEASE = 60.0  # seconds until a claim expires unless it is renewed
_MOST_ARGUMENTS = 500  # of one statement; SQLite allows at least 999


class RunStore(Closing):
    """Finished trials by their identity.

    A trial is written in one transaction and is durable when :meth:`finish` returns. Several
    processes may use one store; :meth:`claim` divides the trials among them.

    Parameters
    ----------
    location
        A file (SQLite), ``sqlite:///FILE``, or ``postgresql://USER@HOST/DATABASE``.
    lease
        Seconds until a claim expires unless it is renewed.
    """

    def __init__(self, location: str | os.PathLike[str], *, lease: float = LEASE) -> None:
        self.url = os.fspath(location)
        self.lease = lease
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._database: Database = open_database(location)
        try:
            create_tables(self._database)
        except BaseException:
            self._database.close()
            raise

    @property
    def location(self) -> str:
        """Path or URL for messages, without a password."""
        return self._database.location

    def claim(self, identity: Identity) -> bool:
        """Claim a trial to run it; False if it is finished or claimed by another process."""
        digest, now = identity.digest, self._database.now

        def take() -> bool:
            # First the claim, then the check for a result: a process that finishes a trial removes its
            # claim in the same transaction, so the next one to get the claim sees the result.
            self._database.execute(
                f"""INSERT INTO claim (digest, owner, expires) VALUES (?, ?, {now} + ?)
                ON CONFLICT (digest) DO UPDATE SET owner = excluded.owner, expires = excluded.expires
                WHERE claim.expires < {now} OR claim.owner = excluded.owner""",
                (digest, self.owner, self.lease),
            )
            ((holder,),) = self._database.execute("SELECT owner FROM claim WHERE digest = ?", (digest,))
            if holder == self.owner and self._is_finished(digest):
                self._release(digest, self.owner)
                return False
            return bool(holder == self.owner)

        return self._database.atomically(take)

    def renew(self, digests: Iterable[str], *, owner: str) -> None:
        """Extend the claims of an owner on these trials."""
        for digest in digests:
            self._database.execute(
                f"UPDATE claim SET expires = {self._database.now} + ? WHERE digest = ? AND owner = ?",
                (self.lease, digest, owner),
            )

    def release(self, identities: Iterable[Identity]) -> None:
        """Give up the claims on trials that were not finished."""
        for identity in identities:
            self._release(identity.digest, self.owner)

    def _release(self, digest: str, owner: str) -> None:
        self._database.execute("DELETE FROM claim WHERE digest = ? AND owner = ?", (digest, owner))

    def release_dead(self) -> None:
        """Delete the claims of processes of this machine that have ended."""
        for digest, owner in self.held().items():
            host, _, process = owner.rpartition(":")[0].rpartition(":")
            if host == socket.gethostname() and process.isdigit() and not is_running(int(process)):
                self._release(digest, owner)

    def held(self) -> dict[str, str]:
        """The owner of each claimed trial, by digest."""
        return dict(self._database.execute(f"SELECT digest, owner FROM claim WHERE expires >= {self._database.now}"))

    def _is_finished(self, digest: str) -> bool:
        return bool(self._database.execute("SELECT 1 FROM trial WHERE digest = ?", (digest,)))

    def finish(self, identity: Identity, outcome: Outcome) -> None:
        """Save a finished trial; one that is already saved stays as it is."""
        row = (
            identity.digest,
            json.dumps(identity.to_dict(), sort_keys=True),
            identity.system,
            identity.data,
            outcome.seconds,
            json.dumps(outcome.curves),
            to_blob(outcome.scores),
            self.owner,
        )

        def write() -> None:
            self._release(identity.digest, self.owner)
            if self._is_finished(identity.digest):
                return
            self._database.execute(
                "INSERT INTO trial (digest, identity, system, data, seconds, curves, scores, owner, finished) VALUES "
                f"(?, ?, ?, ?, ?, ?, ?, ?, {self._database.now}) ON CONFLICT (digest) DO NOTHING",
                row,
            )
            self._write_sum(identity.digest, _TRIAL, *row[4:7])
            self._write_values(identity.digest, outcome.values)
            if outcome.importance is not None:
                blob = to_blob(outcome.importance)
                self._write_sum(identity.digest, _IMPORTANCE, blob)
                self._insert("importance", digest=identity.digest, numbers=blob)

        self._database.atomically(write)

    def add_values(self, identity: Identity, values: Mapping[str, Values]) -> None:
        """Add values of further metrics to a finished trial."""
        self._database.atomically(lambda: self._write_values(identity.digest, values))

    def _write_values(self, digest: str, values: Mapping[str, Values]) -> None:
        saved = dict(self._database.execute("SELECT metric, 1 FROM per_list WHERE digest = ?", (digest,)))
        for metric in [name for name in values if name not in saved]:
            blob = to_blob(values[metric])
            self._write_sum(digest, _METRIC + metric, blob)
            self._insert("per_list", digest=digest, metric=metric, numbers=blob)

    def _write_sum(self, digest: str, item: str, *values: Any) -> None:
        self._insert("checksum", digest=digest, item=item, sha256=_sum_of(values))

    def _insert(self, table: str, **row: Any) -> None:
        """Insert a row unless there is one of the same key."""
        marks = ", ".join("?" * len(row))
        statement = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks}) ON CONFLICT DO NOTHING"
        self._database.execute(statement, tuple(row.values()))

    def _check_sums(self, identity: Identity, items: Mapping[str, tuple[Any, ...]]) -> None:
        """Raise StoreError if a value is not what was written; older trials have no checksums."""
        sums = self._database.execute("SELECT item, sha256 FROM checksum WHERE digest = ?", (identity.digest,))
        for item, expected in sums:
            if item not in items or _sum_of(items[item]) != expected:
                what = item.removeprefix(_METRIC)
                raise StoreError(
                    self.location,
                    f"the trial {identity.digest[:12]} of {identity.system} is damaged: the "
                    f"checksum of {what!r} differs; restore a copy, or use another store.",
                )

    def get(self, identity: Identity) -> Outcome | None:
        """The outcome of a trial; None if it is not finished."""
        rows = self._database.execute("SELECT seconds, curves, scores FROM trial WHERE digest = ?", (identity.digest,))
        if not rows:
            return None
        ((seconds, curves, scores),) = rows
        values = self._database.execute(
            "SELECT metric, numbers FROM per_list WHERE digest = ? ORDER BY metric", (identity.digest,)
        )
        importance = self._database.execute("SELECT numbers FROM importance WHERE digest = ?", (identity.digest,))
        self._check_sums(
            identity,
            {_TRIAL: (seconds, curves, scores)}
            | {_METRIC + metric: (numbers,) for metric, numbers in values}
            | ({_IMPORTANCE: importance[0]} if importance else {}),
        )
        try:
            return Outcome(
                {metric: from_blob(numbers) for metric, numbers in values},
                from_blob(scores),
                float(seconds),
                json.loads(curves),
                from_blob(importance[0][0]) if importance else None,
            )
        except ValueError as error:
            raise StoreError(self.location, f"the trial {identity.digest[:12]} is damaged; restore a copy.") from error

    def finished(self, identities: Iterable[Identity]) -> dict[str, float]:
        """Digests of the finished ones, with their seconds of training."""
        digests = [identity.digest for identity in identities]
        seconds: dict[str, float] = {}
        for start in range(0, len(digests), _MOST_ARGUMENTS):
            some = digests[start : start + _MOST_ARGUMENTS]
            marks = ", ".join("?" * len(some))
            seconds |= dict(
                self._database.execute(f"SELECT digest, seconds FROM trial WHERE digest IN ({marks})", some)
            )
        return seconds

    def __len__(self) -> int:
        ((count,),) = self._database.execute("SELECT count(*) FROM trial")
        return int(count)

    def identities(self) -> list[dict[str, Any]]:
        """Identities of all finished trials, in the order in which they were finished."""
        rows = self._database.execute("SELECT identity FROM trial ORDER BY finished, digest")
        return [json.loads(text) for (text,) in rows]

    def close(self) -> None:
        """Close the connection."""
        self._database.close()


_BEATS = 3  # renewals per lease, so that one may fail without the claim being lost


class Heartbeat:
    """A thread that renews claims until they are dropped or the ``with`` block ends. It opens its own connections."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._digests: set[str] = set()
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="heartbeat", daemon=True)

    def add(self, digest: str) -> None:
        """Renew the claim on this trial from now on."""
        with self._lock:
            self._digests.add(digest)

    def drop(self, digest: str) -> None:
        """Stop renewing the claim on this trial."""
        with self._lock:
            self._digests.discard(digest)

    def _renew(self) -> None:
        while not self._done.wait(self._store.lease / _BEATS):
            with self._lock:
                digests = sorted(self._digests)
            # A failed renewal is tried again next time. If all fail, the claim expires, and at
            # worst a trial is run twice.
            with suppress(StoreError), RunStore(self._store.url, lease=self._store.lease) as store:
                store.renew(digests, owner=self._store.owner)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
