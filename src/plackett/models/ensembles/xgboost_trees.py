"""One tree of an XGBoost file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.models.ensembles.assembly import Tree
from plackett.models.ensembles.decisions import MISSING_NAN, decision_bits
from plackett.models.ensembles.fields import at, numbers

_NO_CHILD = -1
_CATEGORIES = 1 << 24  # float32 holds no more whole numbers without gaps
_BITS = 32
_WORDS_PER_BYTE = 16


class Budget:
    """Words of sets that a file may claim, in proportion to its size.

    A set is a bit per category up to its largest: a few bytes of text could ask for megabytes.
    """

    def __init__(self, size: int) -> None:
        self.left = _WORDS_PER_BYTE * size

    def spend(self, words: int, where: str) -> None:
        """Refuse what goes beyond."""
        self.left -= words
        if self.left < 0:
            raise DataError(f"{where}: its sets of categories are too large for the file.")


def read_tree(tree: Any, number: int, budget: Budget) -> Tree:
    """Arrays of one tree."""
    where = f"tree {number}"
    if not isinstance(tree, dict):
        raise DataError(f"{where} is not an object.")
    leaf_size = at(at(tree, "tree_param", dict), "size_leaf_vector", str)
    if leaf_size not in ("0", "1"):
        raise DataError(f"{where} has vectors at its leaves; only one score per document is read.")
    inner, leaf, left, right = _children(tree, where)
    conditions = _sized(tree, "split_conditions", np.float32, len(inner), where)
    kinds = _sized(tree, "split_type", np.uint8, len(inner), where)[inner]
    if (kinds > 1).any():
        raise DataError(f"{where}: split_type must be 0 (numeric) or 1 (categorical).")
    categorical = kinds == 1
    default_left = _sized(tree, "default_left", np.uint8, len(inner), where)[inner] != 0
    category_set, set_offsets, sets = _sets(tree, inner, categorical, where, budget)
    return Tree(
        feature=_sized(tree, "split_indices", np.int32, len(inner), where)[inner],
        threshold=_next_below(conditions[inner], categorical, where),
        decision=decision_bits(categorical, default_left != categorical, MISSING_NAN),
        left=np.where(categorical, right, left),
        right=np.where(categorical, left, right),
        category_set=category_set,
        leaf_values=conditions[leaf].astype(np.float64),
        set_offsets=set_offsets,
        sets=sets,
    )


def _children(
    tree: Any, where: str
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.int32], NDArray[np.int32]]:
    """Which nodes are inner ones and which leaves, and the children of the inner ones."""
    left = numbers(tree, "left_children", np.int32, where=where)
    right = numbers(tree, "right_children", np.int32, where=where)
    reached = _reached(left, right, where)
    inner = reached & (left != _NO_CHILD)
    if (right[inner] != left[inner] + 1).any():
        # XGBoost itself goes to the left child or the node after it.
        raise DataError(f"{where}: a right child does not stand next to the left one.")
    leaf = reached & ~inner
    # New number of each node: inner nodes count up from 0, leaves down from -1.
    renumbered = np.where(inner, np.cumsum(inner) - 1, -np.cumsum(leaf)).astype(np.int32)
    return inner, leaf, renumbered[left[inner]], renumbered[right[inner]]


def _sized(tree: Any, key: str, dtype: Any, size: int, where: str) -> NDArray[Any]:
    found = numbers(tree, key, dtype, where=where)
    if len(found) != size:
        raise DataError(f"{where}: {key} has {len(found)} entries for {size} nodes.")
    return found


def _reached(left: NDArray[np.int32], right: NDArray[np.int32], where: str) -> NDArray[np.bool_]:
    """Nodes below the root, level by level; a node met twice, or outside, is refused."""
    if len(left) == 0 or len(left) != len(right):
        raise DataError(f"{where}: {len(left)} left children and {len(right)} right ones.")
    reached = np.zeros(len(left), np.bool_)
    level = np.zeros(1, np.int32)
    while len(level):
        if level.min() < 0 or level.max() >= len(left):
            raise DataError(f"{where}: a child is not in the tree; nodes are 0 to {len(left) - 1}.")
        if reached[level].any() or len(np.unique(level)) < len(level):
            raise DataError(f"{where}: a node has several parents.")
        reached[level] = True
        parents = level[left[level] != _NO_CHILD]
        level = np.concatenate([left[parents], right[parents]])
    return reached


def _next_below(
    conditions: NDArray[np.float32], categorical: NDArray[np.bool_], where: str
) -> NDArray[np.float64]:
    """Thresholds t' such that x <= t' is x < t in float32."""
    numeric = conditions[~categorical]
    if np.isnan(numeric).any() or np.isneginf(numeric).any():
        raise DataError(f"{where}: a threshold is not a number above minus infinity.")
    below = np.zeros(len(conditions), np.float64)
    with np.errstate(over="ignore", under="ignore"):
        below[~categorical] = np.nextafter(numeric, np.float32(-np.inf))
    return below


def _sets(
    tree: Any,
    inner: NDArray[np.bool_],
    categorical: NDArray[np.bool_],
    where: str,
    budget: Budget,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.uint32]]:
    """Number of the set of each inner node, and the sets as bits."""
    chosen = np.full(len(categorical), -1, np.int32)
    if not categorical.any():
        return chosen, np.zeros(1, np.int64), np.empty(0, np.uint32)
    categories = numbers(tree, "categories", np.int64, where=where)
    nodes = numbers(tree, "categories_nodes", np.int64, where=where)
    starts = _sized(tree, "categories_segments", np.int64, len(nodes), where)
    counts = _sized(tree, "categories_sizes", np.int64, len(nodes), where)
    if len(categories) and (categories.min() < 0 or categories.max() >= _CATEGORIES):
        raise DataError(f"{where}: categories must be 0 to {_CATEGORIES - 1}.")
    if (starts < 0).any() or (counts < 0).any() or (starts > len(categories) - counts).any():
        raise DataError(f"{where}: a set of categories lies outside the list of categories.")
    number = {int(node): i for i, node in enumerate(nodes)}
    owners = np.flatnonzero(inner)[categorical].tolist()
    if not number.keys() >= set(owners):
        raise DataError(f"{where}: a categorical split without a set.")
    chosen[categorical] = [number[node] for node in owners]
    words = []
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        members = categories[start : start + count]
        size = int(members.max(initial=-1)) // _BITS + 1
        budget.spend(size + count, where)
        words.append(_bitset(members, size))
    return chosen, np.cumsum([0, *map(len, words)]), np.concatenate(words)


def _bitset(members: NDArray[np.int64], size: int) -> NDArray[np.uint32]:
    words = np.zeros(size, np.uint32)
    bits = np.uint32(1) << (members % _BITS).astype(np.uint32)
    np.bitwise_or.at(words, members // _BITS, bits)
    return words
