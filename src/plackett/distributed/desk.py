"""Where tasks leave messages and signs of life, and learn whether they are still wanted."""

from __future__ import annotations

import time
from typing import Any


class Desk:
    """The actor, one for all tasks of a piece of work; its methods are called through Ray."""

    def __init__(self) -> None:
        self._messages: list[tuple[int, Any]] = []
        self._alive: dict[int, tuple[str, float]] = {}
        self._unwanted: set[int] = set()

    async def sign(self, number: int, name: str) -> bool:
        """A sign of life of a task; whether its answer is still wanted."""
        self._alive[number] = (name, time.monotonic())
        return number not in self._unwanted

    async def tell(self, number: int, name: str, message: Any) -> bool:
        """A message of a task, which is a sign of life as well."""
        self._messages.append((number, message))
        return await self.sign(number, name)

    async def stop(self, number: int) -> None:
        """Let a task know, the next time it is heard of, that nobody wants its answer."""
        self._unwanted.add(number)

    async def take(self) -> tuple[list[tuple[int, Any]], dict[int, tuple[str, float]]]:
        """All messages since the last call; of each task its worker and the seconds of silence."""
        taken, self._messages = self._messages, []
        now = time.monotonic()
        return taken, {number: (name, now - when) for number, (name, when) in self._alive.items()}
