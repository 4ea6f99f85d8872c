r"""XGBoost's formats: ``save_model`` as JSON or UBJSON, and ``dump_model`` as JSON.

XGBoost tests :math:`x < t` in float32, so each threshold becomes the next float32 above; it sums
leaves in float32. In ``save_model`` leaves are also in ``base_weights``, where OpenSearch's reader
looks for them. That reader ignores ``base_score``, so for OpenSearch the base is a tree of one leaf.

The learning-to-rank plugins of Elasticsearch and OpenSearch read ``dump_model`` as
``model/xgboost+json``: a list of trees. A split sends values below ``split_condition``, in float32,
to the child ``yes``, others to ``no``, and missing ones to ``missing``. There is no base score.

UBJSON follows draft 12, as XGBoost writes it.
"""

import json
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import UsageError
from plackett.models import EnsembleRanker, TreeRanker
from plackett.models.ensembles.scoring import MISSING_NAN, decision_bits
from plackett.serving.export.parts import ExportRequest, Part
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

    XGBoost goes to the left child or to the node after it, whatever ``right_children`` contains.
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


_TREE, _END = "\nTree=", "\nend of trees"
_VALUES = ("leaf_value=", "internal_value=")
_HEADER = {"version": "v4", "num_class": 1, "num_tree_per_iteration": 1, "label_index": 0}


def lightgbm_text(request: ExportRequest) -> str:
    """Write the model as LightGBM's text."""
    parts, names = request.parts, request.names
    texts = [_find_text(part) for part in parts]
    if any(text is None for text in texts):
        trees = request.trees.with_base_as_tree()
        sections = [_make_section(trees, tree) for tree in range(trees.n_trees)]
        return _make_text(sections, names, ["none"] * len(names))
    native = [text.replace("\r\n", "\n") for text in texts if text is not None]
    if len(parts) == 1 and parts[0].factor == 1.0:
        return _rename_features(native[0], names)
    sections = []
    for part, text in zip(parts, native, strict=True):
        sections += [_scale(section, part.factor) for section in _split_sections(text)]
    infos = re.search(r"^feature_infos=(.*)$", native[0], re.MULTILINE)
    return _make_text(sections, names, infos.group(1).split(" ") if infos else ["none"] * len(names))


def _find_text(part: Part) -> str | None:
    """The text that LightGBM wrote for a part, if its features are not transformed."""
    if part.transforms:
        return None
    if isinstance(part.ranker, TreeRanker):
        return part.ranker.model_
    if isinstance(part.ranker, EnsembleRanker) and part.ranker.form_ == "lightgbm":
        return part.ranker.source_.decode("utf-8")
    return None


def _rename_features(text: str, names: tuple[str, ...]) -> str:
    line = "feature_names=" + " ".join(names)
    head, mark, tail = text.partition(_TREE)
    head = re.sub(r"^feature_names=.*$", lambda _: line, head, count=1, flags=re.MULTILINE)
    # The importances at the end use the old names; LightGBM does not read them.
    tail = re.sub(r"\nfeature_importances:\n(.+\n)*", "\n", tail)
    return head + mark + tail


def _split_sections(text: str) -> list[str]:
    """The lines of each tree, without its title."""
    head, *sections = text[: text.index(_END)].split(_TREE)
    if re.search(r"^average_output", head, re.MULTILINE):
        raise UsageError("the model averages its trees (boosting=rf) and cannot be merged.")
    return [section.partition("\n")[2].strip("\n") for section in sections]


def _scale(section: str, factor: float) -> str:
    lines = section.split("\n")
    for i, line in enumerate(lines):
        if line.startswith(_VALUES):
            key, _, values = line.partition("=")
            lines[i] = f"{key}={_join_numbers([float(v) * factor for v in values.split()])}"
    return "\n".join(lines)


def _make_section(trees: Trees, tree: int) -> str:
    inner = slice(trees.node_offsets[tree], trees.node_offsets[tree + 1])
    nan_left = trees.nan_left[inner]
    decision = decision_bits(np.zeros(len(nan_left), np.bool_), nan_left, MISSING_NAN)
    values = trees.values[trees.leaf_offsets[tree] : trees.leaf_offsets[tree + 1]]
    lines = {
        "num_leaves": len(values),
        "num_cat": 0,
        "split_feature": _join_numbers(trees.feature[inner].tolist()),
        "threshold": _join_numbers(trees.threshold[inner].astype(np.float64).tolist()),
        "decision_type": _join_numbers(decision.tolist()),
        "left_child": _join_numbers(trees.left[inner].tolist()),
        "right_child": _join_numbers(trees.right[inner].tolist()),
        "leaf_value": _join_numbers(values.tolist()),
        "is_linear": 0,
        "shrinkage": 1,
    }
    return "\n".join(f"{key}={value}" for key, value in lines.items())


def _make_text(sections: list[str], names: tuple[str, ...], infos: list[str]) -> str:
    trees = [f"Tree={i}\n{section}\n\n\n" for i, section in enumerate(sections)]
    header = {
        **_HEADER,
        "max_feature_idx": len(names) - 1,
        "feature_names": " ".join(names),
        "feature_infos": " ".join(infos),
        "tree_sizes": _join_numbers([len(tree.encode()) for tree in trees]),
    }
    head = "tree\n" + "".join(f"{key}={value}\n" for key, value in header.items()) + "\n"
    return head + "".join(trees) + "end of trees\n"


def _join_numbers(values: list[int] | list[float]) -> str:
    return " ".join(map(repr, values))


def lightgbm_json(request: ExportRequest) -> str:
    """Write trees as LightGBM's ``dump_model`` does."""
    trees, names = request.trees.with_base_as_tree(), request.names
    # The midpoint between each threshold and the next float32.
    thresholds = (trees.threshold.astype(np.float64) + next_above(trees.threshold).astype(np.float64)) / 2.0

    def leaf(position: Position) -> dict[str, Any]:
        return {"leaf_index": position.number, "leaf_value": float(trees.values[position.at])}

    def split(position: Position, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        return {
            **_STATISTICS,
            "split_index": position.number,
            "split_feature": int(trees.feature[position.at]),
            "threshold": float(thresholds[position.at]),
            "decision_type": "<=",
            "default_left": bool(trees.nan_left[position.at]),
            "missing_type": "NaN",
            "left_child": left,
            "right_child": right,
        }

    structures = fold_trees(trees, leaf=leaf, split=split)
    sizes = np.diff(trees.leaf_offsets).tolist()
    return json.dumps(
        {
            "name": "tree",
            **_HEADER,
            "max_feature_idx": len(names) - 1,
            "objective": "lambdarank",  # scores go out as they are
            "average_output": False,
            "feature_names": list(names),
            "monotone_constraints": [],
            "feature_infos": {},
            "tree_info": [
                {"tree_index": i, "num_leaves": sizes[i], "num_cat": 0, "shrinkage": 1, "tree_structure": structure}
                for i, structure in enumerate(structures)
            ],
            "feature_importances": {},
            "pandas_categorical": [],
        }
    )


_STATISTICS = {"split_gain": 0, "internal_value": 0, "internal_weight": 0, "internal_count": 0}
"""Statistics of the training, which do not affect scores."""
