"""The first pass over a text: how many rows, and how wide, so that arrays are allocated once.

Indices rise along a line, so its last one is its largest: the pass looks for the ends of lines
and at the last token of each, not at what lies between. A line that is not right may be counted
as anything; the parser will stop at it.
"""

from __future__ import annotations

from typing import NamedTuple

from numba import int64

from plackett.base.decimals import find_byte, find_either
from plackett.base.kernels import compiled

_TAB, _NEWLINE, _RETURN, _SPACE, _HASH, _COLON = 9, 10, 13, 32, 35, 58
_ZERO, _NINE = 48, 57

LARGEST_INDEX = 9 * 10**17 - 1
"""No index is counted beyond its successor, ten times which still fits an int64."""


class Survey(NamedTuple):
    """What one piece of text holds."""

    lines: int
    rows: int
    """Lines that are neither blank nor only a comment."""
    width: int
    """Largest feature index."""
    widest: int
    """Line of that index, counted from 0."""


@compiled
def index_at(text, at):  # type: ignore[no-untyped-def]
    """Feature index at ``at``, 0 if there is none, and the position of its value."""
    index = int64(0)
    while _ZERO <= text[at] <= _NINE:
        index = min(index * 10 + int64(text[at] - _ZERO), int64(LARGEST_INDEX + 1))
        at += 1
    return (index if text[at] == _COLON else int64(0)), at + 1


@compiled
def _last_index(text, begin, end):  # type: ignore[no-untyped-def]
    """Index of the last token of the data from ``begin`` to ``end``, or 0 if it has none."""
    while end > begin and text[end - 1] != _SPACE and text[end - 1] != _TAB:
        end -= 1
    return index_at(text, end)[0]


@compiled
def _is_blank(byte):  # type: ignore[no-untyped-def]
    return byte in (_SPACE, _TAB, _RETURN)


@compiled
def survey(text, at, stop):  # type: ignore[no-untyped-def]
    """Look over the lines from ``at`` to ``stop``: lines, rows, width, line of the width."""
    lines = rows = width = widest = 0
    while at < stop:
        end = find_either(text, at, _NEWLINE, _HASH)
        newline = end if text[end] == _NEWLINE else find_byte(text, end, _NEWLINE)
        while end > at and _is_blank(text[end - 1]):
            end -= 1
        if end > at:
            rows += 1
            index = _last_index(text, at, end)
            if index > width:
                width, widest = index, lines
        lines += 1
        at = newline + 1
    return lines, rows, width, widest
