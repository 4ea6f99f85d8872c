"""Documents at the thresholds of a model, scored by the model and by what was written of it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.ragged import Scores
from plackett.data.transforms import FittedImpute, FittedStandard
from plackett.models.ensembles import (
    Ensemble,
    EnsembleRanker,
    read_lightgbm,
    read_ranklib,
    read_xgboost,
)
from plackett.models.ensembles.layout import CATEGORICAL
from plackett.models.ranker import Ranker
from plackett.serving.export.parts import Part, trees_of
from plackett.serving.export.targets import Request, form_of
from plackett.serving.export.trees import TINY, single_below

_DOCUMENTS = 128
_WIDEST = 1e30  # sizes of features beyond which differences overflow float32
_SPECIAL = 0.1  # share of zeros, and of missing values
_SINGLE, _DOUBLE = float(np.finfo(np.float32).eps), float(np.finfo(np.float64).eps)
_STEPS = 1000  # roundings that a document of a linear model or a net goes through, about


class Thresholds(NamedTuple):
    """What the nodes of trees ask, and how large scores can be."""

    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    n_trees: int
    largest: float
    """Sum over trees of the largest leaf."""


def verified(ranker: Ranker, asked: Request, form: str, content: bytes) -> bool:
    """Refuse a file whose scores are not the ranker's; False: the form cannot be read here."""
    asks = _thresholds(asked, form, content) if asked.kind == "trees" else None
    missing = asked.missing == "keep" and form_of(form).takes_missing and _takes_missing(asked)
    features = probes(asked, asks, missing=missing)
    if form == "lightgbm-text":
        features[np.abs(features) <= TINY] = 0.0  # what LightGBM takes for zero, others may not
    found = _read_back(form, content, features)
    if found is None:
        return False
    expected = ranker.predict(features)
    double = form == "lightgbm-text" and not any(map(_sums_single, asked.parts))
    bound = _tolerance(expected, asks, _DOUBLE if double else _SINGLE)
    worst = float(np.max(np.abs(found - expected)))
    if not worst <= bound:
        raise DataError(
            f"what was written as {form} scores a document {worst:.3g} away from the model, where "
            f"rounding explains {bound:.3g}; nothing was kept. Please report this model."
        )
    return True


def _takes_missing(asked: Request) -> bool:
    """Trees do; other models where a value takes the place of what is missing."""
    return asked.kind == "trees" or all(
        any(isinstance(each, FittedImpute) for each in part.transforms) for part in asked.parts
    )


def _sums_single(part: Part) -> bool:
    """Whether the model itself adds in float32, as XGBoost does."""
    ranker = part.ranker
    return isinstance(ranker, EnsembleRanker) and ranker.ensemble_.library == "xgboost"


def _thresholds(asked: Request, form: str, content: bytes) -> Thresholds:
    if form == "lightgbm-text":  # the one form that holds trees with categories
        ensemble: Ensemble = read_lightgbm(content)
        numeric = (ensemble.decision & CATEGORICAL) == 0
        feature, threshold = ensemble.feature[numeric], single_below(ensemble.threshold[numeric])
        values, leaves, base = ensemble.leaf_values, ensemble.leaves, ensemble.base_score
    else:
        trees = trees_of(asked.parts)
        feature, threshold = trees.feature, trees.threshold
        values, leaves, base = trees.values, trees.leaves, trees.base
    n_trees = len(leaves) - 1
    largest = np.maximum.reduceat(np.abs(values), leaves[:-1]).sum() if n_trees else 0.0
    return Thresholds(feature, threshold, n_trees, float(largest) + abs(base))


def probes(asked: Request, asks: Thresholds | None, *, missing: bool) -> NDArray[np.float32]:
    """Random documents; of trees, half of the features are at a threshold or next to it."""
    rng = np.random.default_rng(0)
    shape = (_DOCUMENTS, len(asked.names))
    first = asked.parts[0].transforms[:1]
    features = rng.normal(size=shape).astype(np.float32)
    if first and isinstance(first[0], FittedStandard):
        features = (features * first[0].deviation + first[0].mean).astype(np.float32)
    if asks is not None:
        below_end = np.clip(asks.threshold, -_WIDEST, _WIDEST)
        for j in np.unique(asks.feature):
            at = rng.choice(below_end[asks.feature == j], _DOCUMENTS)
            near = np.where(rng.random(_DOCUMENTS) < 0.5, at, np.nextafter(at, np.float32(np.inf)))
            features[:, j] = np.where(rng.random(_DOCUMENTS) < 0.5, near, features[:, j])
        features[rng.random(shape) < _SPECIAL] = 0.0
    if missing:
        features[rng.random(shape) < _SPECIAL] = np.nan
    return np.clip(features, -_WIDEST, _WIDEST)


def _tolerance(expected: Scores, asks: Thresholds | None, unit: float) -> float:
    """How far sums in another order, or in float32, may be apart."""
    if asks is None:
        return unit * _STEPS * float(1.0 + np.abs(expected).max())
    return unit * (asks.n_trees + 2) * asks.largest


def _read_back(form: str, content: bytes, features: NDArray[np.float32]) -> Scores | None:
    if form == "lightgbm-text":
        return read_lightgbm(content).predict(features)
    if form in ("xgboost-json", "xgboost-ubj", "opensearch-xgboost"):
        return read_xgboost(content).predict(features)
    if form == "ranklib":
        return read_ranklib(content, n_features=features.shape[1]).predict(features)
    if form == "onnx" and find_spec("onnxruntime") is not None:
        import onnxruntime  # type: ignore[import-untyped]

        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        found = session.run(None, {"features": features})[0]
        return np.asarray(found, np.float64).reshape(-1)
    return None
