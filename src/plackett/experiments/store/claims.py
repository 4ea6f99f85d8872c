"""Who is at work on what, so that two processes do not run the same trial.

A claim is a lease: it holds for some seconds, and its owner renews it while at work (see
:mod:`plackett.experiments.store.heartbeat`). The claim of a process that died runs out, and
another one takes the trial. Should a process that was only asleep come back after that, both
finish, and the second result, which is the same, is not written.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterable

from plackett.experiments.store.database import Database

LEASE = 60.0
"""Seconds that a claim holds without being renewed."""


def new_owner() -> str:
    """A name for a process that no other has, with what helps to find it."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


def is_dead(owner: str) -> bool:
    """Whether the owner is known to have ended: a process of this machine that is not there."""
    host, _, rest = owner.rpartition(":")[0].rpartition(":")
    if host != socket.gethostname() or not rest.isdigit():
        return False
    try:
        os.kill(int(rest), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def claim(database: Database, digest: str, owner: str, lease: float) -> bool:
    """Take a trial that is neither finished nor held by another; whether that succeeded."""

    def take() -> bool:
        # First the claim, then the look at finished trials: who finishes removes the claim in
        # the same transaction, so whoever gets it afterwards sees the result.
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
    """Hold these claims for another lease; those that others have taken stay theirs."""
    for digest in digests:
        database.execute(
            f"UPDATE claim SET expires = {database.now} + ? WHERE digest = ? AND owner = ?",
            (lease, digest, owner),
        )


def release(database: Database, digests: Iterable[str], owner: str) -> None:
    """Give claims back."""
    for digest in digests:
        database.execute("DELETE FROM claim WHERE digest = ? AND owner = ?", (digest, owner))


def held(database: Database) -> dict[str, str]:
    """The owner of each claim that has not run out."""
    rows = database.execute(f"SELECT digest, owner FROM claim WHERE expires >= {database.now}")
    return dict(rows)
