"""What a parameter may be in a search: a range of numbers, or a choice.

Each is a frozen value whose text says what it is, for tables and for :func:`repr` in documents.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from plackett.base.errors import UsageError


@dataclass(frozen=True)
class Real:
    """Numbers from ``low`` to ``high``; with ``log`` each power of ten is as likely as another."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        _check_ends(self.low, self.high, self.log)

    def __str__(self) -> str:
        return f"{self.low:g} .. {self.high:g}{', log' if self.log else ''}"


@dataclass(frozen=True)
class Whole:
    """Whole numbers from ``low`` to ``high``, both included."""

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        if type(self.low) is not int or type(self.high) is not int:
            raise UsageError(f"ends must be whole numbers, got {self.low!r} and {self.high!r}.")
        _check_ends(self.low, self.high, self.log)

    def __str__(self) -> str:
        return f"{self.low} .. {self.high}, whole{', log' if self.log else ''}"


@dataclass(frozen=True)
class Choice:
    """One of several values, in no order."""

    options: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.options or len(set(map(spelt, self.options))) < len(self.options):
            raise UsageError(f"a choice needs different options, got {self.options!r}.")

    def __str__(self) -> str:
        return " | ".join(spelt(option) for option in self.options)


Dimension: TypeAlias = Real | Whole | Choice
Space: TypeAlias = Mapping[str, Dimension]
"""Dimensions by the name of the parameter; a dot leads into an objective or a dictionary."""


def spelt(value: Any) -> str:
    """A value as text; a sequence as in JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def _check_ends(low: float, high: float, log: bool) -> None:
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UsageError(f"a range goes from a number to a larger one, got {low} .. {high}.")
    if log and low <= 0:
        raise UsageError(f"a logarithmic range begins above 0, got {low} .. {high}.")
