"""Query and document ids: spans of the text to arrays of integers or strings."""

from __future__ import annotations

import numpy as np
from numba import int64, uint32, uint64
from numpy.typing import NDArray

from plackett.base.kernels import compiled
from plackett.base.ragged import Ids, Offsets

LONGEST = 256
"""An array of strings gives each as much room as the longest; beyond this they are objects."""

_MINUS, _ZERO, _NINE = 45, 48, 57
_LARGEST = np.iinfo(np.int64).max


@compiled
def integer(text, at, end):  # type: ignore[no-untyped-def]
    """Integer that an id spells as Python would, and whether it does."""
    negative = text[at] == _MINUS
    first = at + int64(negative)
    count = end - first
    if count == 0 or count > 19 or (text[first] == _ZERO and (count > 1 or negative)):
        return int64(0), False
    value = uint64(0)
    for i in range(first, end):
        if not _ZERO <= text[i] <= _NINE:
            return int64(0), False
        value = value * uint64(10) + uint64(text[i] - _ZERO)
    fits = value <= uint64(_LARGEST) + uint64(negative)
    return (-int64(value) if negative else int64(value)), fits


@compiled
def _sequence(text, at):  # type: ignore[no-untyped-def]
    """Length and code point of the UTF-8 sequence at ``at``; length 0 if it is malformed."""
    lead = uint32(text[at])
    if lead < 0x80:
        return 1, lead
    if lead < 0xC2 or lead > 0xF4:
        return 0, lead
    length = 2 + int64(lead >= 0xE0) + int64(lead >= 0xF0)
    point = lead & uint32(0xFF >> (length + 1))
    for i in range(at + 1, at + length):
        if text[i] & 0xC0 != 0x80:
            return 0, lead
        point = (point << uint32(6)) | uint32(text[i] & 0x3F)
    surrogate = 0xD800 <= point <= 0xDFFF
    overlong = point < (0x80 if length == 2 else 0x800 if length == 3 else 0x10000)
    return (0 if surrogate or overlong or point > 0x10FFFF else length), point


@compiled
def is_utf8(text, at, end):  # type: ignore[no-untyped-def]
    """Whether the bytes from ``at`` to ``end`` are UTF-8."""
    while at < end:
        length, _ = _sequence(text, at)
        at += length
        if length == 0:
            return False
    return at == end


@compiled
def _longest(text, spans):  # type: ignore[no-untyped-def]
    """Largest number of characters in a span."""
    longest = 0
    for row in range(len(spans)):
        begin, length = spans[row]
        if length > longest:
            characters = 0
            for i in range(begin, begin + length):
                characters += text[i] & 0xC0 != 0x80
            longest = max(longest, characters)
    return longest


@compiled
def _decode(text, spans, points):  # type: ignore[no-untyped-def]
    """Write the code points of each span into a row of ``points``, zeros behind them."""
    for row in range(len(spans)):
        at, end, column = spans[row, 0], spans[row, 0] + spans[row, 1], 0
        while at < end:
            length, point = _sequence(text, at)
            points[row, column] = point
            at += length
            column += 1
        points[row, column:] = 0


def strings(text: NDArray[np.uint8], spans: Offsets) -> Ids:
    """Array of the strings at these spans (begin and length) of checked UTF-8."""
    width = max(int(_longest(text, spans)), 1)
    if width > LONGEST:
        cut = [text[a : a + n].tobytes().decode("utf-8") for a, n in spans]
        return np.array(cut, dtype=object)
    points = np.empty((len(spans), width), dtype=np.uint32)
    _decode(text, spans, points)
    return points.view(f"U{width}")[:, 0]


def join(parts: list[Ids]) -> Ids:
    """One array of ids; integers become text if any part is text."""
    if all(part.dtype.kind == "i" for part in parts):
        return np.concatenate(parts)
    return np.concatenate([part.astype(str) if part.dtype.kind == "i" else part for part in parts])
