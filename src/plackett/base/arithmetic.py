r"""Arithmetic and sorting inside compiled kernels.

Exponential, logarithm, largest and smallest value have forms that compile to vector code.

The library's ``exp`` and ``log`` are calls, and a loop with a call runs one number at a time. Here
they are sums and products after the usual argument reduction:

- :math:`e^x = 2^k e^r` with :math:`k = \mathrm{round}(x / \ln 2)` and :math:`|r| \le \ln 2 / 2`,
  by Taylor's series: thirteen terms leave :math:`4 \cdot 10^{-18}` in double precision, seven
  leave :math:`5 \cdot 10^{-9}` in single precision;
- :math:`\ln x = e \ln 2 + 2 \operatorname{artanh} s` with :math:`x = 2^e m`,
  :math:`m \in [\sqrt{1/2}, \sqrt 2)`, :math:`s = (m - 1)/(m + 1)`, by its series in
  :math:`s^2 \le 0.03`.

They agree with the library to two units in the last place (single precision: to 2e-7). They do not
accept NaN; ``exp`` saturates outside +-708 (87 in single precision) and ``log`` takes positive
normal numbers only.

A compiler does not vectorize ``max`` of floats, because NaN makes it order-dependent. The bits of a
float64, with all bits except the sign flipped if it is negative, are integers in the same order,
and ``max`` of integers becomes vector code. NaN counts as beyond the infinity of its sign.

:func:`stable_order` sorts as ``np.argsort(keys, kind="stable")``, whose version in Numba takes a second or two
to compile in each kernel that sorts.
"""

import math

import numpy as np
from numba import float32, float64, int32, int64

from plackett.base.kernels import compiled

_INVERSE_LN2 = 1.0 / math.log(2.0)
# ln 2 in two parts: the first ends in zeros, so that k times it is exact.
_LN2_HIGH = 0.6931471803691238
_LN2_LOW = 1.9082149292705877e-10
_LN2_HIGH_SINGLE = 0.693145751953125
_LN2_LOW_SINGLE = 1.4286068203094172e-06
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_MANTISSA, _MANTISSA_SINGLE = 52, 23
_BIAS, _BIAS_SINGLE = 1023, 127
# Coefficients of the series, from the highest power to the lowest.
_EXP = tuple(1 / math.factorial(n) for n in range(13, -1, -1))
_LOG = tuple(1 / n for n in range(21, 2, -2))


@compiled
def exp(x):  # type: ignore[no-untyped-def]
    """The exponential of a float64."""
    x = min(max(x, -708.0), 709.0)
    k = np.rint(x * _INVERSE_LN2)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = _EXP[0]
    for coefficient in _EXP[1:]:
        p = p * r + coefficient
    return p * np.int64((int64(k) + int64(_BIAS)) << int64(_MANTISSA)).view(np.float64)


@compiled
def exp_float32(x):  # type: ignore[no-untyped-def]
    """The exponential of a float32."""
    x = min(max(x, float32(-87.0)), float32(88.0))
    k = np.rint(x * float32(_INVERSE_LN2))
    r = (x - k * float32(_LN2_HIGH_SINGLE)) - k * float32(_LN2_LOW_SINGLE)
    p = float32(_EXP[-8])
    for coefficient in _EXP[-7:]:
        p = p * r + float32(coefficient)
    bits = (int32(k) + int32(_BIAS_SINGLE)) << int32(_MANTISSA_SINGLE)
    return p * np.int32(bits).view(np.float32)


@compiled
def log(x):  # type: ignore[no-untyped-def]
    """The natural logarithm of a positive, normal float64."""
    bits = np.float64(x).view(np.int64)
    e = (bits - int64(_SQRT_HALF_BITS)) >> int64(_MANTISSA)
    f = np.int64(bits - (e << int64(_MANTISSA))).view(np.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    p = _LOG[0]
    for coefficient in _LOG[1:]:
        p = p * z + coefficient
    k = float64(e)
    return k * _LN2_HIGH + (2.0 * s + (2.0 * s * z * p + k * _LN2_LOW))


_ALL_BUT_SIGN = 0x7FFFFFFFFFFFFFFF


@compiled
def _to_ordered_int(word):  # type: ignore[no-untyped-def]
    """Map the bits of a float64 to an integer in the same order, and back."""
    return word ^ ((word >> int64(63)) & int64(_ALL_BUT_SIGN))


@compiled
def largest(values):  # type: ignore[no-untyped-def]
    """The largest float64."""
    high = int64(-_ALL_BUT_SIGN)
    for i in range(len(values)):
        high = max(high, _to_ordered_int(np.float64(values[i]).view(np.int64)))
    return np.int64(_to_ordered_int(high)).view(np.float64)


@compiled
def extremes(values):  # type: ignore[no-untyped-def]
    """The smallest and the largest float64."""
    low, high = int64(_ALL_BUT_SIGN), int64(-_ALL_BUT_SIGN)
    for i in range(len(values)):
        word = _to_ordered_int(np.float64(values[i]).view(np.int64))
        low = min(low, word)
        high = max(high, word)
    return np.int64(_to_ordered_int(low)).view(np.float64), np.int64(_to_ordered_int(high)).view(np.float64)


_RUN = 16  # positions that are sorted by insertion, before runs are merged


@compiled
def _precedes(a, b, falling):  # type: ignore[no-untyped-def]
    return (a > b if falling else a < b) or (b != b and a == a)  # NaN goes last


@compiled
def _merge(keys, runs, low, middle, high, falling, out):  # type: ignore[no-untyped-def]
    first, second, place = low, middle, low
    while first < middle and second < high:
        a, b = runs[first], runs[second]
        later = _precedes(keys[b], keys[a], falling)
        out[place] = b if later else a
        second += later
        first += not later
        place += 1
    for rest in range(first, middle):
        out[place] = runs[rest]
        place += 1
    for rest in range(second, high):
        out[place] = runs[rest]
        place += 1


@compiled
def stable_order(keys, falling):  # type: ignore[no-untyped-def]
    """Positions of rising (or falling) keys; equal keys keep their order, NaN goes last."""
    n = len(keys)
    order = np.empty(n, np.int64)
    for low in range(0, n, _RUN):
        for i in range(low, min(low + _RUN, n)):
            place = i
            while place > low and _precedes(keys[i], keys[order[place - 1]], falling):
                order[place] = order[place - 1]
                place -= 1
            order[place] = i
    if n <= _RUN:
        return order
    other = np.empty(n, np.int64)
    width = _RUN
    while width < n:
        for low in range(0, n, 2 * width):
            _merge(keys, order, low, min(low + width, n), min(low + 2 * width, n), falling, other)
        order, other = other, order
        width *= 2
    return order
