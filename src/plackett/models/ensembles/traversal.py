"""One document and one tree after the other, from the root to a leaf.

Best for a document or two, whose bits would leave the masks of the fast path all but empty, and the
only way for what that path does not hold: features of float64 that float32 cannot hold, and
trees with more leaves than its numbers of leaves count.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plackett.base.kernels import compiled
from plackett.models.ensembles.questions import outside, read_value

NODE = np.dtype(
    [
        ("threshold", np.float64),
        ("feature", np.int32),
        ("category_set", np.int32),
        ("nan_becomes", np.float32),
        ("zero_becomes", np.float32),
        ("left", np.int32),
        ("right", np.int32),
    ]
)
"""An inner node in 32 bytes: all that a step down a tree reads comes with one cache line."""


class Nodes(NamedTuple):
    """Inner nodes and leaves in the order that the ensemble has them."""

    nodes: NDArray[np.int64]
    """Offsets of each tree's inner nodes."""
    leaves: NDArray[np.int64]
    """Offsets of each tree's leaves."""
    inner: NDArray[np.void]
    """Inner nodes, of type :data:`NODE`."""
    nan_left: NDArray[np.bool_]
    """Of each inner node: with a set of categories, whether NaN goes left."""
    values: NDArray[np.floating]
    """Leaf values; their precision is that of the sum."""


@compiled
def _goes_right(row, at, nodes, questions):  # type: ignore[no-untyped-def]
    node = nodes.inner[at]
    x = read_value(row[node.feature], node.nan_becomes, node.zero_becomes, questions.tiny)
    chosen = node.category_set
    if chosen < 0:
        return not x <= node.threshold
    start, stop = questions.set_offsets[chosen], questions.set_offsets[chosen + 1]
    return outside(x, nodes.nan_left[at], questions.sets, start, stop, questions.lowest)


@compiled
def traverse(features, nodes, questions, scores):  # type: ignore[no-untyped-def]
    """Add to the scores of documents those of all trees."""
    for tree in range(len(nodes.nodes) - 1):
        first = nodes.nodes[tree]
        root = 0 if nodes.nodes[tree + 1] > first else -1
        for i in range(len(features)):
            node = root
            while node >= 0:
                at = first + node
                right = _goes_right(features[i], at, nodes, questions)
                node = nodes.inner[at].right if right else nodes.inner[at].left
            scores[i] += nodes.values[nodes.leaves[tree] + ~node]
