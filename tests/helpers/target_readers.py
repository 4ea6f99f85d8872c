"""Each export target, read by the library itself or by our interpreter of its format."""

from __future__ import annotations

import lightgbm
import onnxruntime
import xgboost

from serving_models import NAMES
from target_interpreters import opensearch_raw, plugin_xgboost_dump, ranklib, solr, vespa_lightgbm

SINGLE = 2e-6  # sums of a few dozen leaves of size one, in float32


def from_lightgbm(path, features):
    booster = lightgbm.Booster(model_file=str(path))
    return booster.predict(features, raw_score=True, num_threads=1)


def from_xgboost(path, features):
    booster = xgboost.Booster({"nthread": 1}, model_file=str(path))
    matrix = xgboost.DMatrix(features, feature_names=list(NAMES), nthread=1)
    return booster.predict(matrix, output_margin=True)


def from_onnx(path, features):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (actual,) = session.run(["scores"], {"features": features})
    assert actual.shape == (len(features), 1)
    return actual[:, 0]


READ = {
    "lightgbm-text": from_lightgbm,
    "lightgbm-json": lambda path, X: vespa_lightgbm(path.read_text(), X),
    "xgboost-json": from_xgboost,
    "xgboost-ubj": from_xgboost,
    "xgboost-dump": lambda path, X: plugin_xgboost_dump(path.read_text(), X, NAMES),
    "opensearch-xgboost": lambda path, X: opensearch_raw(path.read_text(), X, NAMES),
    "ranklib": lambda path, X: ranklib(path.read_text(), X),
    "solr": lambda path, X: solr(path.read_text(), X, NAMES),
    "onnx": from_onnx,
}


def suffixed(path, form):
    """XGBoost goes by the suffix of a file."""
    suffix = {"xgboost-json": ".json", "xgboost-ubj": ".ubj"}.get(form, "")
    return path.rename(path.with_suffix(suffix))
