"""Machine vectors in compiled code: one bit per document, and 64 small numbers at once.

LLVM turns plain loops into vector code only where it can prove much about them; it does not find
"64 comparisons to one word of 64 bits" at all. These few operations say it outright, in LLVM's own
portable vector types: on a machine without wide registers it splits them, and the answer is the
same.

A *mask* answers one question for 64 documents per lane, the first in the lowest bit. How many
lanes a mask has is part of its type; functions that make one take a tuple ``lanes`` and read only
its length, so that Numba compiles a kernel once per width.

Indices are trusted here, as everywhere in kernels, and seen by no bounds check.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

DOCUMENTS = 64
"""Documents in one lane of a mask: the bits of a machine word."""

_WORD = ir.IntType(64)


class Vector(types.Type):  # type: ignore[misc]
    """Numba's name for ``count`` unsigned integers of ``bits`` bits in machine registers."""

    def __init__(self, bits: int, count: int) -> None:
        self.bits = bits
        self.count = count
        super().__init__(name=f"Vector({bits} x {count})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Vector) -> None:
        vector = ir.VectorType(ir.IntType(fe_type.bits), fe_type.count)
        super().__init__(dmm, fe_type, vector)


def _address(context: Any, builder: Any, kind: Any, array: Any, index: Any, vector: Any) -> Any:
    """Where element ``index`` of an array is, as the address of a vector."""
    data = cgutils.create_struct_proxy(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


def _splat(builder: Any, value: Any, count: int) -> Any:
    """One value in all places of a vector."""
    vector = ir.VectorType(value.type, count)
    place = ir.Constant(ir.IntType(32), 0)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, place)
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), count), [0] * count)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


@intrinsic
def load_mask(typing_context: Any, lanes: Any, words: Any, index: Any) -> Any:  # noqa: ARG001
    """Mask number ``index`` of an array of words."""
    signature = Vector(64, len(lanes))(lanes, words, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = context.get_value_type(signature.return_type)
        at = builder.mul(arguments[2], ir.Constant(_WORD, vector.count))
        kind = signature.args[1]
        return builder.load(_address(context, builder, kind, arguments[1], at, vector), align=8)

    return signature, generate


@intrinsic
def store_mask(typing_context: Any, words: Any, index: Any, mask: Any) -> Any:  # noqa: ARG001
    """Put a mask at place ``index`` of an array of words."""
    signature = types.void(words, types.int64, mask)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = arguments[2].type
        at = builder.mul(arguments[1], ir.Constant(_WORD, vector.count))
        address = _address(context, builder, signature.args[0], arguments[0], at, vector)
        builder.store(arguments[2], address, align=8)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def no_document(typing_context: Any, lanes: Any) -> Any:  # noqa: ARG001
    """A mask of zeros."""
    signature = Vector(64, len(lanes))(lanes)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return ir.Constant(context.get_value_type(signature.return_type), None)

    return signature, generate


@intrinsic
def both(typing_context: Any, one: Any, other: Any) -> Any:  # noqa: ARG001
    """Bits set in two masks."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.and_(arguments[0], arguments[1])

    return one(one, other), generate


@intrinsic
def differing(typing_context: Any, one: Any, other: Any) -> Any:  # noqa: ARG001
    """Bits set in one of two masks, not in both."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.xor(arguments[0], arguments[1])

    return one(one, other), generate


@intrinsic
def above(typing_context: Any, values: Any, start: Any, threshold: Any) -> Any:  # noqa: ARG001
    """One bit for each of 64 float32 values: set where it is above the threshold or NaN."""
    signature = types.uint64(values, types.int64, types.float32)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.FloatType(), DOCUMENTS)
        kind = signature.args[0]
        address = _address(context, builder, kind, arguments[0], arguments[1], vector)
        thresholds = _splat(builder, arguments[2], DOCUMENTS)
        answers = builder.fcmp_unordered(">", builder.load(address, align=4), thresholds)
        return builder.bitcast(answers, _WORD)

    return signature, generate


@intrinsic
def no_numbers(typing_context: Any, like: Any) -> Any:  # noqa: ARG001
    """Sixty-four zeros of the width that the elements of array ``like`` have."""
    signature = Vector(like.dtype.bitwidth, DOCUMENTS)(like)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return ir.Constant(context.get_value_type(signature.return_type), None)

    return signature, generate


@intrinsic
def with_bit(typing_context: Any, numbers: Any, word: Any, bit: Any) -> Any:  # noqa: ARG001
    """Numbers of 64 documents with ``bit`` (a power of two) set for those in the word."""
    signature = numbers(numbers, types.uint64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        vector = arguments[0].type
        chosen = builder.bitcast(arguments[1], ir.VectorType(ir.IntType(1), DOCUMENTS))
        bits = _splat(builder, builder.trunc(arguments[2], vector.element), DOCUMENTS)
        added = builder.select(chosen, bits, ir.Constant(vector, None))
        return builder.or_(arguments[0], added)

    return signature, generate


@intrinsic
def store_numbers(typing_context: Any, array: Any, start: Any, numbers: Any) -> Any:  # noqa: ARG001
    """Write 64 numbers to an array."""
    signature = types.void(array, types.int64, numbers)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = arguments[2].type
        kind = signature.args[0]
        address = _address(context, builder, kind, arguments[0], arguments[1], vector)
        builder.store(arguments[2], address, align=vector.element.width // 8)
        return context.get_dummy_value()

    return signature, generate
