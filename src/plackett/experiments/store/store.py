"""Finished trials, kept where no crash can reach them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from plackett.base.errors import StoreError
from plackett.base.ragged import Values
from plackett.experiments.store import claims
from plackett.experiments.store.database import Database
from plackett.experiments.store.identity import Identity
from plackett.experiments.store.opening import open_database
from plackett.experiments.store.outcome import Outcome, from_blob, to_blob
from plackett.experiments.store.schema import prepare

if TYPE_CHECKING:
    from typing_extensions import Self


_LOOKED_UP = 500  # arguments of one statement; SQLite allows 999 at least


class RunStore:
    """Finished trials by their identity.

    A trial is written in one transaction and is durable when :meth:`finish` returns. Several
    processes may use one store; :meth:`claim` divides the work among them.

    Parameters
    ----------
    place
        A file (SQLite), ``sqlite:///FILE``, or ``postgresql://USER@HOST/DATABASE``.
    lease
        Seconds that a claim holds unless it is renewed.
    """

    def __init__(self, place: str | os.PathLike[str], *, lease: float = claims.LEASE) -> None:
        self.url = os.fspath(place)
        self.lease = lease
        self.owner = claims.new_owner()
        self._database: Database = open_database(place)
        try:
            prepare(self._database)
        except BaseException:
            self._database.close()
            raise

    @property
    def place(self) -> str:
        """Where it is, for people; without a password."""
        return self._database.place

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
        try:
            return Outcome(
                {metric: from_blob(numbers) for metric, numbers in values},
                from_blob(scores),
                float(seconds),
                json.loads(curves),
            )
        except ValueError as error:
            raise StoreError(
                self.place, f"the trial {identity.digest[:12]} is damaged; restore a copy."
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
