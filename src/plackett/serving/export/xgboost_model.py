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
    """Inner nodes first, in their order, then the leaves."""
    inner = slice(int(trees.nodes[tree]), int(trees.nodes[tree + 1]))
    values = trees.values[trees.leaves[tree] : trees.leaves[tree + 1]].astype(np.float32)
    n_inner, n_nodes = len(values) - 1, 2 * len(values) - 1
    left, right = (
        np.where(child >= 0, child, n_inner + ~child)
        for child in (trees.left[inner], trees.right[inner])
    )
    parents = np.full(n_nodes, _NO_PARENT, np.int32)
    parents[left] = parents[right] = np.arange(n_inner)
    none = np.full(len(values), -1, np.int32)
    return {
        **_without_meaning(n_nodes, trees.n_features),
        "base_weights": np.concatenate([np.zeros(n_inner, np.float32), values]),
        "default_left": _padded(trees.nan_left[inner], n_nodes, np.uint8),
        "id": tree,
        "left_children": np.concatenate([left, none]).astype(np.int32),
        "parents": parents,
        "right_children": np.concatenate([right, none]).astype(np.int32),
        "split_conditions": np.concatenate([next_above(trees.threshold[inner]), values]),
        "split_indices": _padded(trees.feature[inner], n_nodes, np.int32),
    }


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


def _padded(values: NDArray[Any], size: int, dtype: Any) -> NDArray[Any]:
    out = np.zeros(size, dtype)
    out[: len(values)] = values
    return out
