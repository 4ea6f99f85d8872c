r"""CatBoost's models, JSON or binary, read without CatBoost.

A document goes right if :math:`x > b` in float32, which is the complement of our :math:`x \le b`. A symmetric tree of
depth d asks the same question at all nodes of a level; bit k of a leaf's number is the answer to question k. It becomes
a complete binary tree. NaN goes left, or right where the feature's missing values are above all others
(``nan_mode="Max"``). The score is ``scale`` times the sum of the leaves plus ``bias``, in float64; scales other than 1,
which ranking losses do not have, are multiplied into the leaves.

The binary form (``.cbm``) is ``CBM1``, the length of a FlatBuffer, the FlatBuffer, and tables of categorical features,
which are not read. FlatBuffers are offsets into the data; each is checked before it is followed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.models.ensembles.ensemble import Ensemble, Tree, assemble, collect_nodes, numeric_tree
from plackett.models.ensembles.fields import get_array, get_field, read_text

MAGIC = b"CBM1"
_MAX_DEPTH = 16  # CatBoost's own limit for symmetric trees
_MAX_FEATURES = 1 << 20
_OTHER_FEATURES = "only splits on numbers are read; train without cat_features and text_features."


def read_catboost(source: str | bytes | Path) -> Ensemble:
    """Read a model that CatBoost has written: its JSON or binary file, or the path of one.

    ``predict`` returns CatBoost's raw values. Raises DataError if the data is damaged, or if the model has several
    scores per document or splits on features that are not numbers.
    """
    if isinstance(source, Path):
        source = source.read_bytes()
    if isinstance(source, bytes) and source.startswith(MAGIC):
        return _read_binary(source)
    try:
        model = json.loads(read_text(source))
    except (ValueError, RecursionError) as error:
        raise DataError(f"the model is not JSON: {error}") from error
    return _read_json(model)


class _Columns:
    """The numeric features: the column, the name and the treatment of NaN of each."""

    def __init__(
        self, columns: Sequence[int], names: Sequence[str], nan_right: Sequence[bool], others: Sequence[int] = ()
    ) -> None:
        """``others`` are columns of features that are not numbers."""
        everything = [*columns, *others]
        highest = max(everything, default=-1)
        if min(everything, default=0) < 0 or highest >= _MAX_FEATURES:
            raise DataError(f"columns of features must be 0 to {_MAX_FEATURES - 1}.")
        if len(set(everything)) != len(everything):
            raise DataError("two features have the same column.")
        self.columns = np.array(columns, np.int32)
        self.nan_right = np.array(nan_right, np.bool_)
        self.n_features = highest + 1
        texts = [""] * self.n_features
        for column, name in zip(columns, names, strict=True):
            texts[column] = name
        named = all(texts) and len(set(texts)) == len(texts)
        self.feature_names = tuple(texts) if named and texts else None

    def tree(
        self,
        feature: NDArray[np.int64],
        border: NDArray[np.floating],
        children: NDArray[np.int64],
        values: NDArray[np.float64],
    ) -> Tree:
        """A tree; ``feature`` counts the numeric features."""
        threshold = np.asarray(border, np.float64)
        return numeric_tree(self.columns[feature], threshold, ~self.nan_right[feature], children, values)

    def symmetric_tree(
        self, feature: NDArray[np.int64], border: NDArray[np.floating], values: NDArray[np.float64], where: str
    ) -> Tree:
        """A complete binary tree: level k asks question k."""
        depth = len(feature)
        if depth > _MAX_DEPTH or len(values) != 1 << depth:
            raise DataError(f"{where}: {len(values)} leaves for a symmetric tree of depth {depth}.")
        n_nodes = (1 << depth) - 1
        level = np.repeat(np.arange(depth), 1 << np.arange(depth))
        # Nodes are numbered level by level; those after the last are leaves, from left to right.
        below = 1 + np.arange(2 * n_nodes).reshape(-1, 2)
        children = np.where(below < n_nodes, below, ~(below - n_nodes))
        leaf, number = np.arange(1 << depth), np.zeros(1 << depth, np.int64)
        for k in range(depth):
            number |= ((leaf >> (depth - 1 - k)) & 1) << k
        return self.tree(feature[level], border[level], children, values[number])

    def assemble(self, trees: Sequence[Tree], scale: float, bias: float) -> Ensemble:
        """The ensemble of these trees."""
        if scale != 1.0:
            trees = [tree._replace(leaf_values=tree.leaf_values * scale) for tree in trees]
        return assemble(
            trees, library="catboost", n_features=self.n_features, feature_names=self.feature_names, base_score=bias
        )


# --- JSON ---


def _read_json(model: Any) -> Ensemble:
    info = get_field(model, "features_info", dict)
    features = _json_list(info, "float_features")
    others = [
        get_field(feature, "flat_feature_index", int)
        for kind in ("categorical_features", "text_features", "embedding_features")
        for feature in _json_list(info, kind)
    ]
    columns = _Columns(
        [get_field(feature, "flat_feature_index", int) for feature in features],
        [str(feature.get("feature_id") or "") for feature in features],
        [feature.get("nan_value_treatment") == "AsTrue" for feature in features],
        others,
    )
    scale, bias = _json_scale(model)
    if "oblivious_trees" in model:
        trees = get_field(model, "oblivious_trees", list)
        parsed = [_json_symmetric(tree, i, columns) for i, tree in enumerate(trees)]
    else:
        trees = get_field(model, "trees", list)
        parsed = [_json_tree(tree, i, columns) for i, tree in enumerate(trees)]
    return columns.assemble(parsed, scale, bias)


def _json_list(mapping: Any, key: str) -> list[Any]:
    """A list that may be absent or null."""
    is_absent = isinstance(mapping, dict) and mapping.get(key) is None
    return [] if is_absent else list(get_field(mapping, key, list))


def _json_scale(model: Any) -> tuple[float, float]:
    if "scale_and_bias" not in model:
        return 1.0, 0.0
    content = get_field(model, "scale_and_bias", list)
    scale: Any
    bias: Any
    scale, bias = content if len(content) == 2 else (None, None)
    if isinstance(bias, list):
        if len(bias) > 1:
            raise DataError("the model has several scores per document; only one is read.")
        bias = bias[0] if bias else 0.0
    if not _is_number(scale) or not _is_number(bias):
        raise DataError("the model's scale and bias must be numbers.")
    return float(scale), float(bias)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300


def _json_split(split: Any, where: str, columns: _Columns) -> tuple[int, np.float32]:
    if not isinstance(split, dict) or split.get("split_type") != "FloatFeature":
        raise DataError(f"{where}: {_OTHER_FEATURES}")
    feature, border = get_field(split, "float_feature_index", int), split.get("border")
    if not 0 <= feature < len(columns.columns):
        raise DataError(f"{where}: there is no numeric feature {feature}.")
    if not _is_number(border):
        raise DataError(f"{where}: the border of a split must be a number.")
    return feature, np.float32(border)


def _json_symmetric(tree: Any, number: int, columns: _Columns) -> Tree:
    where = f"tree {number}"
    splits = [_json_split(split, where, columns) for split in _json_list(tree, "splits")]
    values = get_array(tree, "leaf_values", np.float64, where=where)
    return columns.symmetric_tree(*_split_arrays(splits), values, where)


def _json_tree(root: Any, number: int, columns: _Columns) -> Tree:
    where = f"tree {number}"

    def read(node: Any) -> tuple[Any, tuple[Any, Any] | None]:
        if not isinstance(node, dict):
            raise DataError(f"{where}: a node is missing or of the wrong type.")
        if "split" in node:
            return _json_split(node["split"], where, columns), (node.get("left"), node.get("right"))
        if not _is_number(node.get("value")):
            raise DataError(f"{where}: the value of a leaf must be one number.")
        return float(node["value"]), None

    splits, children, values = collect_nodes(root, read)
    return columns.tree(*_split_arrays(splits), children, np.array(values))


def _split_arrays(splits: list[tuple[int, np.float32]]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    features, borders = [feature for feature, _ in splits], [border for _, border in splits]
    return np.array(features, np.int64), np.array(borders, np.float32)


# --- binary ---

# Numbers of the fields of CatBoost's FlatBuffers schema.
_CORE_VERSION, _CORE_TREES = 0, 1
_DIMENSION, _SPLITS, _SIZES = 0, 1, 2
_CATEGORICAL, _FLOATS = 4, 5
_LEAF_VALUES, _STEPS, _LEAF_OF_NODE = 8, 10, 11
_TEXTS, _SCALE, _BIAS, _MULTI_BIAS, _EMBEDDINGS = 12, 14, 15, 16, 18
_FLAT_INDEX, _BORDERS, _NAME, _TREATMENT = 2, 3, 4, 5
_OTHER_FLAT_INDEX = 1  # in the tables of features that are not numbers
_AS_TRUE = 2
_VERSION = b"FlabuffersModel_v1"  # spelled like this in the files


class _FlatTable:
    """A table of a FlatBuffer: every position is checked before it is read."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at
        self._vtable = at - self._read("<i", at)
        self._size = self._read("<H", self._vtable)

    def _read(self, form: str, at: int) -> Any:
        if not 0 <= at <= len(self.data) - struct.calcsize(form):
            raise DataError(f"the binary model is cut off or damaged at byte {at}.")
        return struct.unpack_from(form, self.data, at)[0]

    def _field(self, number: int) -> int | None:
        """The position of a field; None if it is absent."""
        entry = 4 + 2 * number
        if entry + 2 > self._size:
            return None
        offset = self._read("<H", self._vtable + entry)
        return self.at + offset if offset else None

    def number(self, number: int, form: str, default: Any) -> Any:
        """A scalar."""
        at = self._field(number)
        return default if at is None else self._read(form, at)

    def _target(self, at: int) -> int:
        """Where an offset at a position leads."""
        return int(at + self._read("<I", at))

    def table(self, number: int) -> _FlatTable:
        """A table within this one."""
        at = self._field(number)
        if at is None:
            raise DataError("the binary model is incomplete.")
        return _FlatTable(self.data, self._target(at))

    def vector(self, number: int, dtype: Any) -> NDArray[Any]:
        """A vector of numbers; empty if it is absent."""
        at = self._field(number)
        if at is None:
            return np.empty(0, dtype)
        start = self._target(at)
        count = self._read("<I", start)
        if count * np.dtype(dtype).itemsize > len(self.data) - start - 4:
            raise DataError(f"the binary model is cut off or damaged at byte {start}.")
        return np.frombuffer(self.data, dtype, count, start + 4)

    def text(self, number: int) -> bytes:
        """A string."""
        return self.vector(number, np.uint8).tobytes()

    def tables(self, number: int) -> list[_FlatTable]:
        """A vector of tables."""
        at = self._field(number)
        if at is None:
            return []
        start = self._target(at)
        count = len(self.vector(number, "<u4"))
        return [_FlatTable(self.data, self._target(start + 4 + 4 * i)) for i in range(count)]


def _read_binary(source: bytes) -> Ensemble:
    if len(source) < 8:
        raise DataError("the binary model is cut off.")
    (size,) = struct.unpack_from("<I", source, len(MAGIC))
    data = source[8 : 8 + size]
    if len(data) != size or size < 4:
        raise DataError(f"the binary model is cut off: it has {len(data)} of {size} bytes.")
    core = _FlatTable(data, struct.unpack_from("<I", data)[0])
    if core.text(_CORE_VERSION) != _VERSION:
        version = core.text(_CORE_VERSION)[:40].decode("utf-8", errors="replace")
        raise DataError(f"binary model of version {version!r}; known is {_VERSION.decode()!r}.")
    trees = core.table(_CORE_TREES)
    if trees.number(_DIMENSION, "<i", 0) != 1 or len(trees.vector(_MULTI_BIAS, "<f8")) > 1:
        raise DataError("the model has several scores per document; only one is read.")
    floats = trees.tables(_FLOATS)
    columns = _Columns(
        [feature.number(_FLAT_INDEX, "<i", -1) for feature in floats],
        [feature.text(_NAME).decode("utf-8", errors="replace") for feature in floats],
        [feature.number(_TREATMENT, "<b", 0) == _AS_TRUE for feature in floats],
        [
            feature.number(_OTHER_FLAT_INDEX, "<i", -1)
            for kind in (_CATEGORICAL, _TEXTS, _EMBEDDINGS)
            for feature in trees.tables(kind)
        ],
    )
    borders = [feature.vector(_BORDERS, "<f4") for feature in floats]
    feature = np.repeat(np.arange(len(floats)), [len(part) for part in borders])
    border = np.concatenate([np.empty(0, np.float32), *borders])
    splits = trees.vector(_SPLITS, "<i4")
    if len(splits) and not 0 <= splits.min() <= splits.max() < len(border):
        raise DataError(f"the model has splits on features that are not numbers: {_OTHER_FEATURES}")
    sizes = trees.vector(_SIZES, "<i4").astype(np.int64)
    if (sizes < 0).any() or int(sizes.sum()) != len(splits):
        raise DataError("the sizes of the trees do not match their splits.")
    values = trees.vector(_LEAF_VALUES, "<f8").astype(np.float64)
    multi = trees.vector(_MULTI_BIAS, "<f8")
    bias = float(multi[0]) if len(multi) else trees.number(_BIAS, "<d", 0.0)
    parts = [slice(stop - size, stop) for size, stop in zip(sizes, np.cumsum(sizes), strict=True)]
    asked = [(feature[splits[part]], border[splits[part]]) for part in parts]
    if len(trees.vector(_STEPS, "<u4")):
        nodes = _binary_nodes(trees, len(splits))
        parsed = [_binary_tree(columns, *asked[i], nodes[part], values, f"tree {i}") for i, part in enumerate(parts)]
    else:
        leaves = _binary_leaves(sizes, values)
        parsed = [columns.symmetric_tree(*asked[i], leaves[i], f"tree {i}") for i in range(len(parts))]
    return columns.assemble(parsed, trees.number(_SCALE, "<d", 1.0), bias)


def _binary_leaves(depths: NDArray[np.int64], values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """The leaf values of each symmetric tree."""
    if len(depths) and depths.max() > _MAX_DEPTH:
        raise DataError(f"symmetric trees have a depth of up to {_MAX_DEPTH}, got {depths.max()}.")
    ends = np.cumsum(1 << depths)
    if (int(ends[-1]) if len(depths) else 0) != len(values):
        raise DataError("the number of leaves does not match the depths of the trees.")
    return np.split(values, ends[:-1])


def _binary_nodes(table: _FlatTable, count: int) -> NDArray[np.int64]:
    """For each node the distances to its children, zero if it has none, and the number of its leaf."""
    steps = table.vector(_STEPS, "<u4")  # two 16-bit numbers each
    leaf_of_node = table.vector(_LEAF_OF_NODE, "<u4")
    if len(steps) != count or len(leaf_of_node) != count:
        raise DataError("the nodes of the trees do not match their splits.")
    return np.stack([steps & 0xFFFF, steps >> 16, leaf_of_node], axis=1).astype(np.int64)


def _binary_tree(
    columns: _Columns,
    feature: NDArray[np.int64],
    border: NDArray[np.float32],
    nodes: NDArray[np.int64],
    values: NDArray[np.float64],
    where: str,
) -> Tree:
    steps, leaf_of_node = nodes[:, :2], nodes[:, 2]
    n_nodes = len(steps)
    if n_nodes == 0:
        raise DataError(f"{where}: it has no nodes.")
    inner = np.flatnonzero(steps.any(axis=1))
    inner_number = np.full(n_nodes, -1, np.int64)
    inner_number[inner] = np.arange(len(inner))
    leaves: list[int] = []

    def leaf(node: int) -> int:
        number = int(leaf_of_node[node])
        if number >= len(values):
            raise DataError(f"{where}: there is no leaf value {number}.")
        leaves.append(number)
        return ~(len(leaves) - 1)

    children = np.empty((len(inner), 2), np.int64)
    for i, node in enumerate(inner.tolist()):
        for side in (0, 1):
            child = node + int(steps[node, side])
            if child >= n_nodes:
                raise DataError(f"{where}, node {node}: its child is not in the tree.")
            is_inner = child != node and inner_number[child] >= 0
            children[i, side] = inner_number[child] if is_inner else leaf(child)
    if len(inner) == 0:
        leaf(0)
    return columns.tree(feature[inner], border[inner], children, values[leaves])
