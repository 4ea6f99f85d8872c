"""The order in which the nodes of a tree are visited: depth first, left before right.

The walk is also the proof that what a file calls a tree is one: it must reach every node and every
leaf once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plackett.base.kernels import compiled


class Order(NamedTuple):
    """Places in the depth-first order, counted from 0 in each tree."""

    node: NDArray[np.int32]
    """Place of each inner node among the inner nodes of its tree."""
    leaf: NDArray[np.int32]
    """Place of each leaf among the leaves of its tree, from left to right."""
    first_leaf: NDArray[np.int32]
    """For each inner node, the place of the leftmost leaf below it."""


@compiled
def _visit(left, right, node, leaf, first_leaf, stack):  # type: ignore[no-untyped-def]
    """Number one tree; return the node that closes a loop or is not reached, or -1."""
    nodes = leaves = size = 0
    current = 0 if len(node) else -1
    while True:
        if current >= 0:
            if node[current] >= 0:
                return current
            node[current] = nodes
            first_leaf[current] = leaves
            nodes += 1
            stack[size] = right[current]
            size += 1
            current = left[current]
            continue
        if leaf[~current] >= 0:
            return len(node) + ~current
        leaf[~current] = leaves
        leaves += 1
        if size == 0:
            break
        size -= 1
        current = stack[size]
    for i in range(len(node)):
        if node[i] < 0:
            return i
    return -1


@compiled
def _visit_all(  # type: ignore[no-untyped-def]
    nodes, leaves, left, right, node, leaf, first_leaf
):
    largest = 0
    for tree in range(len(nodes) - 1):
        largest = max(largest, nodes[tree + 1] - nodes[tree])
    stack = np.empty(largest, np.int32)
    for tree in range(len(nodes) - 1):
        a, b, c, d = nodes[tree], nodes[tree + 1], leaves[tree], leaves[tree + 1]
        wrong = _visit(left[a:b], right[a:b], node[a:b], leaf[c:d], first_leaf[a:b], stack)
        if wrong >= 0:
            return tree, wrong
    return -1, -1


def depth_first(
    nodes: NDArray[np.int64],
    leaves: NDArray[np.int64],
    *,
    left: NDArray[np.int32],
    right: NDArray[np.int32],
) -> tuple[Order, int, int]:
    """Order of all trees, and the first tree and node that break it (-1, -1 if none does).

    Parameters
    ----------
    nodes, leaves
        Offsets of the inner nodes and the leaves of each tree; a tree has one leaf more than
        inner nodes.
    left, right
        Children of each inner node within its tree: ``c >= 0`` is an inner node, ``~c`` a leaf.
        They must be in range. A node beyond the inner ones in the answer is a leaf.
    """
    order = Order(
        np.full(len(left), -1, np.int32),
        np.full(int(leaves[-1]), -1, np.int32),
        np.zeros(len(left), np.int32),
    )
    tree, node = _visit_all(nodes, leaves, left, right, *order)
    return order, int(tree), int(node)
