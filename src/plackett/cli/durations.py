"""Times for people."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plackett.experiments.plan import Forecast


_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_BUSY = 1.5
"""Times longer than on a machine with nothing else to do: worth saying."""


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


def ahead_in_words(ahead: Forecast) -> str:
    """What is finished already, and how long the rest will take; begins with a semicolon."""
    text = f"; {ahead.finished} are finished already" if ahead.finished else ""
    if ahead.finished < ahead.trials:
        text += f"; expected time: about {duration(ahead.seconds)}, less where models stop early"
        if ahead.slowdown > _BUSY:
            text += (
                f"; other programs are running, with which it takes {ahead.slowdown:.0f} times as "
                "long"
            )
    return text


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
