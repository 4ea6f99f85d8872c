"""LightGBM's model text, read without LightGBM.

The text is a header of ``key=value`` lines, one section per tree that begins with ``Tree=i``, and a
line ``end of trees``; the rest (importances, parameters) is informative. Numbers are written with
17 digits, which restore the same float64. Children that are leaves are written ``-1 - leaf``.

Sizes that a file claims never determine how much memory is allocated: arrays are as long as the lines they come from.
"""

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.models.ensembles.ensemble import Ensemble, Tree, assemble
from plackett.models.ensembles.fields import parse_floats, parse_integers, read_text
from plackett.models.ensembles.scoring import CATEGORICAL

VERSIONS = ("v3", "v4")
"""Versions of the text with the same format of trees."""

_END = "\nend of trees"
_TREE = "\nTree="
_REQUIRED = ("num_leaves", "leaf_value", "threshold", "split_feature", "decision_type", "left_child", "right_child")


def read_lightgbm(source: str | bytes | Path) -> Ensemble:
    """Read a model that LightGBM has written: the text of ``Booster.model_to_string()``, or the path of a file.

    ``predict`` returns what ``Booster.predict(features, raw_score=True)`` returns. Raises DataError if the text is
    damaged, if the model has several scores per document (several classes), or if it has linear models at its leaves
    (``linear_tree``).
    """
    text = read_text(source).replace("\r\n", "\n")
    if not text.startswith("tree\n"):
        raise DataError("not a model text of LightGBM: its first line must be 'tree'.")
    end = text.find(_END)
    if end < 0:
        raise DataError("the model text is cut off: there is no line 'end of trees'.")
    header, *sections = text[:end].split(_TREE)
    fields = _parse_lines(header)
    n_features = _check_header(fields)
    trees = [_parse_tree(section, number) for number, section in enumerate(sections)]
    sizes = fields.get("tree_sizes")
    if sizes is not None and len(sizes.split()) != len(trees):
        raise DataError(f"the header lists {len(sizes.split())} trees, the text has {len(trees)}.")
    names = tuple(fields["feature_names"].split(" "))
    return assemble(trees, library="lightgbm", n_features=n_features, feature_names=names)


def _parse_lines(section: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in section.split("\n"))
    return {key: value for key, separator, value in pairs if separator}


def _check_header(fields: dict[str, str]) -> int:
    """Raise if the model has several scores per document; return the number of features."""
    version = fields.get("version", "none")
    if version not in VERSIONS:
        known = ", ".join(VERSIONS)
        raise DataError(f"model text of version {version!r}; known are {known}.")
    for key in ("num_class", "num_tree_per_iteration"):
        if fields.get(key) != "1":
            raise DataError(f"{key} is {fields.get(key)}; only models with one score per document (1) are read.")
    names = fields.get("feature_names")
    if names is None:
        raise DataError("the header has no line 'feature_names'.")
    n_features = len(names.split(" "))
    claimed = parse_integers(fields.get("max_feature_idx", ""), "max_feature_idx", np.int32)
    if claimed.tolist() != [n_features - 1]:
        raise DataError(f"max_feature_idx is {fields.get('max_feature_idx')} with {n_features} feature names.")
    return n_features


def _parse_tree(section: str, number: int) -> Tree:
    where = f"tree {number}"
    fields = _parse_tree_lines(section, number)
    leaf_values = parse_floats(fields["leaf_value"], f"{where}: leaf_value")
    claimed = parse_integers(fields["num_leaves"], f"{where}: num_leaves", np.int32).tolist()
    if claimed != [len(leaf_values)]:
        raise DataError(f"{where}: num_leaves is {claimed}, with {len(leaf_values)} leaf values.")
    threshold = parse_floats(fields["threshold"], f"{where}: threshold")
    decision = parse_integers(fields["decision_type"], f"{where}: decision_type", np.uint8)
    category_set, set_offsets, sets = _parse_categories(fields, threshold, decision, where)
    return Tree(
        feature=parse_integers(fields["split_feature"], f"{where}: split_feature", np.int32),
        threshold=threshold,
        decision=decision,
        left=parse_integers(fields["left_child"], f"{where}: left_child", np.int32),
        right=parse_integers(fields["right_child"], f"{where}: right_child", np.int32),
        category_set=category_set,
        leaf_values=leaf_values,
        set_offsets=set_offsets,
        sets=sets,
    )


def _parse_tree_lines(section: str, number: int) -> dict[str, str]:
    """The fields of one tree; raise if a required one is missing."""
    title, _, body = section.partition("\n")
    if title.strip() != str(number):
        raise DataError(f"tree {number}: expected 'Tree={number}', found 'Tree={title[:20]}'.")
    fields = _parse_lines(body)
    if fields.get("is_linear", "0").strip() != "0":
        raise DataError(f"tree {number} has linear models at its leaves (linear_tree); train without.")
    for key in _REQUIRED:
        if key not in fields:
            raise DataError(f"tree {number} has no line {key!r}.")
    return fields


def _parse_categories(
    fields: dict[str, str], threshold: NDArray[np.float64], decision: NDArray[np.uint8], where: str
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.uint32]]:
    """Sets of categories of one tree; the threshold of a categorical node is its set's number."""
    offsets = parse_integers(fields.get("cat_boundaries", "0"), f"{where}: cat_boundaries", np.int64)
    words = parse_integers(fields.get("cat_threshold", ""), f"{where}: cat_threshold", np.uint32)
    if len(threshold) != len(decision):
        raise DataError(f"{where}: {len(threshold)} thresholds, {len(decision)} decision types.")
    categorical = (decision & CATEGORICAL) != 0
    indices = threshold[categorical]
    if not ((indices >= 0) & (indices < len(offsets) - 1) & (indices == np.floor(indices))).all():
        raise DataError(f"{where}: a categorical node names a set that does not exist.")
    numbers = np.full(len(threshold), -1, np.int32)
    numbers[categorical] = indices
    return numbers, offsets, words


def read_lightgbm_sum(source: str | bytes) -> Ensemble:
    """Read a LightGBM model whose score is the sum of its trees; raise if it is their mean."""
    text = read_text(source)
    if re.search(r"^average_output", text.partition(_TREE)[0], re.MULTILINE):
        raise DataError("the model averages its trees (boosting=rf); only sums of trees are read.")
    return read_lightgbm(text)
