r"""Score documents from exported files as the search engines that load them do.

====================  ============================================================================
target                arithmetic
====================  ============================================================================
lightgbm-json         Vespa: :math:`x < t` in float64, a missing value goes to ``default_left``
xgboost-dump          the plugins: :math:`x < t` in float32, a missing value goes to ``missing``
solr                  :math:`x \le t + 10^{-6}` in float32; normalizers, weights and layers too
elasticsearch-linear  the plugins: normalizers and weights in float32
====================  ============================================================================

Only what our writers write is read; a file of another shape raises KeyError or ValueError.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.ragged import Scores
from plackett.serving.export.search_engines import SLACK

Float32 = NDArray[np.float32]
Node = dict[str, Any]
Visit = Callable[[Node, NDArray[np.int64]], "tuple[NDArray[np.bool_], Node, Node] | float"]
"""The value of a leaf; of another node, which of these documents go left, and its children."""

_ACTIVATIONS: Mapping[str, Callable[[Float32], Float32]] = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, np.float32(0.0)),
    "sigmoid": lambda x: np.float32(1.0) / (np.float32(1.0) + np.exp(-x)),
    "tanh": np.tanh,
}


def read_scores(target: str, content: bytes, features: Float32, names: tuple[str, ...]) -> Scores:
    """Scores of documents by the file of one of the targets above."""
    return READERS[target](json.loads(content), features, {name: j for j, name in enumerate(names)})


def _lightgbm_json(model: Any, features: Float32, _: Mapping[str, int]) -> Scores:
    x = features.astype(np.float64)

    def visit(node: Node, rows: NDArray[np.int64]) -> tuple[NDArray[np.bool_], Node, Node] | float:
        if "leaf_value" in node:
            return float(node["leaf_value"])
        values = x[rows, node["split_feature"]]
        left = (values < node["threshold"]) | (np.isnan(values) & node["default_left"])
        return left, node["left_child"], node["right_child"]

    return _sum_trees((tree["tree_structure"] for tree in model["tree_info"]), visit, len(x), np.float64)


def _xgboost_dump(model: Any, features: Float32, columns: Mapping[str, int]) -> Scores:
    def visit(node: Node, rows: NDArray[np.int64]) -> tuple[NDArray[np.bool_], Node, Node] | float:
        if "leaf" in node:
            return float(node["leaf"])
        values = features[rows, columns[node["split"]]]
        missing_left = node["missing"] == node["yes"]
        left = (values < np.float32(node["split_condition"])) | (np.isnan(values) & missing_left)
        return left, *node["children"]

    return _sum_trees(model, visit, len(features), np.float32)


def _solr(model: Any, features: Float32, columns: Mapping[str, int]) -> Scores:
    params, kind = model["params"], model["class"].rpartition(".")[2]
    if kind == "MultipleAdditiveTreesModel":
        return _solr_trees(params, features, columns)
    norms = {f["name"]: f["norm"]["params"] for f in model["features"] if "norm" in f}
    x = _normalize(features, columns, {n: (float(p["avg"]), float(p["std"])) for n, p in norms.items()})
    if kind == "LinearModel":
        return _weigh(x, columns, params["weights"])
    for layer in params["layers"]:
        matrix = np.array(layer["matrix"], np.float32).reshape(len(layer["bias"]), -1)
        x = _ACTIVATIONS[layer["activation"]](x @ matrix.T + np.array(layer["bias"], np.float32))
    return x[:, 0].astype(np.float64)


def _solr_trees(params: Any, features: Float32, columns: Mapping[str, int]) -> Scores:
    with_sides = params.get("isNullSameAsZero") is False
    x = features if with_sides else np.where(np.isnan(features), np.float32(0.0), features)

    def visit(node: Node, rows: NDArray[np.int64]) -> tuple[NDArray[np.bool_], Node, Node] | float:
        if "value" in node:
            return float(node["value"])
        values = x[rows, columns[node["feature"]]]
        left = values <= np.float32(float(node["threshold"])) + SLACK
        return left | (np.isnan(values) & (node.get("missing") == "left")), node["left"], node["right"]

    return _sum_trees((tree["root"] for tree in params["trees"]), visit, len(x), np.float32)


def _elasticsearch_linear(model: Any, features: Float32, columns: Mapping[str, int]) -> Scores:
    inner = model["model"]["model"]
    norms = {n: f["standard"] for n, f in inner.get("feature_normalizers", {}).items()}
    x = _normalize(features, columns, {n: (p["mean"], p["standard_deviation"]) for n, p in norms.items()})
    return _weigh(x, columns, json.loads(inner["definition"]))


READERS: Mapping[str, Callable[[Any, Float32, Mapping[str, int]], Scores]] = {
    "lightgbm-json": _lightgbm_json,
    "xgboost-dump": _xgboost_dump,
    "solr": _solr,
    "elasticsearch-linear": _elasticsearch_linear,
}
"""By target."""


def _sum_trees(trees: Iterable[Node], visit: Visit, n_documents: int, dtype: type[np.floating[Any]]) -> Scores:
    """Sum the leaves that documents reach, tree after tree, in this precision."""
    total = np.zeros(n_documents, dtype)
    for root in trees:
        pending = [(root, np.arange(n_documents))]
        while pending:
            node, rows = pending.pop()
            found = visit(node, rows)
            if isinstance(found, float):
                total[rows] += dtype(found)
                continue
            left, *children = found
            pending += [(child, rows[side]) for child, side in zip(children, (left, ~left), strict=True) if side.any()]
    return total.astype(np.float64)


def _normalize(features: Float32, columns: Mapping[str, int], norms: Mapping[str, tuple[float, float]]) -> Float32:
    x = np.where(np.isnan(features), np.float32(0.0), features)
    for name, (center, scale) in norms.items():
        j = columns[name]
        x[:, j] = (x[:, j] - np.float32(center)) / np.float32(scale)
    return x


def _weigh(features: Float32, columns: Mapping[str, int], weights: Mapping[str, float]) -> Scores:
    total = np.zeros(len(features), np.float32)
    for name, weight in weights.items():
        total += np.float32(weight) * features[:, columns[name]]
    return total.astype(np.float64)
