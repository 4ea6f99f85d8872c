"""Times for people."""

from __future__ import annotations

import time
from collections.abc import Callable

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> duration(45), duration(600), duration(9000), duration(400_000)
    ('45 s', '10 min', '2.5 h', '4.6 days')
    """
    if seconds < 2 * _MINUTE:
        return f"{max(seconds, 1):.0f} s"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    if seconds < 2 * _DAY:
        return f"{seconds / _HOUR:.1f} h"
    return f"{seconds / _DAY:.1f} days"


def with_rest(
    progress: Callable[[str, int, int], None], *, clock: Callable[[], float] = time.monotonic
) -> Callable[[str, int, int], None]:
    """Progress that also says how long the rest will take, at the pace of what was done so far."""
    first: list[tuple[float, int]] = []

    def tell(text: str, done: int, total: int) -> None:
        if not first:
            first.append((clock(), done))
        start, before = first[0]
        if before < done < total:
            rest = (clock() - start) / (done - before) * (total - done)
            text = f"{text} · about {duration(rest)} left"
        progress(text, done, total)

    return tell
