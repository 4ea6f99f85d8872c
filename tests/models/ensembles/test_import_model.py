"""Models of other libraries as rankers."""

from __future__ import annotations

import json
import shutil

import lightgbm
import numpy as np
import onnxruntime
import pytest
import xgboost
from hypothesis import given, settings, strategies as st

from plackett import evaluate, load
from plackett.base.errors import DataError, FeatureMismatch, UsageError
from plackett.models.artifact import seal
from plackett.models.ensembles import EnsembleRanker, import_model, read_ranklib
from plackett.serving.export import export
from serving_models import NAMES, data, documents, fitted, probes, scores
from target_interpreters import opensearch_raw, plugin_xgboost_dump, ranklib, solr, vespa_lightgbm

BY_HAND = """## LambdaMART
## No. of trees = 2
## No. of leaves = 3

<ensemble>
\t<tree id="1" weight="0.5">
\t\t<split>
\t\t\t<feature> 2 </feature>
\t\t\t<threshold> 10.5 </threshold>
\t\t\t<split pos="left">
\t\t\t\t<feature> 1 </feature>
\t\t\t\t<threshold> -0.25 </threshold>
\t\t\t\t<split pos="left">
\t\t\t\t\t<output> 1.0 </output>
\t\t\t\t</split>
\t\t\t\t<split pos="right">
\t\t\t\t\t<output> 2.0 </output>
\t\t\t\t</split>
\t\t\t</split>
\t\t\t<split pos="right">
\t\t\t\t<output> 4.0 </output>
\t\t\t</split>
\t\t</split>
\t</tree>
\t<tree id="2" weight="0.25">
\t\t<split>
\t\t\t<output> -8.0 </output>
\t\t</split>
\t</tree>
</ensemble>
"""


@pytest.fixture(scope="module")
def boosters(tmp_path_factory):
    """Files of models that LightGBM and XGBoost have trained themselves, and their predictions."""
    folder = tmp_path_factory.mktemp("foreign")
    train = data(missing=True)
    X, y, sizes = np.asarray(train.features), train.labels, np.diff(train.offsets)
    ours = lightgbm.train(
        {"objective": "lambdarank", "num_leaves": 7, "verbose": -1, "num_threads": 1},
        lightgbm.Dataset(X, y, group=sizes),
        8,
    )
    ours.save_model(folder / "lightgbm.txt")
    matrix = xgboost.DMatrix(X, y, group=sizes, feature_names=list(NAMES), nthread=1)
    settings_ = {"objective": "rank:ndcg", "max_depth": 3, "nthread": 1, "base_score": 0.75}
    theirs = xgboost.train(settings_, matrix, 8)
    theirs.save_model(folder / "xgboost.json")
    theirs.save_model(folder / "xgboost.ubj")
    (folder / "ranklib.xml").write_text(BY_HAND)

    def by_xgboost(X):
        rows = xgboost.DMatrix(X, feature_names=list(NAMES), nthread=1)
        return theirs.predict(rows, output_margin=True)

    return folder, {
        "lightgbm.txt": lambda X: ours.predict(X, raw_score=True, num_threads=1),
        "xgboost.json": by_xgboost,
        "xgboost.ubj": by_xgboost,
    }


@pytest.mark.parametrize("file", ["lightgbm.txt", "xgboost.json", "xgboost.ubj"])
def test_an_imported_model_scores_as_its_library_does(boosters, file) -> None:
    folder, predict = boosters
    X = probes("trees-missing", missing=True)
    np.testing.assert_array_equal(import_model(folder / file).predict(X), predict[file](X))


def test_ranklib_scores_are_those_of_its_trees(boosters) -> None:
    ranker = import_model(boosters[0] / "ranklib.xml")
    X = np.array([[-0.25, 10.5], [0.0, 10.5], [np.nan, 0], [0, 11], [-1, np.nan]], np.float32)
    expected = [0.5 - 2, 1.0 - 2, 1.0 - 2, 2.0 - 2, 0.5 - 2]
    assert ranker.predict(X).tolist() == expected
    assert ranklib(BY_HAND, X).tolist() == expected


def test_ranklib_does_not_say_how_many_features_there_are(boosters) -> None:
    path = boosters[0] / "ranklib.xml"
    with pytest.raises(FeatureMismatch, match="2 features"):
        import_model(path).predict(np.zeros((1, 6), np.float32))
    assert import_model(path, n_features=6).predict(np.zeros((1, 6), np.float32)).shape == (1,)
    with pytest.raises(DataError, match="use feature 2"):
        import_model(path, n_features=1)


@pytest.mark.parametrize("file", ["lightgbm.txt", "xgboost.json", "xgboost.ubj", "ranklib.xml"])
def test_an_imported_model_is_saved_and_loaded(boosters, file, tmp_path) -> None:
    ranker = import_model(boosters[0] / file)
    ranker.save(tmp_path / "model.plackett")
    again = load(tmp_path / "model.plackett")
    assert isinstance(again, EnsembleRanker)
    X = documents(50, 9)[:, : ranker.n_features_]
    np.testing.assert_array_equal(again.predict(X), ranker.predict(X))
    again.save(tmp_path / "again.plackett")


def test_an_imported_model_is_evaluated(boosters) -> None:
    ranker = import_model(boosters[0] / "lightgbm.txt", feature_names=NAMES)
    values = evaluate(ranker.predict(data()), data(), ["ndcg@5"])
    assert values["ndcg@5"] > 0.6


def test_features_are_checked_by_name_where_names_are_given(boosters) -> None:
    ranker = import_model(boosters[0] / "lightgbm.txt", feature_names=NAMES[::-1])
    with pytest.raises(FeatureMismatch, match="in the model's order"):
        ranker.predict(data())
    with pytest.raises(UsageError, match="2 feature names for a model of 6"):
        import_model(boosters[0] / "lightgbm.txt", feature_names=("a", "b"))


def test_an_imported_model_cannot_be_fitted_and_stays_as_it_was(boosters) -> None:
    ranker = import_model(boosters[0] / "ranklib.xml")
    with pytest.raises(UsageError, match="cannot be fitted"):
        ranker.fit(data())
    assert ranker.n_features_ == 2


def test_files_that_are_not_models_are_refused(tmp_path) -> None:
    path = tmp_path / "file"
    path.write_text("0 qid:1 1:0.5\n")
    with pytest.raises(DataError, match="can be imported; these can be: LightGBM"):
        import_model(path)
    with pytest.raises(UsageError, match="There are: lightgbm, xgboost, catboost, ranklib"):
        import_model(path, form="keras")


def test_an_average_of_trees_is_not_taken_for_a_sum(tmp_path) -> None:
    train = data()
    forest = lightgbm.train(
        {
            "boosting": "rf",
            "bagging_freq": 1,
            "bagging_fraction": 0.5,
            "verbose": -1,
            "num_threads": 1,
            "num_leaves": 4,
        },
        lightgbm.Dataset(np.asarray(train.features), train.labels),
        3,
    )
    forest.save_model(tmp_path / "forest.txt")
    with pytest.raises(DataError, match="averages its trees"):
        import_model(tmp_path / "forest.txt")


def by_lightgbm(path, X):
    return lightgbm.Booster(model_file=path).predict(X, raw_score=True, num_threads=1)


def by_onnx(path, X):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"features": X})[0][:, 0]


@pytest.mark.parametrize(
    ("form", "read"),
    [
        ("xgboost-dump", lambda path, X: plugin_xgboost_dump(path.read_text(), X, NAMES)),
        ("opensearch-xgboost", lambda path, X: opensearch_raw(path.read_text(), X, NAMES)),
        ("lightgbm-json", lambda path, X: vespa_lightgbm(path.read_text(), X)),
        ("lightgbm-text", by_lightgbm),
        ("solr", lambda path, X: solr(path.read_text(), X, NAMES)),
        ("onnx", by_onnx),
    ],
)
def test_xgboosts_models_go_elsewhere_with_their_base_score(boosters, form, read, tmp_path) -> None:
    folder, predict = boosters
    ranker = import_model(folder / "xgboost.json", feature_names=NAMES)
    export(ranker, tmp_path / "model", form)
    X = probes("trees-missing", missing=True)
    X[np.abs(X) < 1.2e-13] = 0.0
    expected = predict["xgboost.json"](X)
    np.testing.assert_allclose(read(tmp_path / "model", X), expected, rtol=0, atol=2e-6)


def test_a_split_just_below_zero_goes_to_lightgbm(tmp_path) -> None:
    """XGBoost's x < 0 is x <= -1e-45, which LightGBM takes for zero."""
    text = BY_HAND.replace("-0.25", "-1e-45")
    (tmp_path / "model.xml").write_text(text)
    export(import_model(tmp_path / "model.xml"), tmp_path / "model.txt", "lightgbm-text")
    X = np.array([[0.0, 0.0], [-1e-30, 0.0], [np.nan, 0.0]])
    assert by_lightgbm(tmp_path / "model.txt", X).tolist() == [-1.0, -1.5, -1.0]


def test_xgboost_to_xgboost_keeps_every_bit(boosters, tmp_path) -> None:
    folder, predict = boosters
    for file in ("xgboost.json", "xgboost.ubj"):
        export(import_model(folder / file), tmp_path / file, f"xgboost-{file[8:]}")
        booster = xgboost.Booster({"nthread": 1}, model_file=str(tmp_path / file))
        X = probes("trees-missing", missing=True)
        rows = xgboost.DMatrix(X, feature_names=list(NAMES), nthread=1)
        np.testing.assert_array_equal(booster.predict(rows, output_margin=True), predict["xgboost.json"](X))


def test_what_is_exported_to_ranklib_comes_back(tmp_path) -> None:
    export(fitted("trees"), tmp_path / "model.xml", "ranklib")
    X = probes("trees", missing=True)
    back = import_model(tmp_path / "model.xml", n_features=6).predict(X)
    np.testing.assert_allclose(back, scores("trees", X), rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda t: t.replace("## LambdaMART", "## Random Forests"), "Random Forests"),
        (lambda t: t.replace("<ensemble>", '<!DOCTYPE a [<!ENTITY b "c">]><ensemble>'), "declara"),
        (lambda t: t.replace("</ensemble>", ""), "not XML"),
        (lambda t: t.replace("<feature> 2 <", "<feature> 0 <"), "whole numbers from 1"),
        (lambda t: t.replace("10.5", "nan"), "a finite number"),
        (lambda t: t.replace("10.5", "1_0"), "is not a number"),
        (lambda t: t.replace('pos="left"', 'pos="right"', 1), 'pos="left"'),
        (lambda t: t.replace("<output> 4.0 </output>", ""), "has an output"),
        (lambda t: t.replace('weight="0.5"', ""), "must have a weight"),
        (lambda t: t.replace("<threshold> 10.5 </threshold>", ""), "a feature and a threshold"),
        (lambda t: t.replace("<output>", "<output><b/>", 1), "<b> inside <output>"),
    ],
)
def test_damaged_ranklib_files_are_refused_with_the_reason(damage, reason) -> None:
    with pytest.raises(DataError, match=reason):
        read_ranklib(damage(BY_HAND))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(BY_HAND) - 1), st.integers(1, 40), st.text("<>/ \n\t0123.e-splitrg=\"'&#!"))
def test_any_damage_is_a_data_error_or_a_model(at, length, text) -> None:
    try:
        ensemble = read_ranklib(BY_HAND[:at] + text + BY_HAND[at + length :])
    except DataError:
        return
    assert np.isfinite(ensemble.predict(np.zeros((2, ensemble.n_features), np.float32))).all()


def test_a_hostile_folder_is_refused(boosters, tmp_path) -> None:
    folder = tmp_path / "model.plackett"
    import_model(boosters[0] / "ranklib.xml").save(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["features"]["count"] = 1
    (folder / "manifest.json").write_text(json.dumps(seal(manifest)))
    with pytest.raises(DataError, match="use feature 2"):
        load(folder)
    empty = tmp_path / "empty.plackett"
    shutil.copytree(folder, empty)
    (empty / "model.ranklib").unlink()
    manifest["files"] = {}
    (empty / "manifest.json").write_text(json.dumps(seal(manifest)))
    with pytest.raises(DataError, match=r"must hold one of model\.lightgbm"):
        load(empty)
