r"""XGBoost's formats: ``save_model`` as JSON or UBJSON, and ``dump_model`` as JSON.

XGBoost decides :math:`x < t` in float32, so each threshold becomes the next float32 above, and sums
leaves in float32. In ``save_model`` leaves are also in ``base_weights``, because OpenSearch's
reader takes them from there. It ignores ``base_score``, so for it the base is a tree of one leaf.

The learning-to-rank plugins of Elasticsearch and OpenSearch read ``dump_model`` as
``model/xgboost+json``: a list of trees. A split sends values below ``split_condition``, in float32,
to the child ``yes``, others to ``no``, and missing ones to ``missing``. There is no base score.

UBJSON follows draft 12, as XGBoost writes it.
"""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.serving.export.parts import ExportRequest
from plackett.serving.export.trees import Position, Trees, fold_trees, next_above

_VERSION = [2, 1, 0]  # the oldest XGBoost whose files look like this; newer ones read them
_NO_PARENT = 2147483647


def xgboost_model(trees: Trees, names: tuple[str, ...]) -> dict[str, Any]:
    """Return XGBoost's model, whose arrays are NumPy arrays."""
    n = trees.n_trees
    booster = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(n)},
        "iteration_indptr": list(range(n + 1)),
        "tree_info": [0] * n,
        "trees": [_model_tree(trees, tree) for tree in range(n)],
    }
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
        "gradient_booster": {"model": booster, "name": "gbtree"},
        "learner_model_param": parameters,
        "objective": {"lambdarank_param": _OBJECTIVE_PARAMETERS, "name": "rank:pairwise"},
    }
    return {"learner": learner, "version": _VERSION}


_OBJECTIVE_PARAMETERS = {
    "lambdarank_num_pair_per_sample": "4294967295",
    "lambdarank_pair_method": "topk",
    "lambdarank_unbiased": "0",
    "lambdarank_bias_norm": "1",
    "ndcg_exp_gain": "1",
}


def _model_tree(trees: Trees, tree: int) -> dict[str, Any]:
    """One tree: the root, then the children of each inner node next to each other.

    XGBoost goes to the left child or the node after it, whatever ``right_children`` holds.
    """
    inner = slice(int(trees.node_offsets[tree]), int(trees.node_offsets[tree + 1]))
    values = trees.values[trees.leaf_offsets[tree] : trees.leaf_offsets[tree + 1]].astype(np.float32)
    n_nodes = 2 * len(values) - 1
    first = 1 + 2 * np.arange(len(values) - 1, dtype=np.int32)
    inner_at, leaf_at = np.zeros(len(first), np.int32), np.zeros(len(values), np.int32)
    for child, place in ((trees.left[inner], first), (trees.right[inner], first + 1)):
        is_inner = child >= 0
        inner_at[child[is_inner]] = place[is_inner]
        leaf_at[~child[~is_inner]] = place[~is_inner]
    parents = np.full(n_nodes, _NO_PARENT, np.int32)
    parents[first] = parents[first + 1] = inner_at

    def arrange(of_inner: Any, of_leaves: Any, dtype: Any) -> NDArray[Any]:
        values = np.zeros(n_nodes, dtype)
        values[inner_at], values[leaf_at] = of_inner, of_leaves
        return values

    return {
        **_unused_fields(n_nodes, trees.n_features),
        "base_weights": arrange(0, values, np.float32),
        "default_left": arrange(trees.nan_left[inner], 0, np.uint8),
        "id": tree,
        "left_children": arrange(first, -1, np.int32),
        "parents": parents,
        "right_children": arrange(first + 1, -1, np.int32),
        "split_conditions": arrange(next_above(trees.threshold[inner]), values, np.float32),
        "split_indices": arrange(trees.feature[inner], 0, np.int32),
    }


def _unused_fields(n_nodes: int, n_features: int) -> dict[str, Any]:
    """Fields that XGBoost's reader requires although scores do not depend on them."""
    zeros, empty = np.zeros(n_nodes, np.float32), np.zeros(0, np.int32)
    return {
        "categories": empty,
        "categories_nodes": empty,
        "categories_segments": empty.astype(np.int64),
        "categories_sizes": empty.astype(np.int64),
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


# Markers of the array types that XGBoost uses; numbers are big-endian.
_MARKERS = {"float32": b"d", "int32": b"l", "int64": b"L", "uint8": b"U"}


def to_json(data: Any) -> str:
    """Encode as JSON; a float32 is written as the equal float64, which readers restore exactly."""
    return json.dumps(data, default=np.ndarray.tolist, allow_nan=False)


def to_ubjson(data: Any) -> bytes:
    """Encode as UBJSON with typed arrays."""
    if isinstance(data, dict):
        return b"{" + b"".join(_encode_text(key) + to_ubjson(item) for key, item in data.items()) + b"}"
    if isinstance(data, np.ndarray):
        numbers = data.astype(data.dtype.newbyteorder(">")).tobytes()
        return b"[$" + _MARKERS[data.dtype.name] + b"#" + _encode_int(len(data)) + numbers
    if isinstance(data, list):
        return b"[#" + _encode_int(len(data)) + b"".join(map(to_ubjson, data))
    return b"S" + _encode_text(data) if isinstance(data, str) else _encode_int(int(data))


def _encode_text(text: str) -> bytes:
    raw = text.encode()
    return _encode_int(len(raw)) + raw


def _encode_int(size: int) -> bytes:
    return b"L" + size.to_bytes(8, "big", signed=True)


def xgboost_dump(request: ExportRequest) -> str:
    """Write trees as XGBoost's ``dump_model`` does; leaves are numbered after the inner nodes of their tree."""
    trees, names = request.trees.with_base_as_tree(), request.names
    conditions, values = next_above(trees.threshold), trees.values.astype(np.float32)
    n_inner = np.diff(trees.node_offsets).tolist()

    def leaf(position: Position) -> dict[str, Any]:
        return {"nodeid": n_inner[position.tree] + position.number, "leaf": float(values[position.at])}

    def split(position: Position, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        yes, no, node = left["nodeid"], right["nodeid"], position.at
        return {
            "nodeid": position.number,
            "depth": position.depth,
            "split": names[trees.feature[node]],
            "split_condition": float(conditions[node]),
            "yes": yes,
            "no": no,
            "missing": yes if trees.nan_left[node] else no,
            "children": [left, right],
        }

    return to_json(fold_trees(trees, leaf=leaf, split=split))
