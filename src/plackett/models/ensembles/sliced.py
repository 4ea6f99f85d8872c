"""All trees for a block of documents at once, with one bit per document.

Trees of one ensemble ask the same questions again and again. So for a block of documents each
distinct question "does the document go right?" is answered once, by a mask with one bit per
document (:mod:`plackett.models.ensembles.questions`). A tree then takes, per inner node, the mask
of documents that reach it and splits it in two with two logic operations. There are no branches
to mispredict and no addresses to wait for.

Which leaf a document ends in comes out as a number, bit by bit. Leaves are numbered from left to
right. A document that always turns left ends in leaf 0; a right turn at a node exchanges the
leftmost leaf below its left child for the leftmost leaf below its right child, that is, flips those
bits in which the two numbers differ. Bit p of the leaf's number is thus the parity of the right
turns at nodes whose *code* has bit p, and the XOR of their masks gives it for the whole block.

The idea of documents in bits and of leaves found without branches is that of QuickScorer (Lucchese
et al. 2015) turned by ninety degrees: there, bits stand for leaves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int64, uint64
from numpy.typing import NDArray

from plackett.base.kernels import compiled
from plackett.models.ensembles.questions import answer
from plackett.models.ensembles.vectors import (
    DOCUMENTS,
    both,
    differing,
    load_mask,
    no_document,
    no_numbers,
    store_mask,
    store_numbers,
    with_bit,
)

MAX_PLANES = 16
"""Bits of the largest number of a leaf."""
_BYTE = 8


class Trees(NamedTuple):
    """Trees in the order of the walk."""

    nodes: NDArray[np.int64]
    """Offsets of each tree in ``source`` and ``question``."""
    source: NDArray[np.int32]
    """Where the mask of documents that reach a node stands: 0 for all documents, 1 + 2i for
    the left turns at node i of the tree, 2 + 2i for the right turns."""
    question: NDArray[np.int32]
    """The question a node asks."""
    planes: NDArray[np.int64]
    """Offsets of each tree in ``turns``'s offsets: how many bits its leaf numbers have."""
    turn_offsets: NDArray[np.int64]
    """Offsets of each plane in ``turns``."""
    turns: NDArray[np.int32]
    """Masks of right turns whose parity is one bit of the leaf's number."""
    leaves: NDArray[np.int64]
    """Offsets of each tree in ``values``."""
    values: NDArray[np.floating]
    """Leaf values from left to right; their precision is that of the sum."""


@compiled
def _walk(lanes, masks, source, question, flow):  # type: ignore[no-untyped-def]
    for i in range(len(source)):
        here = load_mask(lanes, flow, int64(source[i]))
        right = both(here, load_mask(lanes, masks, int64(question[i])))
        store_mask(flow, int64(1 + 2 * i), differing(here, right))
        store_mask(flow, int64(2 + 2 * i), right)


@compiled
def _leaf_bits(lanes, flow, offsets, turns, planes):  # type: ignore[no-untyped-def]
    for p in range(len(offsets) - 1):
        bits = no_document(lanes)
        for k in range(offsets[p], offsets[p + 1]):
            bits = differing(bits, load_mask(lanes, flow, int64(turns[k])))
        store_mask(planes, int64(p), bits)


@compiled
def _add(lanes, planes, n_planes, values, leaf, scores):  # type: ignore[no-untyped-def]
    """Add the values of the leaves to the scores."""
    for lane in range(len(lanes)):
        numbers = no_numbers(leaf)
        for p in range(n_planes):
            numbers = with_bit(numbers, planes[p * len(lanes) + lane], int64(1) << int64(p))
        store_numbers(leaf, int64(lane * DOCUMENTS), numbers)
    for i in range(len(scores)):
        scores[i] += values[leaf[i]]


@compiled
def score_blocks(lanes, features, questions, trees, scores):  # type: ignore[no-untyped-def]
    """Add to the scores of documents those of all trees.

    Documents are taken in blocks of 64 per lane; ``scores`` has the precision of the leaf values.
    """
    width = DOCUMENTS * len(lanes)
    masks = np.empty(max(len(questions.thresholds), 1) * len(lanes), np.uint64)
    largest = np.max(np.diff(trees.nodes))
    flow = np.empty((1 + 2 * largest) * len(lanes), np.uint64)
    flow[: len(lanes)] = ~uint64(0)
    planes = np.empty(MAX_PLANES * len(lanes), np.uint64)
    narrow, wide = np.zeros(width, np.uint8), np.zeros(width, np.uint16)
    column = np.zeros(width, np.float32)
    for start in range(0, len(features), width):
        rows = features[start : start + width]
        sums = scores[start : start + width]
        answer(lanes, rows, questions, column, masks)
        for t in range(len(trees.nodes) - 1):
            a, b = trees.nodes[t], trees.nodes[t + 1]
            _walk(lanes, masks, trees.source[a:b], trees.question[a:b], flow)
            a, b = trees.planes[t], trees.planes[t + 1]
            _leaf_bits(lanes, flow, trees.turn_offsets[a : b + 1], trees.turns, planes)
            values = trees.values[trees.leaves[t] : trees.leaves[t + 1]]
            if b - a <= _BYTE:
                _add(lanes, planes, b - a, values, narrow, sums)
            else:
                _add(lanes, planes, b - a, values, wide, sums)
