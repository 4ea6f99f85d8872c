r"""Compare the scores of a written file with those of the model, on documents at its thresholds.

Formats that plackett imports are read by :mod:`plackett.models.ensembles`. The others are scored
here, with the arithmetic of the search engines that load them:

====================  ============================================================================
target                arithmetic
====================  ============================================================================
lightgbm-json         Vespa: :math:`x < t` in float64, a missing value goes to ``default_left``
xgboost-dump          the plugins: :math:`x < t` in float32, a missing value goes to ``missing``
solr                  :math:`x \le t + 10^{-6}` in float32; normalizers, weights and layers too
elasticsearch-linear  the plugins: normalizers and weights in float32
====================  ============================================================================

Only files from our own writers are supported; a file of another form raises KeyError or ValueError.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.ragged import Features, Scores
from plackett.data.transforms import FittedImpute, FittedStandard
from plackett.models import Ranker
from plackett.models.ensembles import EnsembleRanker, read_lightgbm, read_ranklib, read_xgboost
from plackett.models.ensembles.scoring import CATEGORICAL
from plackett.serving.export.parts import ExportRequest
from plackett.serving.export.search_engines import NEAR_ZERO, SLACK
from plackett.serving.export.trees import TINY, to_float32_threshold

if TYPE_CHECKING:
    from plackett.serving.export import Target


_DOCUMENTS = 128
_FLOAT64 = ("lightgbm-text", "lightgbm-json")  # targets that sum in float64
_ZERO = {"lightgbm-text": TINY, "lightgbm-json": TINY, "solr": NEAR_ZERO}
"""Values up to this size that a target, or the model it was made from, reads as zero."""
_LARGEST_VALUE = 1e30  # beyond, differences of features overflow float32
_SPECIAL = 0.1  # fraction of zeros, and of missing values
_EPS32, _EPS64 = float(np.finfo(np.float32).eps), float(np.finfo(np.float64).eps)
_ROUNDINGS = 1000  # rough number of rounding errors per document in a linear model or a net


class _Splits(NamedTuple):
    """The numeric splits of trees, and a bound on their scores."""

    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    size: float
    """The largest sum of leaves times the number of additions; rounding errors are relative to it."""


def verify_scores(
    ranker: Ranker, request: ExportRequest, target: Target, content: bytes, documents: Features | None = None
) -> float | None:
    """Raise if a file scores random or given documents differently from the ranker.

    Returns the largest difference; None for ONNX without onnxruntime.
    """
    splits = _find_splits(request, target.name, content) if request.kind == "trees" else None
    # Trees score missing values, other models only after ``impute``.
    is_scored = request.kind == "trees" or all(
        any(isinstance(transform, FittedImpute) for transform in part.transforms) for part in request.parts
    )
    missing = request.missing == "keep" and target.takes_missing and is_scored
    features = make_documents(request, splits, missing=missing)
    if documents is not None:
        features = np.concatenate([features, np.asarray(documents, np.float32)])
    if target.name in _ZERO:  # small values that these targets read as zero, and others may not
        features[np.abs(features) <= _ZERO[target.name]] = 0.0
    scores = _read_back(target.name, content, features, request.names)
    if scores is None:
        return None
    expected = ranker.predict(features)
    rankers = [part.ranker for part in request.parts]
    in_float32 = any(isinstance(r, EnsembleRanker) and r.ensemble_.library == "xgboost" for r in rankers)
    sums_float64 = target.name in _FLOAT64 and not in_float32
    size = splits.size if splits else _ROUNDINGS * float(1.0 + np.abs(expected).max())
    bound = (_EPS64 if sums_float64 else _EPS32) * size  # the largest difference that rounding explains
    worst = float(np.max(np.abs(scores - expected)))
    if not worst <= bound:
        raise DataError(
            f"the {target.name} file scores a document {worst:.3g} away from the model, where "
            f"rounding explains {bound:.3g}; nothing was written. Please report this model."
        )
    return worst


def _find_splits(request: ExportRequest, target: str, content: bytes) -> _Splits:
    if target == "lightgbm-text":  # the only target that holds trees with categories
        ensemble = read_lightgbm(content)
        numeric = (ensemble.decision & CATEGORICAL) == 0
        feature = ensemble.feature[numeric]
        threshold = to_float32_threshold(ensemble.threshold[numeric])
        values, leaves, base = ensemble.leaf_values, ensemble.leaf_offsets, ensemble.base_score
    else:
        trees = request.trees
        feature, threshold = trees.feature, trees.threshold
        values, leaves, base = trees.values, trees.leaf_offsets, trees.base
    n_trees = len(leaves) - 1
    largest = np.maximum.reduceat(np.abs(values), leaves[:-1]).sum() if n_trees else 0.0
    return _Splits(feature, threshold, (n_trees + 2) * (float(largest) + abs(base)))


def make_documents(request: ExportRequest, splits: _Splits | None, *, missing: bool) -> NDArray[np.float32]:
    """Draw documents; for trees, half of the values are at a threshold or next to it."""
    rng = np.random.default_rng(0)
    shape = (_DOCUMENTS, len(request.names))
    first = request.parts[0].transforms[:1]
    features = rng.normal(size=shape).astype(np.float32)
    if first and isinstance(first[0], FittedStandard):
        features = (features * first[0].deviation + first[0].mean).astype(np.float32)
    if splits is not None:
        thresholds = np.clip(splits.threshold, -_LARGEST_VALUE, _LARGEST_VALUE)
        for j in np.unique(splits.feature):
            at = rng.choice(thresholds[splits.feature == j], _DOCUMENTS)
            near = np.where(rng.random(_DOCUMENTS) < 0.5, at, np.nextafter(at, np.float32(np.inf)))
            features[:, j] = np.where(rng.random(_DOCUMENTS) < 0.5, near, features[:, j])
        features[rng.random(shape) < _SPECIAL] = 0.0
    if missing:
        features[rng.random(shape) < _SPECIAL] = np.nan
    return np.clip(features, -_LARGEST_VALUE, _LARGEST_VALUE)


_XGBOOST_FILES = ("xgboost-json", "xgboost-ubj", "opensearch-xgboost")


def _read_back(target: str, content: bytes, features: NDArray[np.float32], names: tuple[str, ...]) -> Scores | None:
    if target in READERS:
        return READERS[target](json.loads(content), features, {name: j for j, name in enumerate(names)})
    if target == "onnx":
        if find_spec("onnxruntime") is None:
            return None
        import onnxruntime  # type: ignore[import-untyped]

        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        scores = session.run(None, {"features": features})[0]
        return np.asarray(scores, np.float64).reshape(-1)
    if target == "ranklib":
        return read_ranklib(content, n_features=features.shape[1]).predict(features)
    readers = {"lightgbm-text": read_lightgbm} | dict.fromkeys(_XGBOOST_FILES, read_xgboost)
    if target not in readers:
        raise NotImplementedError(f"the target {target!r} has no reader: add it to READERS or _read_back in {__file__}")
    return readers[target](content).predict(features)


Float32 = NDArray[np.float32]
Node = dict[str, Any]
Visit = Callable[[Node, NDArray[np.int64]], "tuple[NDArray[np.bool_], Node, Node] | float"]
"""For a leaf, its value; for another node, which of these documents go left, and its children."""

_ACTIVATIONS: Mapping[str, Callable[[Float32], Float32]] = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, np.float32(0.0)),
    "sigmoid": lambda x: np.float32(1.0) / (np.float32(1.0) + np.exp(-x)),
    "tanh": np.tanh,
}


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


def _sum_trees(trees: Iterable[Node], visit: Visit, n_documents: int, dtype: type[np.floating[Any]]) -> Scores:
    """Sum the leaves that documents reach, tree after tree, in this precision."""
    total = np.zeros(n_documents, dtype)
    for root in trees:
        pending = [(root, np.arange(n_documents))]
        while pending:
            node, rows = pending.pop()
            visited = visit(node, rows)
            if isinstance(visited, float):
                total[rows] += dtype(visited)
                continue
            left, *children = visited
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
