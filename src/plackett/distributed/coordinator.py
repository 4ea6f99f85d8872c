"""A worker's side of work that several do together.

Words that the post and those who write to it share.

What workers say to each other and to the process that started them.

One actor per piece of work. It collects messages, holds the latest state of the work, from which
replaced workers go on, and adds up what workers send: each waits until all have sent theirs, and
all get the same result, summed in the order of their ranks whatever the order of arrival.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plackett.base.ragged import Values

How: TypeAlias = Literal["sum", "mean"]
"""How what several workers send becomes one."""
TrainingState: TypeAlias = tuple[int, dict[str, bytes]]
"""A number of steps, and the files that describe the work after them."""


_BEAT = 1.0  # seconds between signs of life
_ADDRESS = 64  # bytes; the longest IPv6 address has 45
_TOLD = 0.2  # seconds between two messages about progress at least


@dataclass
class WorkerGroup:
    """The workers of one attempt: who this one is, and how to reach the others."""

    post: Any
    """The actor :class:`plackett.distributed.coordinator.Post`."""
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

    def latest(self) -> TrainingState | None:
        """The state to go on from; None at the start."""
        import ray

        state: TrainingState | None = ray.get(
            self.post.latest.remote(self.attempt), timeout=self.seconds
        )
        return state

    def _combine(self, arrays: list[NDArray[Any]], how: How) -> list[NDArray[Any]]:
        import ray

        self._meetings += 1
        key = (self.attempt, self._meetings)
        asked = self.post.combine.remote(key, self.rank, self.size, arrays, how)
        found: list[NDArray[Any]] = ray.get(asked, timeout=self.seconds)
        return found

    def __enter__(self) -> WorkerGroup:
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


@dataclass
class _Meeting:
    """Workers that wait for each other."""

    parts: dict[int, list[NDArray[Any]]] = field(default_factory=dict)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    result: list[NDArray[Any]] = field(default_factory=list)


class Coordinator:
    """The actor; its methods are called through Ray."""

    def __init__(self, state: TrainingState | None) -> None:
        self._state = state
        self._handed_out: dict[str, TrainingState | None] = {}
        self._messages: list[Any] = []
        self._meetings: dict[tuple[str, int], _Meeting] = {}
        self._alive: dict[int, tuple[str, float]] = {}

    async def tell(self, message: Any) -> None:
        """Leave a message for the process that started the work."""
        self._messages.append(message)

    async def take(self) -> tuple[list[Any], dict[str, float]]:
        """All messages since the last call, and the seconds since each worker's sign of life."""
        taken, self._messages = self._messages, []
        now = time.monotonic()
        return taken, {name: now - when for name, when in self._alive.values()}

    async def keep(self, state: TrainingState) -> None:
        """Hold this state in place of the one before, and pass it on."""
        self._state = state
        self._messages.append(("state", state))

    async def latest(self, attempt: str) -> TrainingState | None:
        """The latest state; all workers of an attempt get the same, whatever comes in between."""
        return self._handed_out.setdefault(attempt, self._state)

    async def sign(self, rank: int, name: str) -> None:
        """A sign of life."""
        self._alive[rank] = (name, time.monotonic())

    async def combine(
        self, key: tuple[str, int], rank: int, size: int, parts: list[NDArray[Any]], how: How
    ) -> list[NDArray[Any]]:
        """Bring together what ``size`` workers send under the same key."""
        meeting = self._meetings.setdefault(key, _Meeting())
        meeting.parts[rank] = parts
        if len(meeting.parts) == size:
            ordered = [meeting.parts[each] for each in sorted(meeting.parts)]
            meeting.result = combined(ordered, how)
            # Workers that died in the midst of a meeting leave it behind; nobody comes to it again.
            for old in [k for k in self._meetings if k[0] != key[0] or k[1] <= key[1]]:
                del self._meetings[old]
            meeting.done.set()
        await meeting.done.wait()
        return meeting.result


def combined(parts: list[list[NDArray[Any]]], how: How) -> list[NDArray[Any]]:
    """Arrays of the workers, in the order of their ranks, as one.

    ``"sum"`` adds them up. ``"mean"`` takes pairs, values of lists and their weights, joins them
    and gives the weighted mean over the lists that have a value: the same number, to the bit, as
    one process with all lists finds.
    """
    if how == "sum":
        total = [array.copy() for array in parts[0]]
        for later in parts[1:]:
            for have, more in zip(total, later, strict=True):
                have += more
        return total
    weights = np.concatenate([each[0] for each in parts])
    means = []
    for place in range(1, len(parts[0])):
        values = np.concatenate([each[place] for each in parts])
        counts = ~np.isnan(values)
        total_weight = weights[counts].sum()
        mean = (values[counts] * weights[counts]).sum() / total_weight if total_weight else np.nan
        means.append(np.asarray(mean))
    return means
