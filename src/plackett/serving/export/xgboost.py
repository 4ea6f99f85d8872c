r"""XGBoost's ``save_model``, as JSON or UBJSON.

XGBoost decides :math:`x < t` in float32, so each threshold becomes the next float32 above, and sums
leaves in float32. Leaves also stand in ``base_weights``, because OpenSearch's reader of this format
takes them from there. It ignores ``base_score``: for it the base is a tree of one leaf.

Plain data with arrays in it, as JSON and as UBJSON (draft 12, as XGBoost writes it).

XGBoost's ``dump_model`` as JSON.

The learning-to-rank plugins of Elasticsearch and OpenSearch read it as ``model/xgboost+json``: a
list of trees. A split sends values below ``split_condition``, in float32, to the child ``yes``,
others to ``no``, and missing ones to ``missing``. There is no base score.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.serving.export.trees import LARGEST, Trees, nested

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
        "trees": [_model_tree(trees, tree) for tree in range(n)],
    }
    return {"model": model, "name": "gbtree"}


_RANKING = {
    "lambdarank_num_pair_per_sample": "4294967295",
    "lambdarank_pair_method": "topk",
    "lambdarank_unbiased": "0",
    "lambdarank_bias_norm": "1",
    "ndcg_exp_gain": "1",
}


def _model_tree(trees: Trees, tree: int) -> dict[str, Any]:
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


# Types that XGBoost gives to arrays, with their markers; numbers have the high byte first.
_MARKERS: dict[str, tuple[bytes, str]] = {
    "float32": (b"d", ">f4"),
    "int32": (b"l", ">i4"),
    "int64": (b"L", ">i8"),
    "uint8": (b"U", ">u1"),
}


def to_json(data: Any) -> str:
    """JSON; a float32 is written as the float64 that equals it, which every reader gives back."""
    return json.dumps(data, default=_plain, allow_nan=False)


def to_ubjson(data: Any) -> bytes:
    """UBJSON; arrays of numbers have a type."""
    out = bytearray()
    _encode(data, out)
    return bytes(out)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not plain data")


def _encode(value: Any, out: bytearray) -> None:
    if isinstance(value, dict):
        out += b"{"
        for key, each in value.items():
            _text(key, out)
            _encode(each, out)
        out += b"}"
    elif isinstance(value, np.ndarray):
        marker, dtype = _MARKERS[value.dtype.name]
        out += b"[$" + marker + b"#" + _length(len(value)) + value.astype(dtype).tobytes()
    elif isinstance(value, list):
        out += b"[#" + _length(len(value))
        for each in value:
            _encode(each, out)
    elif isinstance(value, str):
        out += b"S"
        _text(value, out)
    else:
        out += _length(int(value))


def _text(text: str, out: bytearray) -> None:
    raw = text.encode()
    out += _length(len(raw)) + raw


def _length(size: int) -> bytes:
    return b"L" + size.to_bytes(8, "big", signed=True)


def xgboost_dump(trees: Trees, names: tuple[str, ...]) -> str:
    """Trees as XGBoost dumps them."""
    trees = trees.with_base_as_tree()
    conditions = next_above(trees.threshold)
    values = trees.values.astype(np.float32)
    return to_json(
        [_dump_tree(trees, tree, names, conditions, values) for tree in range(trees.n_trees)]
    )


def _dump_tree(
    trees: Trees, tree: int, names: tuple[str, ...], conditions: Single, values: Single
) -> dict[str, Any]:
    """Nodes are numbered as in the arrays, leaves after the inner ones."""
    first, first_leaf = int(trees.nodes[tree]), int(trees.leaves[tree])
    n_inner = int(trees.nodes[tree + 1]) - first

    def leaf(place: int, depth: int) -> dict[str, Any]:  # noqa: ARG001 - one signature
        return {"nodeid": n_inner + place - first_leaf, "leaf": float(values[place])}

    def split(node: int, depth: int, left: Any, right: Any) -> dict[str, Any]:
        yes, no = left["nodeid"], right["nodeid"]
        return {
            "nodeid": node - first,
            "depth": depth,
            "split": names[trees.feature[node]],
            "split_condition": float(conditions[node]),
            "yes": yes,
            "no": no,
            "missing": yes if trees.nan_left[node] else no,
            "children": [left, right],
        }

    return nested(trees, tree, leaf=leaf, split=split)
