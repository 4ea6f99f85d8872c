"""Finished trials, kept where no crash can reach them.

What determines the result of a trial, and the name that follows from it.

Two trials with the same identity give the same result, so one of them need not be run. Whatever
changes a result is in it: the data, the system with all its settings, the seed, the part of the
protocol, what the model was chosen by, and the code. Whatever does not is left out: the number of
threads, the machine, the folder, the metrics that are computed from the scores afterwards.

Which database a path or URL means.

What a trial leaves behind, and its form in a database.

The tables of a run store.

``trial``
    One row per finished trial; its digest is the primary key, so no trial can count twice.
``per_list``
    The values of a metric for the test lists of a trial.
``claim``
    Trials that a process is at work on, and until when that is believed without a word from it.

A thread that renews the claims of a process while it works.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import StoreError, UsageError
from plackett.base.ragged import Scores, Values
from plackett.experiments.store import claims
from plackett.experiments.store.database import Database, PostgreSQL, SQLite

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class Identity:
    """What determines the result of a trial; all of it can be written as JSON."""

    data: str
    """Fingerprint of the data that the protocol divides."""
    system: str
    """Name of the system, for people; its settings are what counts."""
    settings: Mapping[str, Any]
    """Kind and all parameters of the ranker."""
    seed: int
    part: str
    """Which part of which protocol, in words that determine it."""
    metric: str
    """What the model is chosen by."""
    code: str
    """Version of the code that was run."""
    libraries: Mapping[str, str] = field(default_factory=dict)
    """Versions of the libraries that the ranker stands on."""

    @cached_property
    def digest(self) -> str:
        """64 hexadecimal digits; the same in every process and on every machine."""
        # The name of a system is for people: renamed, it is still the same system.
        decisive = {key: value for key, value in self.to_dict().items() if key != "system"}
        text = json.dumps(decisive, sort_keys=True, separators=(",", ":"), allow_nan=False)
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
    raise UsageError(
        f"a run store is a file, sqlite:///FILE or postgresql://USER@HOST/DATABASE, got {text!r}."
    )


_STORED = np.dtype("<f8")  # eight bytes per number, the same on every machine

Curves = Mapping[str, Mapping[str, Sequence[float]]]
"""For each part of the data, for each metric, its mean after each step of training."""


@dataclass(frozen=True)
class Outcome:
    """The result of one trial on its test lists."""

    values: Mapping[str, Values]
    """By metric: one value per list, NaN where the metric drops the list."""
    scores: Scores
    """One per document: any other metric follows from them without training again."""
    seconds: float
    """Time of training."""
    curves: Curves = field(default_factory=dict)
    """How the metrics rose during training, for models that have steps."""
    importance: Values | None = None
    """Share of each feature in the model, for trees and linear models."""


def to_blob(numbers: NDArray[np.float64]) -> bytes:
    """Numbers as bytes."""
    return np.ascontiguousarray(numbers, dtype=_STORED).tobytes()


def from_blob(blob: bytes) -> NDArray[np.float64]:
    """The numbers that :func:`to_blob` was given, NaN included."""
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
    """CREATE TABLE IF NOT EXISTS claim (
        digest TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        expires {real} NOT NULL)""",
)


def prepare(database: Database) -> None:
    """Make the tables if they are not there; refuse those of a later version."""

    def make() -> str:
        for table in _TABLES:
            database.execute(table.format(blob=database.blob, real=database.real))
        database.execute(
            "INSERT INTO about (name, value) VALUES ('schema', ?) ON CONFLICT (name) DO NOTHING",
            (str(VERSION),),
        )
        ((found,),) = database.execute("SELECT value FROM about WHERE name = 'schema'")
        return str(found)

    found = database.atomically(make, alone=True)
    if found != str(VERSION):
        raise StoreError(
            database.location,
            f"was written by another version of plackett (form {found}, this one reads form "
            f"{VERSION}); use that version, or another store.",
        )


_LOOKED_UP = 500  # arguments of one statement; SQLite allows 999 at least


class RunStore:
    """Finished trials by their identity.

    A trial is written in one transaction and is durable when :meth:`finish` returns. Several
    processes may use one store; :meth:`claim` divides the work among them.

    Parameters
    ----------
    location
        A file (SQLite), ``sqlite:///FILE``, or ``postgresql://USER@HOST/DATABASE``.
    lease
        Seconds that a claim holds unless it is renewed.
    """

    def __init__(self, location: str | os.PathLike[str], *, lease: float = claims.LEASE) -> None:
        self.url = os.fspath(location)
        self.lease = lease
        self.owner = claims.new_owner()
        self._database: Database = open_database(location)
        try:
            prepare(self._database)
        except BaseException:
            self._database.close()
            raise

    @property
    def location(self) -> str:
        """Where it is, for people; without a password."""
        return self._database.location

    def claim(self, identity: Identity) -> bool:
        """Take a trial to run it; False if it is finished or another process has it."""
        return claims.claim(self._database, identity.digest, self.owner, self.lease)

    def renew(self, digests: Iterable[str], *, owner: str) -> None:
        """Say that the owner is still at work on these trials."""
        claims.renew(self._database, digests, owner, self.lease)

    def release(self, identities: Iterable[Identity]) -> None:
        """Give back trials that were claimed and not finished."""
        claims.release(self._database, [each.digest for each in identities], self.owner)

    def release_dead(self) -> None:
        """Give back what processes of this machine had claimed when they were killed."""
        for digest, owner in self.held().items():
            if claims.is_dead(owner):
                claims.release(self._database, [digest], owner)

    def held(self) -> dict[str, str]:
        """The owner of each trial that is being run, by digest."""
        return claims.held(self._database)

    def finish(self, identity: Identity, outcome: Outcome) -> None:
        """Write a finished trial; one that is there already stays as it is."""
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
            self._database.execute(
                "INSERT INTO trial (digest, identity, system, data, seconds, curves, scores, owner,"
                f" finished) VALUES (?, ?, ?, ?, ?, ?, ?, ?, {self._database.now})"
                " ON CONFLICT (digest) DO NOTHING",
                row,
            )
            self._write_values(identity.digest, outcome.values)
            if outcome.importance is not None:
                self._database.execute(
                    "INSERT INTO importance (digest, numbers) VALUES (?, ?)"
                    " ON CONFLICT (digest) DO NOTHING",
                    (identity.digest, to_blob(outcome.importance)),
                )
            claims.release(self._database, [identity.digest], self.owner)

        self._database.atomically(write)

    def add_values(self, identity: Identity, values: Mapping[str, Values]) -> None:
        """Add values of further metrics, computed from the scores, to a finished trial."""
        self._database.atomically(lambda: self._write_values(identity.digest, values))

    def _write_values(self, digest: str, values: Mapping[str, Values]) -> None:
        for metric, numbers in values.items():
            self._database.execute(
                "INSERT INTO per_list (digest, metric, numbers) VALUES (?, ?, ?)"
                " ON CONFLICT (digest, metric) DO NOTHING",
                (digest, metric, to_blob(numbers)),
            )

    def get(self, identity: Identity) -> Outcome | None:
        """The outcome of a finished trial; None if there is none."""
        rows = self._database.execute(
            "SELECT seconds, curves, scores FROM trial WHERE digest = ?", (identity.digest,)
        )
        if not rows:
            return None
        ((seconds, curves, scores),) = rows
        values = self._database.execute(
            "SELECT metric, numbers FROM per_list WHERE digest = ? ORDER BY metric",
            (identity.digest,),
        )
        importance = self._database.execute(
            "SELECT numbers FROM importance WHERE digest = ?", (identity.digest,)
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
            raise StoreError(
                self.location, f"the trial {identity.digest[:12]} is damaged; restore a copy."
            ) from error

    def finished(self, identities: Iterable[Identity]) -> dict[str, float]:
        """Digests of those that are finished, with their seconds of training."""
        wanted = [identity.digest for identity in identities]
        found: dict[str, float] = {}
        for start in range(0, len(wanted), _LOOKED_UP):
            some = wanted[start : start + _LOOKED_UP]
            marks = ", ".join("?" * len(some))
            found |= dict(
                self._database.execute(
                    f"SELECT digest, seconds FROM trial WHERE digest IN ({marks})", some
                )
            )
        return found

    def __len__(self) -> int:
        ((count,),) = self._database.execute("SELECT count(*) FROM trial")
        return int(count)

    def identities(self) -> list[dict[str, Any]]:
        """What determined each finished trial, in the order in which they were finished."""
        rows = self._database.execute("SELECT identity FROM trial ORDER BY finished, digest")
        return [json.loads(text) for (text,) in rows]

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_BEATS = 3  # per lease: one may come late without the claim being lost


class Heartbeat:
    """Renews the claims it was told of, until they are dropped or the block ends.

    Parameters
    ----------
    store
        The store whose claims they are. The thread has connections of its own.
    """

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._alive: set[str] = set()
        self._guard = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def add(self, digest: str) -> None:
        """Keep the claim of this trial alive."""
        with self._guard:
            self._alive.add(digest)

    def drop(self, digest: str) -> None:
        """Let go of this trial."""
        with self._guard:
            self._alive.discard(digest)

    def _beat(self) -> None:
        while not self._done.wait(self._store.lease / _BEATS):
            with self._guard:
                digests = sorted(self._alive)
            # A renewal that fails is tried again at the next beat; if all fail, the claim runs out,
            # and the worst that follows is that a trial is run twice.
            with suppress(StoreError), RunStore(self._store.url, lease=self._store.lease) as own:
                own.renew(digests, owner=self._store.owner)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
