"""Trees one by one, as files hold them, joined into one ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.models.ensembles.ensemble import Ensemble

_OF_NODES = ("feature", "threshold", "decision", "left", "right", "category_set")


class Tree(NamedTuple):
    """Arrays of one tree; :class:`~plackett.models.ensembles.Ensemble` says what they mean."""

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    decision: NDArray[np.uint8]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    category_set: NDArray[np.int32]
    leaf_values: NDArray[np.float64]
    set_offsets: NDArray[np.int64]
    sets: NDArray[np.uint32]


def assemble(
    trees: Sequence[Tree],
    *,
    library: Literal["lightgbm", "xgboost"],
    n_features: int,
    feature_names: tuple[str, ...] | None = None,
    base_score: float = 0.0,
) -> Ensemble:
    """Join trees; sets of categories are renumbered over all trees."""
    for number, tree in enumerate(trees):
        _check_tree(tree, number)
    category_sets, set_offsets = _renumbered(trees)
    return Ensemble(
        library=library,
        n_features=n_features,
        nodes=_offsets([len(tree.feature) for tree in trees]),
        leaves=_offsets([len(tree.leaf_values) for tree in trees]),
        feature=_joined([tree.feature for tree in trees], np.int32),
        threshold=_joined([tree.threshold for tree in trees], np.float64),
        decision=_joined([tree.decision for tree in trees], np.uint8),
        left=_joined([tree.left for tree in trees], np.int32),
        right=_joined([tree.right for tree in trees], np.int32),
        category_set=_joined(category_sets, np.int32),
        leaf_values=_joined([tree.leaf_values for tree in trees], np.float64),
        set_offsets=set_offsets,
        sets=_joined([tree.sets for tree in trees], np.uint32),
        base_score=base_score,
        feature_names=feature_names,
    )


def _renumbered(trees: Sequence[Tree]) -> tuple[list[NDArray[Any]], NDArray[np.int64]]:
    """Set of each node counted over all trees, and the words of all sets."""
    first_set = _offsets([len(tree.set_offsets) - 1 for tree in trees])
    first_word = _offsets([len(tree.sets) for tree in trees])
    category_sets = [
        np.where(tree.category_set < 0, tree.category_set, tree.category_set + first)
        for tree, first in zip(trees, first_set, strict=False)
    ]
    ends = [tree.set_offsets[1:] + first for tree, first in zip(trees, first_word, strict=False)]
    return category_sets, _joined([np.zeros(1, np.int64), *ends], np.int64)


def _check_tree(tree: Tree, number: int) -> None:
    """Refuse arrays that do not fit each other, before they are joined with others."""
    n_nodes = len(tree.leaf_values) - 1
    for name in _OF_NODES:
        found = len(getattr(tree, name))
        if found != n_nodes:
            raise DataError(
                f"tree {number}: {name} has {found} entries for {n_nodes + 1} leaves; a binary "
                "tree has one leaf more than inner nodes."
            )
    offsets, n_words = tree.set_offsets, len(tree.sets)
    if (
        not len(offsets)
        or offsets[0] != 0
        or offsets[-1] != n_words
        or (np.diff(offsets) < 0).any()
    ):
        raise DataError(f"tree {number}: offsets of its sets must rise from 0 to {n_words}.")


def _offsets(sizes: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _joined(parts: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype)
