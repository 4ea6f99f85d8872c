r"""Decimal text to the nearest float32, eight bytes at a time.

A machine word holds eight consecutive bytes, the first in its lowest byte (all machines that Numba
supports are little-endian). Adding, masking and counting zero bits then answers in a few cycles
"how many digits come next?" and "where does the line end?" (Lamport 1975, "Multiple byte
processing with full-word instructions"). Callers make sure that :data:`PADDING` bytes can be read
behind every line.

A decimal is read as :math:`m \cdot 10^e` with m below 2**64 (nineteen digits; more can change the
value by less than a part in :math:`10^{18}`). In float64 the product has an error of at most three
units in the last place: m, the power of ten and the product are each rounded once. Rounding it once
more to float32 gives the nearest float32 of the *text* unless a midpoint between two neighbors lies
within these units (Clinger 1990, "How to read floating point numbers accurately"). Such a text is
decided by comparing integers, or by exact arithmetic in :func:`exact_float32`.
"""

import math
import re
from decimal import Decimal
from typing import Any

import llvmlite.ir as ir
import numpy as np
from numba import config, float32, float64, int64, types, uint64
from numba.core import cgutils
from numba.extending import intrinsic

from plackett.base.kernels import compiled

PADDING = 32
"""Bytes that must be readable behind the last line of a text."""

_CHECKED = bool(config.BOUNDSCHECK)

_ONES = 0x0101010101010101
_HIGH = 0x8080808080808080
_LOW7 = 0x7F7F7F7F7F7F7F7F
_ZEROS = 0x3030303030303030  # "00000000"
_ABOVE_NINE = 0x7676767676767676  # 0x80 - 10: sets the high bit of a byte above nine


@intrinsic
def _load(typing_context: Any, text: Any, at: Any) -> Any:  # noqa: ARG001 - Numba passes it
    signature = types.uint64(text, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0])
        address = builder.gep(array.data, [arguments[1]])
        wide = builder.bitcast(address, ir.IntType(64).as_pointer())
        return builder.load(wide, align=1)

    return signature, generate


@intrinsic
def _trailing_zeros(typing_context: Any, word: Any) -> Any:  # noqa: ARG001
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@compiled
def bits_of(value):  # type: ignore[no-untyped-def]
    """Bits of a float64 as a uint64."""
    return np.float64(value).view(np.uint64)


@compiled
def word_at(text, at):  # type: ignore[no-untyped-def]
    """Eight bytes from ``at``."""
    if _CHECKED:
        # The load below is invisible to NUMBA_BOUNDSCHECK; these two are not.
        _ = text[at] + text[at + 7]
    return _load(text, at)


@compiled
def digits_ahead(word):  # type: ignore[no-untyped-def]
    """How many of the first bytes of a word are decimal digits: 0 to 8."""
    word ^= uint64(_ZEROS)
    other = (((word & uint64(_LOW7)) + uint64(_ABOVE_NINE)) | word) & uint64(_HIGH)
    return _trailing_zeros(other) >> 3


@compiled
def digits_value(word, count):  # type: ignore[no-untyped-def]
    """Integer in the first ``count`` bytes of a word, 1 to 8 digits.

    The digits move to the top of the word, so zeros lead; then neighbors are joined to pairs,
    fours and the whole, one multiplication each (10 a + b for all pairs at once).
    """
    word = (word ^ uint64(_ZEROS)) << uint64(64 - 8 * count)
    word = ((word * uint64(10 << 8 | 1)) >> uint64(8)) & uint64(0x00FF00FF00FF00FF)
    word = ((word * uint64(100 << 16 | 1)) >> uint64(16)) & uint64(0x0000FFFF0000FFFF)
    return (word * uint64(10000 << 32 | 1)) >> uint64(32)


@compiled
def find_byte(text, at, byte):  # type: ignore[no-untyped-def]
    """First position from ``at`` that holds ``byte``, which must occur."""
    pattern = uint64(byte) * uint64(_ONES)
    while True:
        word = word_at(text, at) ^ pattern
        hits = (word - uint64(_ONES)) & ~word & uint64(_HIGH)
        if hits:
            return at + (_trailing_zeros(hits) >> 3)
        at += 8


@compiled
def find_any(text, at, first, second, third):  # type: ignore[no-untyped-def]
    """First position from ``at`` that holds one of three bytes, one of which must occur."""
    one, two = uint64(first) * uint64(_ONES), uint64(second) * uint64(_ONES)
    three = uint64(third) * uint64(_ONES)
    while True:
        word = word_at(text, at)
        a, b, c = word ^ one, word ^ two, word ^ three
        hits = ((a - uint64(_ONES)) & ~a) | ((b - uint64(_ONES)) & ~b)
        hits = (hits | ((c - uint64(_ONES)) & ~c)) & uint64(_HIGH)
        if hits:
            return at + (_trailing_zeros(hits) >> 3)
        at += 8


@compiled
def find_either(text, at, first, second):  # type: ignore[no-untyped-def]
    """First position from ``at`` that holds either byte, one of which must occur."""
    return find_any(text, at, first, second, second)


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
def _round_near_midpoint(mantissa, exponent, near):  # type: ignore[no-untyped-def]
    """Nearest float32 of m * 10**e, where float64 is too close to a midpoint M * 2**q to decide.

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
    return float32(np.uint64(middle).view(np.float64))


@compiled
def nearest_float32(mantissa, exponent):  # type: ignore[no-untyped-def]
    """Float32 nearest to m * 10**e and True, or False if it cannot decide."""
    if mantissa == 0 or exponent < _LEAST:
        return float32(0.0), True
    if exponent > _MOST:
        return float32(0.0), False
    value = float64(mantissa) * _POWERS[exponent - _LEAST]
    if value < _NORMAL:
        steps = value * _SUBNORMALS
        return float32(value), abs(steps - np.floor(steps) - 0.5) > 1e-6
    if abs(int64(bits_of(value) & uint64(_BELOW)) - _MIDPOINT) <= _DOUBT:
        # A mantissa of nineteen digits may lack further ones, which decide near a midpoint.
        if mantissa >= uint64(_ROOM_FOR_ONE) or abs(exponent) >= len(_FIVES):
            return float32(0.0), False
        if mantissa >= _WORD // _FIVES[max(exponent, 0)]:
            return float32(0.0), False
        return _round_near_midpoint(mantissa, exponent, value), True
    single = float32(value)
    return single, single <= _LARGEST


@compiled
def _append_digits(text, at, mantissa):  # type: ignore[no-untyped-def]
    """Append the digits from ``at``; returns the mantissa, the end, and how many did not fit."""
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
def _parse_exponent(text, at):  # type: ignore[no-untyped-def]
    """Read the exponent after an ``e``: its value and its end, or ``at`` if there is none."""
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
def parse_decimal(text, at):  # type: ignore[no-untyped-def]
    """Read a decimal at ``at``: mantissa, exponent, sign, and its end (-1 if it is not one)."""
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += 1
    first = at
    mantissa, at, dropped = _append_digits(text, at, uint64(0))
    exponent, count = dropped, at - first
    if text[at] == _POINT:
        begin = at + 1
        mantissa, at, dropped = _append_digits(text, begin, mantissa)
        exponent -= at - begin - dropped
        count += at - begin
    if count == 0:
        return mantissa, 0, negative, -1
    if text[at] | 32 == 101:  # e or E
        power, end = _parse_exponent(text, at + 1)
        if end == at + 1:
            return mantissa, 0, negative, -1
        exponent, at = exponent + power, end
    return mantissa, exponent, negative, at


@compiled
def parse_float32(text, at):  # type: ignore[no-untyped-def]
    """Read a decimal at ``at``: its float32 and end; -1 if :func:`exact_float32` must decide."""
    mantissa, exponent, negative, end = parse_decimal(text, at)
    if end < 0:
        return float32(0.0), end
    value, known = nearest_float32(mantissa, exponent)
    return (-value if negative else value), (end if known else -1)


@compiled
def parse_short_float32(text, at):  # type: ignore[no-untyped-def]
    """Read the most common form: up to seven digits, or seven, a point and seven; else -1."""
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


DECIMAL = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?", re.ASCII)


def exact_float32(text: str) -> np.float32 | None:
    """Float32 nearest to a decimal, ties to even; None if the text is not a decimal.

    Beyond the range of float32 it is infinite. Rounding to float64 and again to float32 may go wrong at a midpoint,
    whose last bit in float64 is zero. So an inexact float64 with such a bit moves to the neighbor on the side of the
    text (rounding to odd: Boldo & Melquiond 2008, "Emulation of FMA and correctly rounded sums").

    >>> exact_float32("0.1"), exact_float32("1e39")
    (np.float32(0.1), np.float32(inf))
    """
    if DECIMAL.fullmatch(text) is None:
        return None
    value = float(text)
    if value and np.isfinite(value) and not np.float64(value).view(np.uint64) & np.uint64(1):
        exact, rounded = Decimal(text), Decimal(value)
        if exact != rounded:
            value = math.nextafter(value, math.inf if exact > rounded else -math.inf)
    with np.errstate(over="ignore"):
        return np.float32(value)
