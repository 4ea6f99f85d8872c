r"""Float32 to the shortest decimal text that reads back as the same float32.

For n = 6, 7, 8, 9 digits the n-digit decimal nearest to the number is read back with the
reader's own rounding (:func:`~plackett.base.decimals.nearest`) until it gives the number
again; nine digits always do. So what the writer writes, the reader reads, by construction. No
two decimals of six digits share a float32 (FLT_DIG in C), so a shorter one that reads back is the
one of six digits without its last zeros. Below 2**-126 that does not hold, and n starts at 1.
"""

from __future__ import annotations

import numpy as np
from numba import float32, float64, int64, uint8, uint64

from plackett.base.decimals import bits_of, nearest
from plackett.base.kernels import compiled

LONGEST_NUMBER = 24
"""Bytes that one number may take: a sign, nine digits, zeros around them or an exponent."""

_DIGITS, _SURE_DIGITS = 9, 6
_NORMAL = float(np.finfo(np.float32).tiny)
_FIRST_POWER = -64
_POWERS = np.array([float(f"1e{e}") for e in range(_FIRST_POWER, 65)])
_WHOLE = float(1 << 24)  # whole numbers up to here are float32
_PLAIN_LEAST, _PLAIN_MOST = -5, 12  # exponents of ten between which no "e" is written
_MINUS, _POINT, _ZERO, _E = 45, 46, 48, 101


@compiled
def write_whole(out, at, value):  # type: ignore[no-untyped-def]
    """Write a whole number from 0 up at ``at``; gives the end."""
    size, rest = 1, value // uint64(10)
    while rest > 0:
        size, rest = size + 1, rest // uint64(10)
    for i in range(at + size - 1, at - 1, -1):
        out[i] = uint8(value % uint64(10)) + uint8(_ZERO)
        value = value // uint64(10)
    return at + size


@compiled
def shortest(number):  # type: ignore[no-untyped-def]
    """Mantissa and exponent of the shortest decimal that reads back as a positive float32."""
    top = int64(np.floor(np.log10(float64(number))))
    # Below a power of two float32 lie closer than above it, so the decimal next above may read
    # back where the nearest does not.
    power_of_two = bits_of(float64(number)) & uint64((1 << 52) - 1) == 0
    for count in range(_SURE_DIGITS - 1 if number >= _NORMAL else 0, _DIGITS):
        exponent = top - count
        scaled = float64(number) * _POWERS[-exponent - _FIRST_POWER]
        mantissa = uint64(np.rint(scaled))
        if power_of_two and nearest(mantissa, exponent)[0] != number:
            mantissa = uint64(np.floor(scaled)) + uint64(1)
        value, known = nearest(mantissa, exponent)
        if known and value == number:
            return mantissa, exponent
    return uint64(0), int64(0)


@compiled
def _write_decimal(out, at, mantissa, exponent):  # type: ignore[no-untyped-def]
    """Write m * 10**e, plainly or with an exponent, whichever suits its size."""
    while mantissa % uint64(10) == 0:
        mantissa, exponent = mantissa // uint64(10), exponent + 1
    end = write_whole(out, at, mantissa)
    top = exponent + end - at - 1
    if exponent >= 0 and top < _PLAIN_MOST:
        out[end : end + exponent] = _ZERO
        return end + exponent
    if _PLAIN_LEAST < top < 0:
        shift = 1 - top
        for i in range(end - 1, at - 1, -1):
            out[i + shift] = out[i]
        out[at : at + shift] = _ZERO
        out[at + 1] = _POINT
        return end + shift
    point = at + 1 + (top if _PLAIN_LEAST < top < _PLAIN_MOST else 0)
    if point < end:
        for i in range(end, point, -1):
            out[i] = out[i - 1]
        out[point] = _POINT
        end += 1
    return end if _PLAIN_LEAST < top < _PLAIN_MOST else _write_power(out, end, top)


@compiled
def _write_power(out, at, power):  # type: ignore[no-untyped-def]
    out[at] = _E
    at += 1
    if power < 0:
        out[at] = _MINUS
        at += 1
    return write_whole(out, at, uint64(abs(power)))


@compiled
def write_number(out, at, number):  # type: ignore[no-untyped-def]
    """Write a float32 that is not infinite at ``at``; gives the end."""
    if np.isnan(number):
        out[at], out[at + 1], out[at + 2] = 110, 97, 110
        return at + 3
    if np.signbit(number):
        out[at] = _MINUS
        at += 1
        number = float32(-number)
    if number <= _WHOLE and number == np.floor(number):
        return write_whole(out, at, uint64(number))
    mantissa, exponent = shortest(number)
    return _write_decimal(out, at, mantissa, exponent)
