"""Trees as nested objects, built from the leaves up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from plackett.base.errors import UsageError
from plackett.serving.export.trees import Trees

T = TypeVar("T")
_DEEPEST = 400  # of what readers of JSON and XML take, Python's own among them


def nested(
    trees: Trees,
    tree: int,
    *,
    leaf: Callable[[int, int], T],
    split: Callable[[int, int, T, T], T],
) -> T:
    """One tree as an object.

    Parameters
    ----------
    trees, tree
        Which tree of which ensemble.
    leaf
        Makes the object of a leaf out of its place in ``trees.values`` and its depth.
    split
        Makes that of an inner node out of its place in ``trees.feature``, its depth, and the
        objects of its children.
    """
    first, last = int(trees.nodes[tree]), int(trees.nodes[tree + 1])
    first_leaf = int(trees.leaves[tree])
    if first == last:
        return leaf(first_leaf, 0)
    depth = {0: 0}
    order, waiting = [], [0]
    while waiting:
        node = waiting.pop()
        order.append(node)
        for child in (int(trees.left[first + node]), int(trees.right[first + node])):
            depth[child] = depth[node] + 1
            if depth[child] > _DEEPEST:
                raise UsageError(
                    f"tree {tree} is more than {_DEEPEST} splits deep, too deep for nested text; "
                    "export as lightgbm-text, xgboost-json or onnx."
                )
            if child >= 0:
                waiting.append(child)
    made: dict[int, T] = {}
    for node in reversed(order):
        left, right = (
            made.pop(child) if child >= 0 else leaf(first_leaf + ~child, depth[child])
            for child in (int(trees.left[first + node]), int(trees.right[first + node]))
        )
        made[node] = split(first + node, depth[node], left, right)
    return made[0]
