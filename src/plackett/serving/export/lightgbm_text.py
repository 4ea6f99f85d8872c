"""LightGBM's text, which LightGBM and everything built on it reads.

The text of one model that LightGBM has grown is handed on as it is. Several of them, as
cross-fitting makes, become one: the trees one after the other, the factors in the values of their
nodes. Anything else (stumps, XGBoost's trees, trees on transformed features) is written anew; such
trees carry no counts of documents, which only LightGBM's own explanations of scores need.
"""

from __future__ import annotations

import re

import numpy as np

from plackett.base.errors import UsageError
from plackett.models.ensembles import EnsembleRanker
from plackett.models.ensembles.layout import MISSING_NAN, decision_bits
from plackett.models.trees import TreeRanker
from plackett.serving.export.parts import Part
from plackett.serving.export.tree_parts import trees_of
from plackett.serving.export.trees import Trees

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
