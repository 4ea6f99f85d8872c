"""Communication of the workers that train one model together.

The :class:`Coordinator` is a Ray actor, one per training job. It passes messages to the driver,
holds the latest training state, from which replacement workers continue, and combines arrays: each
worker waits until all have sent theirs. All get the same result, because arrays are added up in the
order of ranks, not of arrival. A worker talks to the coordinator through its :class:`WorkerGroup`.
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

Reduction: TypeAlias = Literal["sum", "mean", "gather"]
TrainingState: TypeAlias = tuple[int, dict[str, bytes]]
"""The number of steps done, and the files that describe the training after them."""

_HEARTBEAT_SECONDS = 1.0
_PROGRESS_SECONDS = 0.2  # minimum time between two progress messages


@dataclass
class WorkerGroup:
    """The workers of one attempt at a training job, seen from one of them.

    Used in a ``with`` block, during which heartbeats are sent.
    """

    coordinator: Any
    """Handle of the actor :class:`Coordinator`."""
    rank: int
    size: int
    attempt: str
    """Identifies the attempt; the same for all its workers."""
    timeout_seconds: float
    """How long a worker waits for the others."""
    _reductions: int = 0
    _last_progress: float = 0.0
    _done: threading.Event = field(default_factory=threading.Event)

    def average(self, values: Sequence[Values], weights: Values | None) -> tuple[float, ...]:
        """Means of metrics over the lists of all workers; each worker passes the values of its own lists."""
        list_weights = np.ones(len(values[0])) if weights is None else np.asarray(weights, float)
        return tuple(float(mean) for mean in self._combine([list_weights, *values], "mean"))

    def sum(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """The sum of each array over all workers."""
        return self._combine([np.ascontiguousarray(array) for array in arrays], "sum")

    def host_addresses(self) -> list[str]:
        """Address of each worker's machine, by rank; all workers must call this."""
        import ray

        return [address for (address,) in self._combine([ray.util.get_node_ip_address()], "gather")]

    def report_progress(self, text: str, done: int, total: int) -> None:
        """Send the progress to the user's process; only the first worker does so."""
        now = time.monotonic()
        if self.rank == 0 and (now - self._last_progress >= _PROGRESS_SECONDS or done == total):
            self._last_progress = now
            self.coordinator.post.remote(("progress", (text, done, total)))

    def report_metric(self, done: int, total: int, mean: float) -> None:
        """Send the validation metric after a step to the user's process."""
        if self.rank == 0:
            self.coordinator.post.remote(("watch", (done, total, mean)))

    def send(self, kind: str, content: Any) -> None:
        """Send a message to the driver and wait until the coordinator has it."""
        self._wait(self.coordinator.post.remote((kind, content)))

    def save_state(self, step: int, files: dict[str, bytes]) -> None:
        """Send the training state, from which workers continue after a failure."""
        self.coordinator.save_state.remote((step, files))

    def latest_state(self) -> TrainingState | None:
        """The state to continue from; None at the beginning."""
        return self._wait(self.coordinator.latest_state.remote(self.attempt))

    def _combine(self, parts: list[Any], how: Reduction) -> list[Any]:
        self._reductions += 1
        key = (self.attempt, self._reductions)
        return self._wait(self.coordinator.combine.remote(key, self.rank, self.size, parts, how))

    def _wait(self, request: Any) -> Any:
        import ray

        return ray.get(request, timeout=self.timeout_seconds)

    def __enter__(self) -> WorkerGroup:
        threading.Thread(target=self._send_heartbeats, name="heartbeat", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()

    def _send_heartbeats(self) -> None:
        """Send heartbeats, so that a worker that hangs can be named."""
        import ray

        name = f"worker {self.rank} (process {os.getpid()} on {ray.util.get_node_ip_address()})"
        while not self._done.wait(_HEARTBEAT_SECONDS):
            self.coordinator.heartbeat.remote(self.rank, name)


@dataclass
class _Reduction:
    """Workers that wait for each other's arrays."""

    parts: dict[int, list[Any]] = field(default_factory=dict)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    result: list[Any] = field(default_factory=list)


class Mailbox:
    """Messages and heartbeats of workers, for the driver; a Ray actor, so its methods are called through Ray."""

    def __init__(self) -> None:
        self._messages: list[Any] = []
        self._heartbeats: dict[int, tuple[str, float]] = {}

    async def post(self, message: Any) -> None:
        """Leave a message for the driver."""
        self._messages.append(message)

    async def heartbeat(self, number: int, name: str) -> None:
        """Note that a worker is alive."""
        self._heartbeats[number] = (name, time.monotonic())

    async def collect(self) -> tuple[list[Any], dict[int, tuple[str, float]]]:
        """All messages since the last call; the name of each worker and the seconds since its heartbeat."""
        messages, self._messages = self._messages, []
        now = time.monotonic()
        return messages, {number: (name, now - when) for number, (name, when) in self._heartbeats.items()}


class Coordinator(Mailbox):
    """The actor of a training job."""

    def __init__(self, state: TrainingState | None) -> None:
        super().__init__()
        self._state = state
        self._state_of_attempt: dict[str, TrainingState | None] = {}
        self._reductions: dict[tuple[str, int], _Reduction] = {}

    async def save_state(self, state: TrainingState) -> None:
        """Replace the training state, and pass it on to the driver."""
        self._state = state
        self._messages.append(("state", state))

    async def latest_state(self, attempt: str) -> TrainingState | None:
        """The latest state; all workers of an attempt get the same one."""
        return self._state_of_attempt.setdefault(attempt, self._state)

    async def combine(self, key: tuple[str, int], rank: int, size: int, parts: list[Any], how: Reduction) -> list[Any]:
        """Combine what ``size`` workers send under the same key."""
        reduction = self._reductions.setdefault(key, _Reduction())
        reduction.parts[rank] = parts
        if len(reduction.parts) == size:
            ordered = [reduction.parts[worker] for worker in sorted(reduction.parts)]
            reduction.result = reduce_arrays(ordered, how)
            # Also removes the reductions that workers of earlier attempts left unfinished.
            for old in [k for k in self._reductions if k[0] != key[0] or k[1] <= key[1]]:
                del self._reductions[old]
            reduction.done.set()
        await reduction.done.wait()
        return reduction.result


def reduce_arrays(parts: list[list[Any]], how: Reduction) -> list[Any]:
    """Combine what all workers sent, in the order of their ranks.

    ``"gather"`` returns the parts unchanged, ``"sum"`` adds arrays. For ``"mean"`` each worker passes the weights of
    its lists, then values of one or more metrics; the result is the weighted mean of each metric over the lists that
    have a value, identical to the bit to that of one process with all lists.
    """
    if how == "gather":
        return parts
    if how == "sum":
        total = [array.copy() for array in parts[0]]
        for later in parts[1:]:
            for array, addend in zip(total, later, strict=True):
                array += addend
        return total
    weights = np.concatenate([arrays[0] for arrays in parts])
    means = []
    for metric in range(1, len(parts[0])):
        values = np.concatenate([arrays[metric] for arrays in parts])
        counts = ~np.isnan(values)
        total_weight = weights[counts].sum()
        mean = (values[counts] * weights[counts]).sum() / total_weight if total_weight else np.nan
        means.append(np.asarray(mean))
    return means
