from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import scipy.sparse

from plackett.base.errors import DataError
from plackett.models.ensembles import Ensemble, read_lightgbm
from plackett.models.ensembles.scoring import CATEGORICAL, DEFAULT_LEFT
from reference_trees import SPECIAL

pytestmark = pytest.mark.kernels

N_DOCS, N_FEATURES = 3000, 6
CATEGORY = N_FEATURES - 1  # the column with categories
QUIET = {"verbosity": -1, "num_threads": 1, "min_data_in_leaf": 5, "seed": 3}


def data(seed: int = 0, *, missing: bool = True) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(N_DOCS, N_FEATURES)).astype(np.float32)
    features[:, 0] = np.round(features[:, 0])  # ties, and zeros
    features[:, 1] *= np.float32(1e-35)  # around the size below which LightGBM reads zero
    features[:, CATEGORY] = rng.integers(0, 70, N_DOCS)
    target = features[:, 0] + np.sin(3 * features[:, 2]) + (features[:, 1] > 0)
    target += np.isin(features[:, CATEGORY], [1, 4, 31, 32, 40, 63, 69]) * features[:, 3]
    if missing:
        features[rng.random(features.shape) < 0.1] = np.nan
    return features, target + rng.normal(scale=0.1, size=N_DOCS)


def trained(rounds: int = 20, *, missing: bool = True, **settings: Any) -> Any:
    features, target = data(missing=missing)
    categories = settings.pop("categorical_feature", "auto")
    settings = {**QUIET, **settings}
    training = lightgbm.Dataset(features, target, categorical_feature=categories, params=settings)
    return lightgbm.train(settings, training, rounds)


def awkward(ensemble: Ensemble, n_docs: int) -> Any:
    """Rows whose values are thresholds of their own column, neighbours of those, or special."""
    rng = np.random.default_rng(1)
    features, _ = data(2)
    features = features[:n_docs]
    for column in range(N_FEATURES):
        ours = ensemble.threshold[ensemble.feature == column]
        with np.errstate(over="ignore", under="ignore"):
            near = np.append(ours.astype(np.float32), np.float32(0.5))
            pool = [
                near,
                np.nextafter(near, np.float32(-np.inf)),
                np.nextafter(near, np.float32(np.inf)),
                SPECIAL,
                np.arange(0, 100, 3, dtype=np.float32),
            ]
        chosen = rng.random(n_docs) < 0.7
        features[chosen, column] = rng.choice(np.concatenate(pool), int(chosen.sum()))
    return features


SETTINGS = {
    "plain": {},
    "no missing values seen": {"missing": False},
    "missing values ignored": {"use_missing": False},
    "zero is missing": {"zero_as_missing": True},
    "zero is missing, none seen": {"zero_as_missing": True, "missing": False},
    "categories": {"categorical_feature": [CATEGORY], "cat_smooth": 1, "min_data_per_group": 5},
    "single categories": {"categorical_feature": [CATEGORY], "max_cat_to_onehot": 100},
    "categories, zero missing": {"categorical_feature": [CATEGORY], "zero_as_missing": True},
    "two leaves": {"num_leaves": 2},
    "256 leaves": {"num_leaves": 256, "min_data_in_leaf": 1},
    "400 leaves": {"num_leaves": 400, "min_data_in_leaf": 1},
    "random forest": {"boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1},
    "dart": {"boosting": "dart", "drop_rate": 0.5},
    "no split possible": {"min_data_in_leaf": N_DOCS},
    "extra trees": {"extra_trees": True, "max_bin": 1000, "min_data_in_bin": 1},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_scores_are_those_of_lightgbm_to_the_bit(settings: dict[str, Any]) -> None:
    booster = trained(**settings)
    ensemble = read_lightgbm(booster.model_to_string())
    features = awkward(ensemble, 1000)
    for n_docs in (3, 100, 1000):
        expected = booster.predict(features[:n_docs], raw_score=True)
        np.testing.assert_array_equal(ensemble.predict(features[:n_docs]), expected)


def test_the_models_compared_use_every_kind_of_decision() -> None:
    models = [read_lightgbm(trained(**chosen).model_to_string()) for chosen in SETTINGS.values()]
    used = set(np.concatenate([model.decision for model in models]).tolist())
    numeric = {bits for bits in used if not bits & CATEGORICAL}
    assert {bits >> 2 for bits in numeric} == {0, 1, 2}
    assert {bits & DEFAULT_LEFT for bits in numeric if bits >> 2} == {0, DEFAULT_LEFT}
    assert numeric < used
    assert any((np.diff(model.leaf_offsets) == 1).all() for model in models)
    assert max(np.diff(model.leaf_offsets).max() for model in models) > 256


def test_features_of_float64_are_compared_as_lightgbm_does() -> None:
    booster = trained(categorical_feature=[CATEGORY])
    ensemble = read_lightgbm(booster.model_to_string())
    rng = np.random.default_rng(0)
    features = awkward(ensemble, 500).astype(np.float64)
    ours = rng.choice(ensemble.threshold, features.shape)
    features = np.where(rng.random(features.shape) < 0.5, np.nextafter(ours, 9.0), features)
    expected = booster.predict(features, raw_score=True)
    np.testing.assert_array_equal(ensemble.predict(features), expected)


def test_sparse_rows_are_scored_as_lightgbm_does() -> None:
    booster = trained(zero_as_missing=True)
    ensemble = read_lightgbm(booster.model_to_string())
    features = awkward(ensemble, 300)
    matrix = scipy.sparse.csr_matrix(np.where(np.abs(features) < 0.5, 0, features))
    expected = booster.predict(matrix, raw_score=True)
    np.testing.assert_array_equal(ensemble.predict(matrix), expected)


def test_a_model_cut_at_its_best_iteration_has_those_trees_only() -> None:
    features, target = data()
    booster = lightgbm.train(
        {**QUIET, "learning_rate": 0.5, "num_leaves": 100},
        lightgbm.Dataset(features, target),
        60,
        valid_sets=[lightgbm.Dataset(*data(5))],
        callbacks=[lightgbm.early_stopping(3, verbose=False)],
        keep_training_booster=True,
    )
    best = booster.best_iteration
    assert 0 < best < booster.current_iteration()
    ensemble = read_lightgbm(booster.model_to_string(num_iteration=best))
    assert ensemble.n_trees == best
    expected = booster.predict(features, raw_score=True, num_iteration=best)
    np.testing.assert_array_equal(ensemble.predict(features), expected)


def test_a_file_and_its_text_give_the_same_model(tmp_path: Path) -> None:
    booster = trained(5)
    path = tmp_path / "model.txt"
    booster.save_model(path)
    features, _ = data()
    expected = booster.predict(features, raw_score=True)
    for source in (path, path.read_bytes(), path.read_text()):
        np.testing.assert_array_equal(read_lightgbm(source).predict(features), expected)


def test_text_of_the_version_before_is_read_as_lightgbm_reads_it() -> None:
    text = trained(5).model_to_string().replace("version=v4", "version=v3")
    features, _ = data()
    expected = lightgbm.Booster(model_str=text).predict(features, raw_score=True)
    np.testing.assert_array_equal(read_lightgbm(text).predict(features), expected)


def test_names_of_features_are_kept() -> None:
    features, target = data()
    names = [f"f-{i}" for i in range(N_FEATURES)]
    training = lightgbm.Dataset(features, target, feature_name=names)
    ensemble = read_lightgbm(lightgbm.train(QUIET, training, 2).model_to_string())
    assert ensemble.feature_names == tuple(names)


def test_several_classes_are_refused() -> None:
    features, target = data()
    training = lightgbm.Dataset(features, target > 0)
    booster = lightgbm.train({**QUIET, "objective": "multiclass", "num_class": 3}, training, 2)
    with pytest.raises(DataError, match="num_class is 3; only models with one score"):
        read_lightgbm(booster.model_to_string())


def test_linear_leaves_are_refused() -> None:
    booster = trained(2, linear_tree=True)
    with pytest.raises(DataError, match="tree 0 has linear models at its leaves"):
        read_lightgbm(booster.model_to_string())


def test_ordinary_features_of_real_lists_are_scored_to_the_bit(real_data: Path) -> None:
    from plackett import read_folds

    fold = next(iter(read_folds(real_data / "OHSUMED")))
    training = lightgbm.Dataset(fold.train.features, fold.train.labels)
    booster = lightgbm.train({**QUIET, "num_leaves": 64}, training, 50)
    ensemble = read_lightgbm(booster.model_to_string())
    expected = booster.predict(fold.test.features, raw_score=True)
    np.testing.assert_array_equal(ensemble.predict(fold.test.features), expected)
