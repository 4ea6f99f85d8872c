"""Linear models through every form that holds them."""

from __future__ import annotations

import json

import numpy as np
import onnxruntime
import pytest

from plackett.base.errors import UsageError
from plackett.serving.export import export
from serving_models import NAMES, documents, fitted, scores
from target_interpreters import plugin_linear, solr

SINGLE = 1e-5  # relative to the largest score: a dozen operations in float32

ENGINES = {"solr": solr, "elasticsearch-linear": plugin_linear}


def text_of(tmp_path, model, form, **options):
    path = tmp_path / "model"
    export(fitted(model), path, form, **options)
    return path.read_text()


def assert_close(found, expected) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=SINGLE * (1 + np.abs(expected).max()))


@pytest.mark.parametrize("form", ENGINES)
@pytest.mark.parametrize("model", ["linear", "linear-plain", "linear-crossfit"])
def test_search_engines_score_the_same(tmp_path, model, form) -> None:
    X = documents(100, 3)
    actual = ENGINES[form](text_of(tmp_path, model, form), X, NAMES)
    assert_close(actual, scores(model, X))


@pytest.mark.parametrize("form", ENGINES)
def test_impute_can_be_omitted_without_missing_values(tmp_path, form) -> None:
    X = documents(100, 3)
    with pytest.raises(UsageError, match="cannot replace it by another value"):
        text_of(tmp_path, "linear-impute-missing", form)
    text = text_of(tmp_path, "linear-impute-missing", form, missing="never")
    assert_close(ENGINES[form](text, X, NAMES), scores("linear-impute-missing", X))


@pytest.mark.parametrize("form", ENGINES)
@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("linear-log1p", "cannot apply the transform 'log1p'"),
        ("linear-quantile", "cannot apply the transform 'quantile'"),
        ("linear-minmax", "within each list"),
        ("linear-crossfit-list", 'combine="list"'),
    ],
)
def test_what_a_search_engine_cannot_do_is_refused(tmp_path, model, reason, form) -> None:
    with pytest.raises(UsageError, match=reason):
        text_of(tmp_path, model, form)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("form", ["lightgbm-text", "xgboost-json", "ranklib", "lightgbm-json"])
def test_linear_models_are_refused_by_targets_of_trees(tmp_path, form) -> None:
    with pytest.raises(UsageError, match="this model is a linear model; export it as solr"):
        text_of(tmp_path, "linear", form)


def test_constant_features_have_no_normaliser_and_no_weight(tmp_path) -> None:
    model = json.loads(text_of(tmp_path, "linear", "solr"))
    constant = model["features"][NAMES.index("always_one")]
    assert constant == {"name": "always_one"}
    assert model["params"]["weights"]["always_one"] == 0.0


@pytest.mark.parametrize(
    "model", ["linear", "linear-plain", "linear-log1p", "linear-quantile", "linear-impute-missing", "linear-crossfit"]
)
def test_onnx_applies_every_transform(tmp_path, model) -> None:
    path = tmp_path / "model.onnx"
    export(fitted(model), path, "onnx")
    X = documents(200, 4).copy()
    X[:20] *= -1.0
    if model.endswith("missing"):
        X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (actual,) = session.run(None, {"features": X})
    expected = scores(model, X)
    np.testing.assert_allclose(actual[:, 0], expected, rtol=3e-7, atol=3e-7)


def test_onnx_carries_the_names(tmp_path) -> None:
    path = tmp_path / "model.onnx"
    export(fitted("linear"), path, "onnx", name="ours")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    properties = session.get_modelmeta().custom_metadata_map
    assert json.loads(properties["feature_names"]) == list(NAMES)
    assert properties["name"] == "ours"
    assert [item.name for item in session.get_inputs()] == ["features"]
