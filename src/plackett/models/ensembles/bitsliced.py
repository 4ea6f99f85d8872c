"""All trees for a block of documents at once, with one bit per document.

For a block of documents each distinct question "does the document go right?" is answered once, by a mask with one bit
per document. For each inner node, a tree then splits the mask of the documents that reach it in two, with two logic
operations: no branches to mispredict and no addresses to wait for.

Leaves are numbered from left to right. A document that always turns left ends in leaf 0; a right turn at a node
exchanges the leftmost leaf below its left child for the leftmost leaf below its right child, that is, flips the bits in
which the two numbers differ. Bit p of the leaf's number is thus the parity of the right turns at nodes whose *code* has
bit p, and the XOR of their masks gives it for the whole block. This is the idea of QuickScorer (Lucchese et al. 2015)
with bits for documents instead of leaves.

Every rule for missing values amounts to two replacements before a plain comparison. Minus infinity goes left of
every threshold, and NaN goes right (the test is "not x <= t"):

==============================  ============  =============
missing type, default side       NaN becomes   zero becomes
==============================  ============  =============
none                             0             0
NaN, left                        -inf          0
NaN, right                       NaN           0
zero, left                       -inf          -inf
zero, right                      NaN           NaN
==============================  ============  =============

For sets of categories NaN is kept, and each question stores where NaN goes.

The vector operations are written in LLVM's portable vector types, because LLVM does not turn a loop of 64 comparisons
into one word. A *mask* has 64 documents per lane, the first in the lowest bit. The number of lanes is part of its type;
functions that make a mask take a tuple ``lanes`` and use only its length, so that Numba compiles a kernel once per
width. Indices are not checked here.
"""

from typing import Any, NamedTuple

import llvmlite.ir as ir
import numpy as np
from numba import float32, int64, types, uint32, uint64
from numba.core import cgutils
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model
from numpy.typing import NDArray

from plackett.base.kernels import compiled

DOCUMENTS = 64
"""Documents in one lane of a mask: the bits of a machine word."""

_WORD = ir.IntType(64)


class Vector(types.Type):  # type: ignore[misc]
    """Numba type of ``count`` unsigned integers of ``bits`` bits in machine registers."""

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
    """The address of element ``index`` of an array, as that of a vector."""
    data = cgutils.create_struct_proxy(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


def _splat(builder: Any, value: Any, count: int) -> Any:
    """A vector with the same value in all elements."""
    vector = ir.VectorType(value.type, count)
    place = ir.Constant(ir.IntType(32), 0)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, place)
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), count), [0] * count)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


@intrinsic
def load_mask(typing_context: Any, lanes: Any, words: Any, index: Any) -> Any:  # noqa: ARG001
    """Load mask number ``index`` of an array of words."""
    signature = Vector(64, len(lanes))(lanes, words, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = context.get_value_type(signature.return_type)
        at = builder.mul(arguments[2], ir.Constant(_WORD, vector.count))
        kind = signature.args[1]
        return builder.load(_address(context, builder, kind, arguments[1], at, vector), align=8)

    return signature, generate


@intrinsic
def store_mask(typing_context: Any, words: Any, index: Any, mask: Any) -> Any:  # noqa: ARG001
    """Store a mask as number ``index`` of an array of words."""
    signature = types.void(words, types.int64, mask)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = arguments[2].type
        at = builder.mul(arguments[1], ir.Constant(_WORD, vector.count))
        address = _address(context, builder, signature.args[0], arguments[0], at, vector)
        builder.store(arguments[2], address, align=8)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def empty_mask(typing_context: Any, lanes: Any) -> Any:  # noqa: ARG001
    """A mask of zeros."""
    signature = Vector(64, len(lanes))(lanes)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return ir.Constant(context.get_value_type(signature.return_type), None)

    return signature, generate


@intrinsic
def mask_and(typing_context: Any, one: Any, other: Any) -> Any:  # noqa: ARG001
    """Bits set in both masks."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.and_(arguments[0], arguments[1])

    return one(one, other), generate


@intrinsic
def mask_xor(typing_context: Any, one: Any, other: Any) -> Any:  # noqa: ARG001
    """Bits set in exactly one of two masks."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.xor(arguments[0], arguments[1])

    return one(one, other), generate


@intrinsic
def compare_above(typing_context: Any, values: Any, start: Any, threshold: Any) -> Any:  # noqa: ARG001
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
def zero_numbers(typing_context: Any, like: Any) -> Any:  # noqa: ARG001
    """Sixty-four zeros of the width that the elements of array ``like`` have."""
    signature = Vector(like.dtype.bitwidth, DOCUMENTS)(like)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return ir.Constant(context.get_value_type(signature.return_type), None)

    return signature, generate


@intrinsic
def set_bit(typing_context: Any, numbers: Any, word: Any, bit: Any) -> Any:  # noqa: ARG001
    """Set ``bit`` (a power of two) in the numbers of the documents whose bit in the word is set."""
    signature = numbers(numbers, types.uint64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        vector = arguments[0].type
        is_set = builder.bitcast(arguments[1], ir.VectorType(ir.IntType(1), DOCUMENTS))
        bits = _splat(builder, builder.trunc(arguments[2], vector.element), DOCUMENTS)
        added = builder.select(is_set, bits, ir.Constant(vector, None))
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


_CATEGORIES = float32(2.0**31)  # from here on LightGBM's conversion to int is negative
_BITS = 32  # in a word of a set


class Questions(NamedTuple):
    """Questions grouped by *column*: a feature with one rule for its missing values."""

    offsets: NDArray[np.int64]
    """Offsets of the questions of each column."""
    feature: NDArray[np.int32]
    nan_becomes: NDArray[np.float32]
    zero_becomes: NDArray[np.float32]
    thresholds: NDArray[np.float32]
    """Per question; documents with x above it go right."""
    category_set: NDArray[np.int32]
    """Per question: the set whose members go left, or -1 where the threshold decides."""
    nan_left: NDArray[np.bool_]
    """Per question with a set: whether NaN goes left."""
    set_offsets: NDArray[np.int64]
    """Words of each set."""
    sets: NDArray[np.uint32]
    """Bit b of word w of a set stands for category 32 w + b."""
    tiny: np.float32
    """Values up to this size are read as zero."""
    lowest: np.float32
    """Values at or below this number belong to no category."""


@compiled
def read_value(x, nan_becomes, zero_becomes, tiny):  # type: ignore[no-untyped-def]
    """Replace a missing value; |x| <= tiny counts as zero."""
    if abs(x) <= tiny:
        return zero_becomes
    return nan_becomes if x != x else x


@compiled
def not_in_set(x, nan_left, sets, start, stop, lowest):  # type: ignore[no-untyped-def]
    """Whether a value is not in a set of categories; its fraction is dropped."""
    if x != x:
        return not nan_left
    if not (x > lowest and x < _CATEGORIES):
        return True
    category = int64(x)
    word = start + category // _BITS
    if word >= stop:
        return True
    return (sets[word] >> uint32(category % _BITS)) & uint32(1) == uint32(0)


@compiled
def _not_in_set_mask(  # type: ignore[no-untyped-def]
    column, start, nan_left, sets, first, last, lowest
):
    word = uint64(0)
    for i in range(DOCUMENTS):
        if not_in_set(column[start + i], nan_left, sets, first, last, lowest):
            word |= uint64(1) << uint64(i)
    return word


@compiled
def answer_questions(lanes, rows, questions, column, masks):  # type: ignore[no-untyped-def]
    """Answer all questions for a block of documents; ``column`` is scratch space for a value of each."""
    width, tiny, lowest = len(lanes), questions.tiny, questions.lowest
    for c in range(len(questions.feature)):
        feature = questions.feature[c]
        nan, zero = questions.nan_becomes[c], questions.zero_becomes[c]
        for i in range(len(rows)):
            column[i] = read_value(rows[i, feature], nan, zero, tiny)
        for q in range(questions.offsets[c], questions.offsets[c + 1]):
            category_set = questions.category_set[q]
            if category_set < 0:
                for lane in range(width):
                    masks[q * width + lane] = compare_above(column, int64(lane * DOCUMENTS), questions.thresholds[q])
            else:
                a, b = questions.set_offsets[category_set], questions.set_offsets[category_set + 1]
                for lane in range(width):
                    masks[q * width + lane] = _not_in_set_mask(
                        column, lane * DOCUMENTS, questions.nan_left[q], questions.sets, a, b, lowest
                    )


MAX_PLANES = 16
"""Bits of the largest leaf number."""
_BYTE = 8


class SlicedTrees(NamedTuple):
    """Trees with their nodes in depth-first order."""

    node_offsets: NDArray[np.int64]
    """Offsets of each tree in ``source`` and ``question``."""
    source: NDArray[np.int32]
    """The mask of documents that reach a node: 0 for all documents, 1 + 2i for the left turns at
    node i of the tree, 2 + 2i for the right turns."""
    question: NDArray[np.int32]
    """The question a node asks."""
    planes: NDArray[np.int64]
    """Offsets of each tree in ``turns``'s offsets: how many bits its leaf numbers have."""
    turn_offsets: NDArray[np.int64]
    """Offsets of each plane in ``turns``."""
    turns: NDArray[np.int32]
    """Masks of right turns whose parity is one bit of the leaf's number."""
    leaf_offsets: NDArray[np.int64]
    """Offsets of each tree in ``values``."""
    values: NDArray[np.floating]
    """Leaf values from left to right; their precision is that of the sum."""


@compiled
def _walk(lanes, masks, source, question, flow):  # type: ignore[no-untyped-def]
    for i in range(len(source)):
        here = load_mask(lanes, flow, int64(source[i]))
        right = mask_and(here, load_mask(lanes, masks, int64(question[i])))
        store_mask(flow, int64(1 + 2 * i), mask_xor(here, right))
        store_mask(flow, int64(2 + 2 * i), right)


@compiled
def _leaf_bits(lanes, flow, offsets, turns, planes):  # type: ignore[no-untyped-def]
    for p in range(len(offsets) - 1):
        bits = empty_mask(lanes)
        for k in range(offsets[p], offsets[p + 1]):
            bits = mask_xor(bits, load_mask(lanes, flow, int64(turns[k])))
        store_mask(planes, int64(p), bits)


@compiled
def _add(lanes, planes, n_planes, values, leaf, scores):  # type: ignore[no-untyped-def]
    """Add the values of the leaves to the scores."""
    for lane in range(len(lanes)):
        numbers = zero_numbers(leaf)
        for p in range(n_planes):
            numbers = set_bit(numbers, planes[p * len(lanes) + lane], int64(1) << int64(p))
        store_numbers(leaf, int64(lane * DOCUMENTS), numbers)
    for i in range(len(scores)):
        scores[i] += values[leaf[i]]


@compiled
def score_blocks(lanes, features, questions, trees, scores):  # type: ignore[no-untyped-def]
    """Add the scores of all trees, in the type of the leaf values, in blocks of 64 documents per lane."""
    width = DOCUMENTS * len(lanes)
    masks = np.empty(max(len(questions.thresholds), 1) * len(lanes), np.uint64)
    largest = 0
    for t in range(len(trees.node_offsets) - 1):
        largest = max(largest, trees.node_offsets[t + 1] - trees.node_offsets[t])
    flow = np.empty((1 + 2 * largest) * len(lanes), np.uint64)
    flow[: len(lanes)] = ~uint64(0)
    planes = np.empty(MAX_PLANES * len(lanes), np.uint64)
    narrow, wide = np.zeros(width, np.uint8), np.zeros(width, np.uint16)
    column = np.zeros(width, np.float32)
    for start in range(0, len(features), width):
        rows = features[start : start + width]
        sums = scores[start : start + width]
        answer_questions(lanes, rows, questions, column, masks)
        for t in range(len(trees.node_offsets) - 1):
            a, b = trees.node_offsets[t], trees.node_offsets[t + 1]
            _walk(lanes, masks, trees.source[a:b], trees.question[a:b], flow)
            a, b = trees.planes[t], trees.planes[t + 1]
            _leaf_bits(lanes, flow, trees.turn_offsets[a : b + 1], trees.turns, planes)
            values = trees.values[trees.leaf_offsets[t] : trees.leaf_offsets[t + 1]]
            if b - a <= _BYTE:
                _add(lanes, planes, b - a, values, narrow, sums)
            else:
                _add(lanes, planes, b - a, values, wide, sums)
