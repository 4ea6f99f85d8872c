"""CatBoost's models: the same scores to the bit, from JSON and from the binary form."""

from __future__ import annotations

import json

import numpy as np
import pytest

import plackett as pk
from plackett.models.ensembles import import_model, read_catboost

catboost = pytest.importorskip("catboost")


def _data(seed=0, n=600):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)).astype(np.float32)
    X[::7, 1] = np.nan
    X[::5, 2] = 0.0
    y = np.clip(np.round(np.nan_to_num(X[:, 1]) + X[:, 3] + rng.normal(size=n)), 0, 3)
    return X, y, np.repeat(np.arange(n // 10), 10)


def _fit(**settings):
    X, y, groups = _data()
    fixed = {"loss_function": "YetiRank", "iterations": 20, "depth": 4, "thread_count": 1}
    model = catboost.CatBoost(fixed | {"verbose": 0, "allow_writing_files": False, "random_seed": 1} | settings)
    return model.fit(catboost.Pool(X, y, group_id=groups))


@pytest.mark.parametrize("form", ["json", "cbm"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"depth": 1},
        {"depth": 8},
        {"nan_mode": "Max"},
        {"loss_function": "QueryRMSE"},
        {"grow_policy": "Lossguide", "max_leaves": 9},
        {"grow_policy": "Depthwise"},
    ],
)
def test_scores_equal_catboosts_to_the_bit(settings, form, tmp_path) -> None:
    model = _fit(**settings)
    path = tmp_path / f"model.{form}"
    model.save_model(str(path), format=form)
    X = _data(seed=1, n=3000)[0]
    X[0] = [np.inf, -np.inf, 0, -0.0, 1e-38, np.nan]
    ranker = import_model(path)
    assert ranker.form_ == "catboost"
    expected = model.predict(X, prediction_type="RawFormulaVal")
    assert np.array_equal(ranker.ensemble_.predict(X), expected)
    assert np.array_equal(ranker.ensemble_.predict(X[:2]), expected[:2])


def test_scale_and_bias_are_applied(tmp_path) -> None:
    model = _fit()
    model.set_scale_and_bias(0.5, 3.0)
    X = _data(seed=1)[0]
    expected = model.predict(X, prediction_type="RawFormulaVal")
    for form in ("json", "cbm"):
        model.save_model(str(tmp_path / f"m.{form}"), format=form)
        ensemble = read_catboost(tmp_path / f"m.{form}")
        assert np.allclose(ensemble.predict(X), expected, rtol=0, atol=1e-14)


def test_an_imported_model_is_saved_loaded_and_exported(tmp_path) -> None:
    from plackett.serving.export import export

    model = _fit()
    model.save_model(str(tmp_path / "m.cbm"))
    ranker = import_model(tmp_path / "m.cbm", feature_names=[f"f{j}" for j in range(6)])
    X = _data(seed=1)[0]
    ranker.save(tmp_path / "m.plackett")
    back = pk.load(tmp_path / "m.plackett")
    assert np.array_equal(back.predict(X), model.predict(X, prediction_type="RawFormulaVal"))
    export(ranker, tmp_path / "m.txt", "lightgbm-text")
    again = import_model(tmp_path / "m.txt")
    assert np.allclose(again.predict(X), back.predict(X), rtol=0, atol=1e-12)


def test_names_of_features_are_read(tmp_path) -> None:
    X, y, groups = _data()
    names = [f"feature {j}" for j in range(6)]
    pool = catboost.Pool(X, y, group_id=groups, feature_names=names)
    settings = {"loss_function": "YetiRank", "iterations": 2, "verbose": 0}
    model = catboost.CatBoost(settings | {"allow_writing_files": False}).fit(pool)
    for form in ("json", "cbm"):
        model.save_model(str(tmp_path / f"m.{form}"), format=form)
        assert read_catboost(tmp_path / f"m.{form}").feature_names == tuple(names)


def test_other_kinds_of_models_are_refused(tmp_path) -> None:
    X, y, _ = _data()
    settings = {"iterations": 3, "verbose": 0, "allow_writing_files": False}
    several = catboost.CatBoost(settings | {"loss_function": "MultiClass"}).fit(X, y)
    table = np.concatenate([X.astype(object), np.array([["a"], ["b"], ["c"]])[y.astype(int) % 3]], 1)
    table[:, 1] = 0.0
    pool = catboost.Pool(table, y, cat_features=[6])
    categories = catboost.CatBoost(settings | {"loss_function": "RMSE"}).fit(pool)
    several.save_model(str(tmp_path / "several.cbm"))
    with pytest.raises(pk.DataError, match="several scores per document"):
        read_catboost(tmp_path / "several.cbm")
    categories.save_model(str(tmp_path / "categories.cbm"))
    with pytest.raises(pk.DataError, match="only splits on numbers are read"):
        read_catboost(tmp_path / "categories.cbm")
    categories.save_model(str(tmp_path / "categories.json"), format="json", pool=pool)
    with pytest.raises(pk.DataError, match="only splits on numbers are read"):
        read_catboost(tmp_path / "categories.json")


@pytest.mark.parametrize("grow_policy", ["SymmetricTree", "Lossguide"])
def test_a_damaged_binary_model_never_crashes(grow_policy, tmp_path) -> None:
    path = tmp_path / "m.cbm"
    _fit(iterations=3, depth=3, grow_policy=grow_policy).save_model(str(path))
    content = path.read_bytes()
    X = _data()[0][:50]
    rng = np.random.default_rng(0)
    for length in rng.integers(0, len(content), 100):
        with pytest.raises(pk.DataError):
            read_catboost(content[:length] if length > 4 else b"CBM1" + content[4:length])
    refused = 0
    for _ in range(500):
        damaged = bytearray(content)
        for at in rng.integers(8, len(content), 20):
            damaged[at] = rng.integers(256)
        try:
            ensemble = read_catboost(bytes(damaged))
        except pk.DataError:
            refused += 1
        else:
            if ensemble.n_features == X.shape[1]:
                ensemble.predict(X)
    assert refused > 0


def test_damaged_json_is_refused(tmp_path) -> None:
    path = tmp_path / "m.json"
    _fit(iterations=2, depth=2).save_model(str(path), format="json")
    model = json.loads(path.read_text())

    def changed(change):
        copy = json.loads(json.dumps(model))
        change(copy)
        return json.dumps(copy)

    def first(m):
        return m["oblivious_trees"][0]

    changes = [
        lambda m: m.pop("features_info"),
        lambda m: m.pop("oblivious_trees"),
        lambda m: m.update(oblivious_trees=[3]),
        lambda m: first(m)["leaf_values"].append(1.0),
        lambda m: first(m).update(leaf_values="x"),
        lambda m: first(m)["splits"][0].update(float_feature_index=99),
        lambda m: first(m)["splits"][0].update(border="x"),
        lambda m: m.update(scale_and_bias=[1, [0, 0]]),
        lambda m: m.update(scale_and_bias=["a", [0]]),
        lambda m: m["features_info"]["float_features"][0].update(flat_feature_index=-1),
        lambda m: m["features_info"]["float_features"][0].update(flat_feature_index=2**40),
    ]
    for change in changes:
        with pytest.raises(pk.DataError):
            read_catboost(changed(change))
    with pytest.raises(pk.DataError):
        read_catboost("{")
