"""A worker's side of work that several do together."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.ragged import Values
from plackett.distributed.states import How, State

_BEAT = 1.0  # seconds between signs of life
_ADDRESS = 64  # bytes; the longest IPv6 address has 45
_TOLD = 0.2  # seconds between two messages about progress at least


@dataclass
class Peers:
    """The workers of one attempt: who this one is, and how to reach the others."""

    post: Any
    """The actor :class:`plackett.distributed.post.Post`."""
    rank: int
    size: int
    attempt: str
    """Different for each attempt, the same for all workers of one."""
    seconds: float
    """That a worker waits for the others at most."""
    _meetings: int = 0
    _told: float = 0.0
    _done: threading.Event = field(default_factory=threading.Event)

    def means(self, values: Sequence[Values], weights: Values | None) -> tuple[float, ...]:
        """Means of metrics over the lists of all workers, of which each gives its own."""
        n_lists = len(values[0])
        each = np.ones(n_lists) if weights is None else np.asarray(weights, np.float64)
        return tuple(float(mean) for mean in self._combine([each, *values], "mean"))

    def sums(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """The sum of each array over all workers."""
        return self._combine([np.ascontiguousarray(array) for array in arrays], "sum")

    def hosts(self) -> list[str]:
        """Addresses of the machines, in the order of the workers; all must ask."""
        import ray

        table = np.zeros((self.size, _ADDRESS), np.uint8)
        own = ray.util.get_node_ip_address().encode()
        table[self.rank, : len(own)] = np.frombuffer(own, np.uint8)
        (found,) = self.sums([table])
        return [bytes(row).rstrip(b"\0").decode() for row in found]

    def progress(self, text: str, done: int, total: int) -> None:
        """Tell how far the work is; the first worker speaks for all."""
        now = time.monotonic()
        if self.rank == 0 and (now - self._told >= _TOLD or done == total):
            self._told = now
            self.post.tell.remote(("progress", (text, done, total)))

    def watch(self, done: int, total: int, mean: float) -> None:
        """Tell the metric after a step."""
        if self.rank == 0:
            self.post.tell.remote(("watch", (done, total, mean)))

    def tell(self, kind: str, content: Any) -> None:
        """Leave a message, and wait until it is there."""
        import ray

        ray.get(self.post.tell.remote((kind, content)), timeout=self.seconds)

    def keep(self, step: int, files: dict[str, bytes]) -> None:
        """Hold this state for workers that may have to take up the work."""
        self.post.keep.remote((step, files))

    def latest(self) -> State | None:
        """The state to go on from; None at the start."""
        import ray

        state: State | None = ray.get(self.post.latest.remote(self.attempt), timeout=self.seconds)
        return state

    def _combine(self, arrays: list[NDArray[Any]], how: How) -> list[NDArray[Any]]:
        import ray

        self._meetings += 1
        key = (self.attempt, self._meetings)
        asked = self.post.combine.remote(key, self.rank, self.size, arrays, how)
        found: list[NDArray[Any]] = ray.get(asked, timeout=self.seconds)
        return found

    def __enter__(self) -> Peers:
        threading.Thread(target=self._beat, name="signs of life", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()

    def _beat(self) -> None:
        """Give signs of life, so that a worker that hangs can be named."""
        import ray

        name = f"worker {self.rank} (process {os.getpid()} on {ray.util.get_node_ip_address()})"
        while not self._done.wait(_BEAT):
            self.post.sign.remote(self.rank, name)
