"""The distinct questions that the nodes of an ensemble ask, and their answers for a block.

A question is a feature, how its missing values are read, and a threshold or a set of categories.
Its answer is a mask with the bits of documents that go *right*.

Every rule about missing values comes down to two replacements before a plain comparison: what NaN
becomes and what zero becomes. Minus infinity goes left of every threshold, and NaN right of it
(the comparison is "not x <= t"):

==============================  ============  =============
missing type, default side       NaN becomes   zero becomes
==============================  ============  =============
none                             0             0
NaN, left                        -inf          0
NaN, right                       NaN           0
zero, left                       -inf          -inf
zero, right                      NaN           NaN
==============================  ============  =============

Sets of categories keep NaN as it is and say per question where it goes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import float32, int64, uint32, uint64
from numpy.typing import NDArray

from plackett.base.kernels import compiled
from plackett.models.ensembles.vectors import DOCUMENTS, above

_CATEGORIES = float32(2.0**31)  # from here on LightGBM's conversion to int is negative
_BITS = 32  # in a word of a set


class Questions(NamedTuple):
    """Questions grouped by *column*: a feature with one way to read its missing values."""

    offsets: NDArray[np.int64]
    """Questions of each column."""
    feature: NDArray[np.int32]
    """Feature of each column."""
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
    """Values up to this number belong to no category."""


@compiled
def read_value(x, nan_becomes, zero_becomes, tiny):  # type: ignore[no-untyped-def]
    """A feature's value with missing ones replaced; |x| <= tiny is zero."""
    if abs(x) <= tiny:
        return zero_becomes
    return nan_becomes if x != x else x


@compiled
def outside(x, nan_left, sets, start, stop, lowest):  # type: ignore[no-untyped-def]
    """Whether a value is no member of a set of categories; its fraction is dropped."""
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
def _outside_mask(  # type: ignore[no-untyped-def]
    column, start, nan_left, sets, first, last, lowest
):
    word = uint64(0)
    for i in range(DOCUMENTS):
        if outside(column[start + i], nan_left, sets, first, last, lowest):
            word |= uint64(1) << uint64(i)
    return word


@compiled
def answer(lanes, rows, questions, column, masks):  # type: ignore[no-untyped-def]
    """Answer all questions for a block of documents.

    ``column`` is scratch space for one value per document.
    """
    width, tiny, lowest = len(lanes), questions.tiny, questions.lowest
    for c in range(len(questions.feature)):
        feature = questions.feature[c]
        nan, zero = questions.nan_becomes[c], questions.zero_becomes[c]
        for i in range(len(rows)):
            column[i] = read_value(rows[i, feature], nan, zero, tiny)
        for q in range(questions.offsets[c], questions.offsets[c + 1]):
            chosen = questions.category_set[q]
            if chosen < 0:
                for lane in range(width):
                    masks[q * width + lane] = above(
                        column, int64(lane * DOCUMENTS), questions.thresholds[q]
                    )
            else:
                a, b = questions.set_offsets[chosen], questions.set_offsets[chosen + 1]
                for lane in range(width):
                    masks[q * width + lane] = _outside_mask(
                        column,
                        lane * DOCUMENTS,
                        questions.nan_left[q],
                        questions.sets,
                        a,
                        b,
                        lowest,
                    )
