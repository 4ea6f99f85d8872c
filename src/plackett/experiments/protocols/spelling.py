"""Protocols by name: ``folds``, ``folds:5``, ``splits:100``, ``seeds:10``, ``holdout``."""

from __future__ import annotations

from collections.abc import Callable

from plackett.base.errors import UsageError
from plackett.experiments.protocols.folds import Folds
from plackett.experiments.protocols.holdout import Holdout
from plackett.experiments.protocols.protocol import Protocol
from plackett.experiments.protocols.seeds import Seeds
from plackett.experiments.protocols.splits import Splits

_COUNTED: dict[str, Callable[[int, int], Protocol]] = {
    "folds": lambda count, seed: Folds(count, seed),
    "splits": lambda count, seed: Splits(count, seed),
    "seeds": lambda count, seed: Seeds(count, seed),
}
_PLAIN: dict[str, Callable[[int], Protocol]] = {
    "folds": lambda seed: Folds(seed=seed),
    "splits": lambda seed: Splits(seed=seed),
    "seeds": lambda seed: Seeds(seed=seed),
    "holdout": lambda seed: Holdout(seed),
}
PROTOCOLS = ("folds", "folds:N", "splits:N", "seeds:N", "holdout")
"""The spellings, N being a number."""


def protocol(spelling: str | Protocol, *, seed: int = 0) -> Protocol:
    """Make a protocol from its spelling; a protocol is returned as it is.

    >>> protocol("splits:20")
    Splits(count=20, seed=0)
    >>> str(protocol("splits:20"))
    'splits:20'
    """
    if isinstance(spelling, Protocol):
        return spelling
    name, sign, number = spelling.strip().lower().partition(":")
    if not sign and name in _PLAIN:
        return _PLAIN[name](seed)
    if sign and name in _COUNTED and number.isascii() and number.isdigit():
        return _COUNTED[name](int(number), seed)
    raise UsageError(
        f"there is no protocol {spelling!r}. There are: {', '.join(PROTOCOLS)} (N a number)."
    )
