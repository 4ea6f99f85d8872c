"""The nearest float32 of a decimal, in exact arithmetic."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np

DECIMAL = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?", re.ASCII)

# A midpoint between two float32 has at most 113 significant digits, so of more only matters
# whether they are all zero.
_DIGITS = 130
_LARGEST_EXPONENT, _LEAST_EXPONENT = 40, -60
_EXPONENT_DIGITS = 30  # no file holds as many digits as would make up for a longer exponent


def exact_float32(text: str) -> np.float32 | None:
    """Float32 nearest to a decimal, ties to even; None if the text is no decimal.

    Beyond the range of float32 it is infinite. With x between 2**e and 2**(e + 1), float32 has
    steps of 2**max(e - 23, -149), and x is rounded to a whole number of them.

    >>> exact_float32("0.1"), exact_float32("1e39")
    (np.float32(0.1), np.float32(inf))
    """
    match = DECIMAL.fullmatch(text)
    if match is None:
        return None
    sign, body, power = match.groups()
    magnitude = _magnitude(body, _clamped(power or "0"))
    return np.float32(-magnitude if sign == "-" else magnitude)


def _clamped(power: str) -> int:
    negative, digits = power.startswith("-"), power.lstrip("+-").lstrip("0")
    value = int(digits[:_EXPONENT_DIGITS] or "0")
    return -value if negative else value


def _magnitude(body: str, power: int) -> float:
    whole, _, fraction = body.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return 0.0
    power -= len(fraction)
    if len(digits) > _DIGITS:
        power += len(digits) - _DIGITS - 1
        digits = digits[:_DIGITS] + ("1" if digits[_DIGITS:].strip("0") else "0")
    if len(digits) + power > _LARGEST_EXPONENT:
        return float("inf")
    if len(digits) + power < _LEAST_EXPONENT:
        return 0.0
    return _round(int(digits) * Fraction(10) ** power)


def _round(x: Fraction) -> float:
    e = x.numerator.bit_length() - x.denominator.bit_length()
    if Fraction(2) ** e > x:
        e -= 1
    step = Fraction(2) ** max(e - 23, -149)
    value = round(x / step) * step
    return float(value) if value < 2**128 else float("inf")
