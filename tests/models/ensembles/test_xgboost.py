from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import xgboost

from plackett.base.errors import DataError
from plackett.models.ensembles import Ensemble, read_xgboost

pytestmark = pytest.mark.kernels

N_DOCS, N_FEATURES = 1500, 5
CATEGORY = N_FEATURES - 1
TYPES = ["q"] * CATEGORY + ["c"]


def data(seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(N_DOCS, N_FEATURES)).astype(np.float32)
    features[:, 0] = np.round(features[:, 0])
    features[:, 1] *= np.float32(1e-36)
    features[:, CATEGORY] = rng.integers(0, 70, N_DOCS)
    target = features[:, 0] + np.sin(3 * features[:, 2]) + (features[:, 1] > 0)
    target += np.isin(features[:, CATEGORY], [1, 4, 31, 32, 40, 63, 69]) * features[:, 3]
    features[rng.random(features.shape) < 0.1] = np.nan
    return features, target


def matrix(features: Any, label: Any = None, *, categories: bool = False, **info: Any) -> Any:
    if not categories:
        return xgboost.DMatrix(features, label, **info)
    return xgboost.DMatrix(features, label, feature_types=TYPES, enable_categorical=True, **info)


def trained(rounds: int = 15, *, categories: bool = False, **settings: Any) -> Any:
    features, target = data()
    info: dict[str, Any] = {}
    objective = settings.get("objective", "reg:squarederror")
    if objective.startswith("rank"):
        target, info = np.clip(np.round(target), 0, 3), {"group": [30] * (N_DOCS // 30)}
    if objective.startswith("count"):
        target = np.clip(np.round(target), 0, 3)
    if "logi" in objective:
        target = (target > 0.5).astype(float)
    training = matrix(features, target, categories=categories, **info)
    return xgboost.train({"nthread": 1, "seed": 0, **settings}, training, rounds)


def awkward(ensemble: Ensemble, n_docs: int, *, categories: bool) -> Any:
    """Values equal to thresholds and their float32 neighbours, NaN, zeros, tiny numbers."""
    rng = np.random.default_rng(1)
    features = data(2)[0][:n_docs]
    for column in range(N_FEATURES):
        near = ensemble.threshold[ensemble.feature == column].astype(np.float32)
        special = np.array([0.0, -0.0, 1e-45, 1e-36, -1e-36, np.nan, 3e38, -3e38], np.float32)
        if categories and column == CATEGORY:
            near, special = np.arange(0, 130, dtype=np.float32), special[:1]
        with np.errstate(under="ignore"):
            pool = [near, np.nextafter(near, np.float32(np.inf)), special]
        chosen = rng.random(n_docs) < 0.7
        features[chosen, column] = rng.choice(np.concatenate(pool), int(chosen.sum()))
    return features


SETTINGS = {
    "plain": {},
    "ranking": {"objective": "rank:ndcg"},
    "exact, pruned": {"tree_method": "exact", "gamma": 2.0},
    "lossguide": {"grow_policy": "lossguide", "max_leaves": 300, "max_depth": 0},
    "counts": {"objective": "count:poisson"},
    "base score": {"base_score": 12.5},
    "logistic": {"objective": "binary:logistic", "base_score": 0.5},
    "forest": {"num_parallel_tree": 3, "subsample": 0.5},
    "no split possible": {"min_child_weight": 1e9},
    "categories": {"categories": True, "max_cat_to_onehot": 1},
    "single categories": {"categories": True, "max_cat_to_onehot": 100},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
@pytest.mark.parametrize("form", ["json", "ubj"])
def test_scores_are_those_of_xgboost_to_the_bit(settings: dict[str, Any], form: str) -> None:
    booster = trained(**settings)
    categories = settings.get("categories", False)
    ensemble = read_xgboost(bytes(booster.save_raw(form)))
    features = awkward(ensemble, 700, categories=categories)
    for n_docs in (3, 100, 700):
        test = matrix(features[:n_docs], categories=categories)
        expected = booster.predict(test, output_margin=True)
        np.testing.assert_array_equal(ensemble.predict(features[:n_docs]), expected)


def test_the_base_score_of_a_logistic_model_is_right_to_float32() -> None:
    booster = trained(objective="binary:logistic")
    ensemble = read_xgboost(bytes(booster.save_raw("json")))
    features, _ = data()
    expected = booster.predict(matrix(features), output_margin=True)
    np.testing.assert_allclose(ensemble.predict(features), expected, rtol=1e-6, atol=1e-6)


def test_absent_entries_of_a_sparse_row_are_missing() -> None:
    booster = trained()
    features = np.nan_to_num(data(3)[0])
    rows = scipy.sparse.csr_matrix(np.where(np.abs(features) < 0.5, 0, features))
    expected = booster.predict(xgboost.DMatrix(rows), output_margin=True)
    ensemble = read_xgboost(bytes(booster.save_raw("json")))
    np.testing.assert_array_equal(ensemble.predict(rows), expected)


def test_a_file_of_either_kind_is_recognised_by_its_contents(tmp_path: Path) -> None:
    booster = trained(3)
    features, _ = data()
    expected = booster.predict(matrix(features), output_margin=True)
    for name in ("model.json", "model.ubj"):
        booster.save_model(tmp_path / name)
        ensemble = read_xgboost(tmp_path / name)
        np.testing.assert_array_equal(ensemble.predict(features), expected)


def test_names_of_features_are_kept() -> None:
    features, target = data()
    names = [f"f-{i}" for i in range(N_FEATURES)]
    booster = xgboost.train({}, xgboost.DMatrix(features, target, feature_names=names), 2)
    assert read_xgboost(bytes(booster.save_raw("ubj"))).feature_names == tuple(names)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"booster": "dart", "rate_drop": 0.5}, "booster 'dart'; only gbtree"),
        ({"booster": "gblinear"}, "booster 'gblinear'; only gbtree"),
        ({"objective": "reg:squarederror", "multi": True}, "one score per document"),
        ({"objective": "survival:cox"}, "objective 'survival:cox'; known are"),
    ],
)
def test_models_of_another_kind_are_refused(settings: dict[str, Any], reason: str) -> None:
    features, target = data()
    features = np.nan_to_num(features)
    label = np.stack([target, -target], axis=1) if settings.pop("multi", False) else target
    booster = xgboost.train({"nthread": 1, **settings}, xgboost.DMatrix(features, label), 3)
    with pytest.raises(DataError, match=reason):
        read_xgboost(bytes(booster.save_raw("json")))


def test_sets_that_are_large_for_their_file_are_refused() -> None:
    model = json.loads(trained(1, categories=True, max_cat_to_onehot=1).save_raw("json"))
    tree = model["learner"]["gradient_booster"]["model"]["trees"][0]
    tree["categories"] = [2**24 - 1] * len(tree["categories"])
    with pytest.raises(DataError, match="too large for the file"):
        read_xgboost(json.dumps(model))
