"""Numbers of JSON as compiled code reads them: one document's values into one row."""

from __future__ import annotations

import numpy as np

from plackett.base.decimals import digits_ahead, digits_value, nearest, number, word_at
from plackett.base.kernels import compiled

GIVE_UP = -1
"""Instead of a position: let the careful reader decide."""

END = b'\0""""""""' + bytes(39)
"""Behind every text: no digit, a quote within the next word, and room to read ahead."""

_TAB, _NEWLINE, _RETURN, _SPACE = 9, 10, 13, 32
_COMMA, _MINUS, _POINT, _ZERO, _NINE, _CLOSE_LIST = 44, 45, 46, 48, 57, 93
_N, _U, _L, _E = 110, 117, 108, 101
_LOWER = 32  # set in small letters
_WORD = 8  # bytes, and digits, looked at together
_ROOM = 10**11  # below it, eight more digits stay below 2**64
_TENS = np.array([10**n for n in range(_WORD + 1)], dtype=np.uint64)


@compiled
def skip(text, at):  # type: ignore[no-untyped-def]
    """Go over blanks."""
    while text[at] <= _SPACE and (
        text[at] == _SPACE or text[at] == _NEWLINE or text[at] == _RETURN or text[at] == _TAB
    ):
        at += 1
    return at


@compiled
def _is_digit(byte):  # type: ignore[no-untyped-def]
    return _ZERO <= byte <= _NINE


@compiled
def read_value(text, at):  # type: ignore[no-untyped-def]
    """Read a number or null: its float32 and its end."""
    if text[at] == _N:
        null = text[at + 1] == _U and text[at + 2] == _L and text[at + 3] == _L
        return np.float32(np.nan), (at + 4 if null else GIVE_UP)
    negative = text[at] == _MINUS
    first = at + 1 if negative else at
    word = word_at(text, first)
    count = digits_ahead(word)
    # Numbers of JSON begin with a digit and have no leading zeros.
    if count == 0 or (count > 1 and text[first] == _ZERO):
        return np.float32(0.0), GIVE_UP
    if count == _WORD:
        return _long_number(text, at, first)
    mantissa, end = digits_value(word, count), first + count
    fraction = 0
    if text[end] == _POINT:
        end += 1
        count = _WORD
        while count == _WORD and mantissa < np.uint64(_ROOM):
            word = word_at(text, end)
            count = digits_ahead(word)
            if count > 0:
                mantissa = mantissa * _TENS[count] + digits_value(word, count)
                fraction, end = fraction + count, end + count
        if fraction == 0:
            return np.float32(0.0), GIVE_UP
    if _is_digit(text[end]) or text[end] | _LOWER == _E:
        return _long_number(text, at, first)
    value, known = nearest(mantissa, -fraction)
    return (-value if negative else value), (end if known else GIVE_UP)


@compiled
def _long_number(text, at, first):  # type: ignore[no-untyped-def]
    """Read a number with many digits or an exponent."""
    value, end = number(text, at)
    for i in range(first, end):
        if text[i] == _POINT and not _is_digit(text[i + 1]):  # which JSON has not
            return value, GIVE_UP
    return value, end


@compiled
def read_vector(text, at, row):  # type: ignore[no-untyped-def]
    """Read the numbers of a document from behind its bracket; gives the end."""
    for j in range(len(row)):
        value, at = read_value(text, skip(text, at))
        if at < 0:
            return GIVE_UP
        row[j] = value
        at = skip(text, at)
        if text[at] != (_COMMA if j + 1 < len(row) else _CLOSE_LIST):
            return GIVE_UP
        at += 1
    return at
