"""Decimals become the nearest float32, whatever their spelling."""

from __future__ import annotations

import doctest
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from letor_reference import nearest_float32
from plackett.base import decimals as exact
from plackett.base.decimals import PADDING, digits_ahead, digits_value, parse_float32, parse_short_float32, word_at

SPELLINGS = [
    "0 -0 +1 1. .5 -.5 00012.500 1e5 1E-5 1e+05 0e999999999999999999999 1e-999999999999999999999",
    "16777217 16777219 8388609.5 8388608.5 4194304.25 4194304.75 33554434 33554435 99999999",
    "0.1 0.3 123456.789 9999999.9999999 0.0000001 1234567.1234567 12345678.12345678",
    "3.4028234663852886e38 3.4028235e38 340282346638528859811704183484516925440",
    "1.17549435e-38 1.1754943e-38 1.4e-45 1e-45 7.1e-46 7e-46 1e-60 1e-300 4.9e-324",
    "18446744073709551615 18446744073709551616 12345678901234567890123456789",
    "0.00000000000000000000000000000000000000000000123456789 1234567890123456789e-19",
    "0.1234567890123456789012345 1.00000005960464477539062499999 1.00000005960464477539062500001",
]


def as_text(token: str) -> np.ndarray:
    return np.frombuffer(token.encode() + b"\n" + bytes(PADDING), dtype=np.uint8)


def read(token: str) -> float:
    """What the parser makes of a token: the compiled reader, or exact arithmetic where it stops."""
    text = as_text(token)
    short, short_end = parse_short_float32(text, 0)
    value, end = parse_float32(text, 0)
    if short_end == len(token) and end >= 0:
        assert np.float32(short).view(np.uint32) == np.float32(value).view(np.uint32)
    if end < 0:
        actual = exact.exact_float32(token)
        assert actual is not None
        return float(actual)
    assert end == len(token)
    return float(value)


def check(token: str) -> None:
    expected = nearest_float32(token)
    for actual in (read(token), float(exact.exact_float32(token))):  # type: ignore[arg-type]
        assert actual == expected, token
        assert np.signbit(actual) == token.startswith("-")


@pytest.mark.parametrize("zeros", [0, 1, 20, 107, 140])
@pytest.mark.parametrize("end", ["", "1", "9"])
def test_digits_far_behind_a_midpoint_decide(zeros: int, end: str) -> None:
    check("100.000003814697265625" + "0" * zeros + end)
    check("100.0000038146972656249" + "9" * zeros + end)


@pytest.mark.parametrize("token", " ".join(SPELLINGS).split())
def test_a_spelling_gives_its_nearest_float32(token: str) -> None:
    check(token)


@settings(max_examples=500, deadline=None)
@given(st.from_regex(r"[+-]?([0-9]{1,25}\.?[0-9]{0,25}|\.[0-9]{1,30})([eE][+-]?[0-9]{1,2})?", fullmatch=True))
def test_any_decimal_gives_its_nearest_float32(token: str) -> None:
    check(token)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 0x7F7FFFFF), st.sampled_from(["", "1", "-1"]), st.integers(0, 40))
def test_decimals_at_and_beside_a_midpoint_round_as_exact_arithmetic_says(bits: int, nudge: str, zeros: int) -> None:
    low, high = np.array([bits - 1, bits], dtype=np.uint32).view(np.float32).astype(float)
    middle = (Fraction(low) + Fraction(high)) / 2
    # Every midpoint is a whole number of 2**-150, so it has at most 150 decimals.
    scaled = int(middle * 10**150) * 10**zeros + int(nudge or 0)
    digits = str(scaled).rjust(150 + zeros + 1, "0")
    check(f"{digits[: -150 - zeros]}.{digits[-150 - zeros :]}")


@settings(max_examples=300, deadline=None)
@given(st.integers(0, (1 << 24) - 1), st.integers(-30, 3), st.integers(-1, 1))
def test_short_midpoints_are_settled_without_exact_arithmetic(mantissa: int, power: int, nudge: int) -> None:
    middle = Fraction(2 * (mantissa | 1 << 23) + 1) * Fraction(2) ** power
    decimals = 0
    while (middle * 10**decimals).denominator > 1 and decimals < 9:
        decimals += 1
    whole = int(middle * 10**decimals) + nudge
    check(f"{whole}e-{decimals}")


def test_a_large_half_is_settled_in_compiled_code() -> None:
    value, end = parse_float32(as_text("8388609.5"), 0)
    assert (float(value), end) == (8388610.0, 9)


@pytest.mark.parametrize("token", ["", ".", "-", "e5", "1e", "1e+", "x", "--1", "+-1", "nan", "inf"])
def test_what_is_no_decimal_is_refused(token: str) -> None:
    assert parse_float32(as_text(token), 0)[1] == -1
    assert exact.exact_float32(token) is None


def test_a_decimal_ends_before_what_is_not_part_of_it() -> None:
    assert parse_float32(as_text("1.5x"), 0)[1] == 3
    assert exact.exact_float32("1.5x") is None


def test_a_million_digits_are_read() -> None:
    assert read("0." + "0" * 1_000 + "1" * 5_000 + "e1000") == np.float32(1) / np.float32(9)
    assert read("1" * 1_000_000 + "e-999990") == np.float32(1111111111.1111111)


@settings(deadline=None)
@given(st.integers(0, 99_999_999), st.integers(1, 8), st.sampled_from(" :.e\n/\xff"))
def test_leading_digits_of_a_word_are_counted_and_read(value: int, count: int, stop: str) -> None:
    digits = str(value % 10**count).rjust(count, "0")
    text = np.frombuffer((digits + stop + "7" * 8).encode("latin-1"), dtype=np.uint8)
    word = np.uint64(word_at(text, 0))
    assert digits_ahead(word) == count
    assert digits_value(word, count) == int(digits)


def test_examples_in_the_documentation_hold() -> None:
    assert doctest.testmod(exact).failed == 0
