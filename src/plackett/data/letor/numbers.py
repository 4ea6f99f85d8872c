r"""Decimal text to the nearest float32.

A decimal is read as :math:`m \cdot 10^e` with m below 2**64 (nineteen digits; more can change the
value by less than a part in :math:`10^{18}`). In float64 the product has an error of at most
three units in the last place: m, the power of ten and the product are each rounded once.
Rounding it once more to float32 gives the nearest float32 of the *text* unless a midpoint between
two neighbours lies within these units (Clinger 1990, "How to read floating point numbers
accurately"). Such a text is settled by comparing integers, or left to exact rational arithmetic
in :mod:`.careful`.
"""

from __future__ import annotations

import numpy as np
from numba import float32, float64, int64, uint64

from plackett.base.kernels import compiled
from plackett.data.letor.words import bits_of, digits_ahead, digits_value, from_bits, word_at

_LEAST, _MOST = -64, 38  # m * 10**e is below half the least float32, or above all, beyond these
_POWERS = np.array([float(f"1e{e}") for e in range(_LEAST, _MOST + 1)])
_WHOLE_POWERS = np.array([10**n for n in range(20)], dtype=np.uint64)
_FIVES = np.array([5**n for n in range(17)], dtype=np.uint64)  # 5**16 * 2**25 is below 2**63
_WORD = np.uint64(1 << 63)
_ROOM_FOR_EIGHT = 10**11  # below it, eight more digits stay below 2**64
_ROOM_FOR_ONE = 10**18

_MIDPOINT = 1 << 28  # float64 has 29 bits more than float32
_BELOW = (1 << 29) - 1
_DOUBT = 8
_NORMAL = float(np.finfo(np.float32).tiny)
_LARGEST = float(np.finfo(np.float32).max)
_SUBNORMALS = 2.0**149  # one over the least float32

_MINUS, _PLUS, _POINT, _ZERO, _NINE = 45, 43, 46, 48, 57


@compiled
def _settle(mantissa, exponent, near):  # type: ignore[no-untyped-def]
    """Nearest float32 of m * 10**e, where float64 falls too near to a midpoint M * 2**q to tell.

    Divided by 2**e they are m 5**e and M 2**(q - e); for negative e, m and M 5**-e 2**(q - e).
    As they almost agree, both fit a word if the smaller factors do.
    """
    middle = (bits_of(near) & ~uint64(_BELOW)) | uint64(_MIDPOINT)
    odd = ((middle >> uint64(28)) & uint64((1 << 24) - 1)) | uint64(1 << 24)
    shift = int64(middle >> uint64(52)) - 1023 - 24 - exponent
    left, right = mantissa, odd
    if exponent > 0:
        left *= _FIVES[exponent]
    else:
        right *= _FIVES[-exponent]
    if shift >= 0:
        right <<= uint64(shift)
    else:
        left <<= uint64(-shift)
    if left > right:
        middle += uint64(1)
    elif left < right:
        middle -= uint64(1)
    return float32(from_bits(middle))


@compiled
def nearest(mantissa, exponent):  # type: ignore[no-untyped-def]
    """Float32 nearest to m * 10**e and True, or False where it cannot tell."""
    if mantissa == 0 or exponent < _LEAST:
        return float32(0.0), True
    if exponent > _MOST:
        return float32(0.0), False
    value = float64(mantissa) * _POWERS[exponent - _LEAST]
    if value < _NORMAL:
        steps = value * _SUBNORMALS
        return float32(value), abs(steps - np.floor(steps) - 0.5) > 1e-6
    if abs(int64(bits_of(value) & uint64(_BELOW)) - _MIDPOINT) <= _DOUBT:
        # A mantissa of nineteen digits may lack further ones, which decide beside a midpoint.
        if mantissa >= uint64(_ROOM_FOR_ONE) or abs(exponent) >= len(_FIVES):
            return float32(0.0), False
        if mantissa >= _WORD // _FIVES[max(exponent, 0)]:
            return float32(0.0), False
        return _settle(mantissa, exponent, value), True
    single = float32(value)
    return single, single <= _LARGEST


@compiled
def _digits(text, at, mantissa):  # type: ignore[no-untyped-def]
    """Append the digits from ``at``; gives the mantissa, the end, and how many did not fit."""
    while mantissa < uint64(_ROOM_FOR_EIGHT):
        word = word_at(text, at)
        count = digits_ahead(word)
        if count > 0:
            mantissa = mantissa * _WHOLE_POWERS[count] + digits_value(word, count)
        at += count
        if count < 8:
            return mantissa, at, 0
    dropped = 0
    while _ZERO <= text[at] <= _NINE:
        if mantissa < uint64(_ROOM_FOR_ONE):
            mantissa = mantissa * uint64(10) + uint64(text[at] - _ZERO)
        else:
            dropped += 1
        at += 1
    return mantissa, at, dropped


@compiled
def _exponent(text, at):  # type: ignore[no-untyped-def]
    """Read what follows an ``e``: the number and its end, which is ``at`` if there is none."""
    negative = text[at] == _MINUS
    first = at + 1 if negative or text[at] == _PLUS else at
    end, value = first, 0
    while _ZERO <= text[end] <= _NINE:
        # Beyond this every number is zero or too large, whatever its mantissa (it is at most as
        # long as a file).
        value = min(value * 10 + int64(text[end] - _ZERO), int64(1) << 50)
        end += 1
    return (-value if negative else value), (at if end == first else end)


@compiled
def decimal(text, at):  # type: ignore[no-untyped-def]
    """Read any decimal at ``at``: mantissa, exponent, sign, and its end (-1 if it is none)."""
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += 1
    first = at
    mantissa, at, dropped = _digits(text, at, uint64(0))
    exponent, count = dropped, at - first
    if text[at] == _POINT:
        begin = at + 1
        mantissa, at, dropped = _digits(text, begin, mantissa)
        exponent -= at - begin - dropped
        count += at - begin
    if count == 0:
        return mantissa, 0, negative, -1
    if text[at] | 32 == 101:  # e or E
        power, end = _exponent(text, at + 1)
        if end == at + 1:
            return mantissa, 0, negative, -1
        exponent, at = exponent + power, end
    return mantissa, exponent, negative, at


@compiled
def number(text, at):  # type: ignore[no-untyped-def]
    """Read any decimal at ``at``: its float32 and its end, -1 if :mod:`.careful` must decide."""
    mantissa, exponent, negative, end = decimal(text, at)
    if end < 0:
        return float32(0.0), end
    value, known = nearest(mantissa, exponent)
    return (-value if negative else value), (end if known else -1)


@compiled
def short_number(text, at):  # type: ignore[no-untyped-def]
    """Read what most values are: up to seven digits, or seven, a point and seven; else -1."""
    negative = text[at] == _MINUS
    at += int64(negative)
    word = word_at(text, at)
    count = digits_ahead(word)
    if count == 0 or count == 8:
        return float32(0.0), -1
    whole = digits_value(word, count)
    at += count
    if (word >> uint64(8 * count)) & uint64(255) != uint64(_POINT):
        return float32(-float64(whole) if negative else float64(whole)), at
    word = word_at(text, at + 1)
    count = digits_ahead(word)
    if count == 0 or count == 8:
        return float32(0.0), -1
    mantissa = whole * _WHOLE_POWERS[count] + digits_value(word, count)
    value = float64(mantissa) * _POWERS[-count - _LEAST]
    if abs(int64(bits_of(value) & uint64(_BELOW)) - _MIDPOINT) <= _DOUBT:
        return float32(0.0), -1
    return float32(-value if negative else value), at + 1 + count
