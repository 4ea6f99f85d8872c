"""Metrics as text: ``name[@cutoff][:convention][:option=value]...``.

There are no commas in it, so that several metrics can be written ``ndcg@5,err@10:grade=4,map``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from plackett.base.errors import UsageError
from plackett.metrics.settings import Option

DEFAULT_CONVENTION = "papers"
MOST_DIGITS = 18
"""Of a cut-off, so that it is an int64 and below the one that stands for none."""
_FORM = "write name[@cutoff][:convention][:option=value]..., such as ndcg@10 or err@10:grade=4"


@dataclass(frozen=True)
class Spelling:
    """The parts of a metric's text, not yet checked against what exists."""

    name: str
    cutoff: int | None
    convention: str | None
    options: Mapping[str, Option]


def parse(text: str) -> Spelling:
    """Take the text of one metric apart.

    >>> parse("ndcg@5:lightgbm:ties=expected")
    Spelling(name='ndcg', cutoff=5, convention='lightgbm', options={'ties': 'expected'})
    """
    head, *rest = (part.strip() for part in text.split(":"))
    name, at, cutoff = head.partition("@")
    convention: str | None = None
    options: dict[str, Option] = {}
    for part in rest:
        option, equals, value = (piece.strip() for piece in part.partition("="))
        if equals:
            if option in options:
                raise UsageError(f"{text!r} gives option {option!r} twice; give it once.")
            options[option] = value
        elif convention is None:
            convention = part
        else:
            raise UsageError(
                f"{text!r} names two conventions, {convention!r} and {part!r}; {_FORM}."
            )
    return Spelling(name.strip(), _cutoff(cutoff, text) if at else None, convention, options)


def split(text: str) -> tuple[str, ...]:
    """Split a comma-separated list of metrics.

    >>> split("ndcg@5, err@10:grade=4")
    ('ndcg@5', 'err@10:grade=4')
    """
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts):
        raise UsageError(f"{text!r} has an empty place between commas; {_FORM}.")
    return parts


def _cutoff(text: str, whole: str) -> int:
    digits = text.strip()
    number = digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS
    if not number or int(digits) < 1:
        raise UsageError(
            f"a cut-off is an integer from 1 to 10**{MOST_DIGITS} - 1, got {text!r} in {whole!r}."
        )
    return int(digits)
