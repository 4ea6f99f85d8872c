"""A thread that renews the claims of a process while it works."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from plackett.base.errors import StoreError
from plackett.experiments.store.store import RunStore

if TYPE_CHECKING:
    from typing_extensions import Self


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
