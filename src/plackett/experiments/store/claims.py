"""Claims: which process is running which trial, so that no two run the same one.

A claim is a lease: it holds for some seconds, and its owner renews it while it works
(:class:`~plackett.experiments.store.store.Heartbeat`). The claim of a process that died expires and
another process takes the trial. If a process was only suspended and wakes up after that, both
finish; the second result, which is the same, is not written.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterable

from plackett.experiments.store.database import Database

LEASE = 60.0
"""Seconds until a claim expires unless it is renewed."""


def new_owner() -> str:
    """A unique name for this process, with its host and process id."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


def is_dead(owner: str) -> bool:
    """Whether the owner was a process of this machine that has ended."""
    host, _, process = owner.rpartition(":")[0].rpartition(":")
    return host == socket.gethostname() and process.isdigit() and not is_running(int(process))


def is_running(process: int) -> bool:
    """Whether a process with this id exists on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


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
            f"UPDATE claim SET expires = {database.now} + ? WHERE digest = ? AND owner = ?",
            (lease, digest, owner),
        )


def release(database: Database, digests: Iterable[str], owner: str) -> None:
    """Delete claims."""
    for digest in digests:
        database.execute("DELETE FROM claim WHERE digest = ? AND owner = ?", (digest, owner))


def held(database: Database) -> dict[str, str]:
    """The owner of each claim that has not expired."""
    rows = database.execute(f"SELECT digest, owner FROM claim WHERE expires >= {database.now}")
    return dict(rows)
