r"""LightGBM's text, which LightGBM and everything built on it reads.

The text of one model that LightGBM has grown is handed on as it is. Several of them, as
cross-fitting makes, become one: the trees one after the other, the factors in the values of their
nodes. Anything else (stumps, XGBoost's trees, trees on transformed features) is written anew; such
trees carry no counts of documents, which only LightGBM's own explanations of scores need.

The JSON of LightGBM's ``dump_model``, which Vespa reads.

Vespa's reader differs from LightGBM in three ways, and the file is written so that both agree:

- it decides :math:`x < t` where LightGBM decides :math:`x \le t`: each threshold is put strictly
  between two float32 numbers, where both say the same for float32 features;
- it looks at ``default_left`` alone for NaN, LightGBM also at ``missing_type``: every node says
  ``NaN`` and where it goes;
- it stops at a file without ``objective`` or ``pandas_categorical``; both are there.

Categories it compares as texts, so splits on them are refused.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import UsageError
from plackett.models.ensembles import EnsembleRanker
from plackett.models.ensembles.layout import MISSING_NAN, decision_bits
from plackett.models.trees import TreeRanker
from plackett.serving.export.parts import Part, trees_of
from plackett.serving.export.trees import LARGEST, Trees, nested

_TREE, _END = "\nTree=", "\nend of trees"
_VALUES = ("leaf_value=", "internal_value=")


def lightgbm_text(parts: tuple[Part, ...], names: tuple[str, ...]) -> str:
    """The sum of the parts in LightGBM's text."""
    texts = [_native(part) for part in parts]
    if any(text is None for text in texts):
        trees = trees_of(parts).with_base_as_tree()
        sections = [_section(trees, tree) for tree in range(trees.n_trees)]
        return _text(sections, names, ["none"] * len(names))
    native = [text.replace("\r\n", "\n") for text in texts if text is not None]
    if len(parts) == 1 and parts[0].factor == 1.0:
        return _renamed(native[0], names)
    sections = []
    for part, text in zip(parts, native, strict=True):
        sections += [_scaled(section, part.factor) for section in _sections(text)]
    infos = re.search(r"^feature_infos=(.*)$", native[0], re.MULTILINE)
    return _text(sections, names, infos.group(1).split(" ") if infos else ["none"] * len(names))


def _native(part: Part) -> str | None:
    """LightGBM's own text of a part, if it has one that holds for untransformed features."""
    if part.transforms:
        return None
    if isinstance(part.ranker, TreeRanker):
        return part.ranker.model_
    if isinstance(part.ranker, EnsembleRanker) and part.ranker.form_ == "lightgbm":
        return part.ranker.source_.decode("utf-8")
    return None


def _renamed(text: str, names: tuple[str, ...]) -> str:
    line = "feature_names=" + " ".join(names)
    head, mark, tail = text.partition(_TREE)
    head = re.sub(r"^feature_names=.*$", lambda _: line, head, count=1, flags=re.MULTILINE)
    # Importances at the end go by name; LightGBM does not read them back.
    tail = re.sub(r"\nfeature_importances:\n(.+\n)*", "\n", tail)
    return head + mark + tail


def _sections(text: str) -> list[str]:
    """The lines of each tree after its title."""
    head, *sections = text[: text.index(_END)].split(_TREE)
    if re.search(r"^average_output", head, re.MULTILINE):
        raise UsageError("the model averages its trees (boosting=rf) and cannot be merged.")
    return [section.partition("\n")[2].strip("\n") for section in sections]


def _scaled(section: str, factor: float) -> str:
    lines = section.split("\n")
    for i, line in enumerate(lines):
        if line.startswith(_VALUES):
            key, _, values = line.partition("=")
            lines[i] = f"{key}={_numbers([float(v) * factor for v in values.split()])}"
    return "\n".join(lines)


def _section(trees: Trees, tree: int) -> str:
    """One tree; missing values go where each node says."""
    inner = slice(trees.nodes[tree], trees.nodes[tree + 1])
    nan_left = trees.nan_left[inner]
    decision = decision_bits(np.zeros(len(nan_left), np.bool_), nan_left, MISSING_NAN)
    values = trees.values[trees.leaves[tree] : trees.leaves[tree + 1]]
    lines = {
        "num_leaves": len(values),
        "num_cat": 0,
        "split_feature": _numbers(trees.feature[inner].tolist()),
        "threshold": _numbers(trees.threshold[inner].astype(np.float64).tolist()),
        "decision_type": _numbers(decision.tolist()),
        "left_child": _numbers(trees.left[inner].tolist()),
        "right_child": _numbers(trees.right[inner].tolist()),
        "leaf_value": _numbers(values.tolist()),
        "is_linear": 0,
        "shrinkage": 1,
    }
    return "\n".join(f"{key}={value}" for key, value in lines.items())


def _text(sections: list[str], names: tuple[str, ...], infos: list[str]) -> str:
    trees = [f"Tree={i}\n{section}\n\n\n" for i, section in enumerate(sections)]
    header = {
        "version": "v4",
        "num_class": 1,
        "num_tree_per_iteration": 1,
        "label_index": 0,
        "max_feature_idx": len(names) - 1,
        "feature_names": " ".join(names),
        "feature_infos": " ".join(infos),
        "tree_sizes": _numbers([len(tree.encode()) for tree in trees]),
    }
    head = "tree\n" + "".join(f"{key}={value}\n" for key, value in header.items()) + "\n"
    return head + "".join(trees) + "end of trees\n"


def _numbers(values: list[int] | list[float]) -> str:
    return " ".join(map(repr, values))


def lightgbm_json(trees: Trees, names: tuple[str, ...]) -> str:
    """Trees as LightGBM dumps them."""
    trees = trees.with_base_as_tree()
    between = _between(trees)
    return json.dumps(
        {
            "name": "tree",
            "version": "v4",
            "num_class": 1,
            "num_tree_per_iteration": 1,
            "label_index": 0,
            "max_feature_idx": len(names) - 1,
            "objective": "lambdarank",  # scores go out as they are
            "average_output": False,
            "feature_names": list(names),
            "monotone_constraints": [],
            "feature_infos": {},
            "tree_info": [_tree(trees, between, tree) for tree in range(trees.n_trees)],
            "feature_importances": {},
            "pandas_categorical": [],
        }
    )


def _tree(trees: Trees, between: NDArray[np.float64], tree: int) -> dict[str, Any]:
    first, first_leaf = int(trees.nodes[tree]), int(trees.leaves[tree])

    def leaf(place: int, depth: int) -> dict[str, Any]:  # noqa: ARG001 - one signature
        return {"leaf_index": place - first_leaf, "leaf_value": float(trees.values[place])}

    def split(node: int, depth: int, left: Any, right: Any) -> dict[str, Any]:  # noqa: ARG001
        return {
            **_UNKNOWN,
            "split_index": node - first,
            "split_feature": int(trees.feature[node]),
            "threshold": float(between[node]),
            "decision_type": "<=",
            "default_left": bool(trees.nan_left[node]),
            "missing_type": "NaN",
            "left_child": left,
            "right_child": right,
        }

    structure = nested(trees, tree, leaf=leaf, split=split)
    size = int(trees.leaves[tree + 1]) - first_leaf
    about = {"tree_index": tree, "num_leaves": size, "num_cat": 0, "shrinkage": 1}
    return {**about, "tree_structure": structure}


_UNKNOWN = {"split_gain": 0, "internal_value": 0, "internal_weight": 0, "internal_count": 0}
"""What only the trainer knew."""


def _between(trees: Trees) -> NDArray[np.float64]:
    """Numbers halfway between each threshold and the next float32."""
    with np.errstate(over="ignore"):
        above = np.minimum(np.nextafter(trees.threshold, np.float32(np.inf)), LARGEST)
    return (trees.threshold.astype(np.float64) + above.astype(np.float64)) / 2.0
