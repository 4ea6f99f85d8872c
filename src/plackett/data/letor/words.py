"""Text eight bytes at a time: the operations on machine words under the scanner.

A word holds eight consecutive bytes, the first in its lowest byte (all machines that Numba
serves are little-endian). Adding, masking and counting zero bits then answers in a few cycles
"how many digits come next?" and "where does the line end?" (Lamport 1975, "Multiple byte
processing with full-word instructions"). Callers see to it that :data:`PADDING` bytes can be read
behind every line.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir
from numba import config, types, uint64
from numba.core import cgutils
from numba.extending import intrinsic

from plackett.base.kernels import compiled

PADDING = 32
"""Bytes that can be read behind the last line of any piece of text."""

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


@intrinsic
def bits_of(typing_context: Any, number: Any) -> Any:  # noqa: ARG001
    """Bits of a float64 as a uint64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.uint64(types.float64), generate


@intrinsic
def from_bits(typing_context: Any, bits: Any) -> Any:  # noqa: ARG001
    """Return the float64 with these bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.uint64), generate


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
    """Integer spelled by the first ``count`` bytes of a word, 1 to 8 digits.

    The digits move to the top of the word, so zeros lead; then neighbours are joined to pairs,
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
        found = (word - uint64(_ONES)) & ~word & uint64(_HIGH)
        if found:
            return at + (_trailing_zeros(found) >> 3)
        at += 8


@compiled
def find_any(text, at, first, second, third):  # type: ignore[no-untyped-def]
    """First position from ``at`` that holds one of three bytes, one of which must occur."""
    one, two = uint64(first) * uint64(_ONES), uint64(second) * uint64(_ONES)
    three = uint64(third) * uint64(_ONES)
    while True:
        word = word_at(text, at)
        a, b, c = word ^ one, word ^ two, word ^ three
        found = ((a - uint64(_ONES)) & ~a) | ((b - uint64(_ONES)) & ~b)
        found = (found | ((c - uint64(_ONES)) & ~c)) & uint64(_HIGH)
        if found:
            return at + (_trailing_zeros(found) >> 3)
        at += 8


@compiled
def find_either(text, at, first, second):  # type: ignore[no-untyped-def]
    """First position from ``at`` that holds either byte, one of which must occur."""
    one, two = uint64(first) * uint64(_ONES), uint64(second) * uint64(_ONES)
    while True:
        word = word_at(text, at)
        a, b = word ^ one, word ^ two
        found = (((a - uint64(_ONES)) & ~a) | ((b - uint64(_ONES)) & ~b)) & uint64(_HIGH)
        if found:
            return at + (_trailing_zeros(found) >> 3)
        at += 8
