r"""LightGBM's formats: the model text, and the JSON of ``dump_model``, which Vespa reads.

The text of a single LightGBM model is passed on unchanged. Several of them, as cross-fitting makes,
become one: their trees one after another, with the factors in the values of the nodes. Anything
else (stumps, XGBoost's trees, trees on transformed features) is written from the trees; such trees
carry no counts of documents, which only LightGBM's explanations of scores need.

Vespa's reader of the JSON differs from LightGBM in three ways, and the file is written so that both agree:

- it decides :math:`x < t` where LightGBM decides :math:`x \le t`: each threshold is put strictly
  between two float32 numbers, where both agree for float32 features;
- for NaN it uses ``default_left`` alone, LightGBM also ``missing_type``: every node says ``NaN`` and its side;
- it requires ``objective`` and ``pandas_categorical``.

Vespa compares categories as text, so splits on them are refused.
"""

import json
import re
from typing import Any

import numpy as np

from plackett.base.errors import UsageError
from plackett.models.ensembles import EnsembleRanker
from plackett.models.ensembles.scoring import MISSING_NAN, decision_bits
from plackett.models.trees import TreeRanker
from plackett.serving.export.parts import ExportRequest, Part
from plackett.serving.export.trees import Position, Trees, fold_trees, next_above

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
"""Statistics of the training, which scores do not depend on."""
