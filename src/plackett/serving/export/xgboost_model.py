r"""XGBoost's ``save_model``, as JSON or UBJSON.

XGBoost decides :math:`x < t` in float32, so each threshold becomes the next float32 above, and sums
leaves in float32. Leaves also stand in ``base_weights``, because OpenSearch's reader of this format
takes them from there. It ignores ``base_score``: for it the base is a tree of one leaf.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.serving.export.trees import LARGEST, Trees

_VERSION = [2, 1, 0]  # the oldest XGBoost whose files look like this; newer ones read them
_NO_PARENT = 2147483647
Single = NDArray[np.float32]


def xgboost_model(
    trees: Trees, names: tuple[str, ...], *, base_as_tree: bool = False
) -> dict[str, Any]:
    """Trees as XGBoost's model, with arrays still arrays."""
    if base_as_tree:
        trees = trees.with_base_as_tree()
    parameters = {
        "base_score": repr(float(np.float32(trees.base))),
        "boost_from_average": "1",
        "num_class": "0",
        "num_feature": str(len(names)),
        "num_target": "1",
    }
    learner = {
        "attributes": {},
        "feature_names": list(names),
        "feature_types": ["float"] * len(names),
        "gradient_booster": _booster(trees),
        "learner_model_param": parameters,
        "objective": {"lambdarank_param": dict(_RANKING), "name": "rank:pairwise"},
    }
    return {"learner": learner, "version": list(_VERSION)}


def _booster(trees: Trees) -> dict[str, Any]:
    n = trees.n_trees
    model = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(n)},
        "iteration_indptr": list(range(n + 1)),
        "tree_info": [0] * n,
        "trees": [_tree(trees, tree) for tree in range(n)],
    }
    return {"model": model, "name": "gbtree"}


_RANKING = {
    "lambdarank_num_pair_per_sample": "4294967295",
    "lambdarank_pair_method": "topk",
    "lambdarank_unbiased": "0",
    "lambdarank_bias_norm": "1",
    "ndcg_exp_gain": "1",
}


def _tree(trees: Trees, tree: int) -> dict[str, Any]:
    """The root, then the children of each inner node side by side.

    XGBoost goes to the left child or the node after it, whatever stands in ``right_children``.
    """
    inner = slice(int(trees.nodes[tree]), int(trees.nodes[tree + 1]))
    values = trees.values[trees.leaves[tree] : trees.leaves[tree + 1]].astype(np.float32)
    n_nodes = 2 * len(values) - 1
    first = 1 + 2 * np.arange(len(values) - 1, dtype=np.int32)
    inner_at, leaf_at = _places(trees.left[inner], trees.right[inner], first)
    parents = np.full(n_nodes, _NO_PARENT, np.int32)
    parents[first] = parents[first + 1] = inner_at

    def spread(of_inner: Any, of_leaves: Any, dtype: Any) -> NDArray[Any]:
        out = np.zeros(n_nodes, dtype)
        out[inner_at], out[leaf_at] = of_inner, of_leaves
        return out

    return {
        **_without_meaning(n_nodes, trees.n_features),
        "base_weights": spread(0, values, np.float32),
        "default_left": spread(trees.nan_left[inner], 0, np.uint8),
        "id": tree,
        "left_children": spread(first, -1, np.int32),
        "parents": parents,
        "right_children": spread(first + 1, -1, np.int32),
        "split_conditions": spread(next_above(trees.threshold[inner]), values, np.float32),
        "split_indices": spread(trees.feature[inner], 0, np.int32),
    }


def _places(
    left: NDArray[np.int32], right: NDArray[np.int32], first: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Where the inner nodes and the leaves stand if node i's children are at first[i] and next."""
    inner_at, leaf_at = np.zeros(len(left), np.int32), np.zeros(len(left) + 1, np.int32)
    for child, place in ((left, first), (right, first + 1)):
        is_inner = child >= 0
        inner_at[child[is_inner]] = place[is_inner]
        leaf_at[~child[~is_inner]] = place[~is_inner]
    return inner_at, leaf_at


def _without_meaning(n_nodes: int, n_features: int) -> dict[str, Any]:
    """What XGBoost's reader wants to see but scores do not depend on."""
    zeros, nothing = np.zeros(n_nodes, np.float32), np.zeros(0, np.int32)
    return {
        "categories": nothing,
        "categories_nodes": nothing,
        "categories_segments": nothing.astype(np.int64),
        "categories_sizes": nothing.astype(np.int64),
        "loss_changes": zeros,
        "split_type": np.zeros(n_nodes, np.uint8),
        "sum_hessian": zeros,
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_features),
            "num_nodes": str(n_nodes),
            "size_leaf_vector": "1",
        },
    }


def next_above(threshold: Single) -> Single:
    """The thresholds t' for which x < t' is x <= t, for float32 x."""
    with np.errstate(over="ignore", under="ignore"):
        above = np.nextafter(threshold, np.float32(np.inf))
    return np.minimum(above, LARGEST)
