"""What workers say to each other and to the process that started them.

One actor per piece of work. It collects messages, holds the latest state of the work, from which
replaced workers go on, and adds up what workers send: each waits until all have sent theirs, and
all get the same result, summed in the order of their ranks whatever the order of arrival.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.distributed.states import How, State


@dataclass
class _Meeting:
    """Workers that wait for each other."""

    parts: dict[int, list[NDArray[Any]]] = field(default_factory=dict)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    result: list[NDArray[Any]] = field(default_factory=list)


class Post:
    """The actor; its methods are called through Ray."""

    def __init__(self, state: State | None) -> None:
        self._state = state
        self._handed_out: dict[str, State | None] = {}
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

    async def keep(self, state: State) -> None:
        """Hold this state in place of the one before, and pass it on."""
        self._state = state
        self._messages.append(("state", state))

    async def latest(self, attempt: str) -> State | None:
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
