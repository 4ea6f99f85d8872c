"""Trees through every form: the scores of the target are the scores of the model."""

from __future__ import annotations

import json

import lightgbm
import numpy as np
import pytest
import xgboost

from plackett import TreeRanker
from plackett.base.errors import UsageError
from plackett.models.ensembles import import_model
from plackett.serving.export import export
from plackett.serving.export.parts import check_feature_names
from serving_models import NAMES, TREES, data, documents, fitted, probes, scores
from target_interpreters import lightgbm_json, ranklib, vespa_lightgbm
from target_readers import READ, SINGLE, from_lightgbm, from_xgboost, suffixed

TAKE_MISSING = [form for form in READ if form != "ranklib"]


def written(tmp_path, model, form, **options):
    path = tmp_path / "model"
    export(fitted(model), path, form, **options)
    return path


def documents_for(model, form, **options):
    """Probes; to Solr, values closer to zero than 1.2e-13 are zero, as the guide says."""
    X = probes(model, **options)
    if form == "solr":
        X[np.abs(X) < 1.2e-13] = 0.0
    return X


@pytest.mark.parametrize("form", READ)
@pytest.mark.parametrize("model", TREES)
def test_complete_documents_score_the_same_at_and_beside_thresholds(tmp_path, model, form) -> None:
    path = suffixed(written(tmp_path, model, form, missing="never"), form)
    X = documents_for(model, form)
    actual = READ[form](path, X)
    tolerance = 1e-12 if form in ("lightgbm-text", "lightgbm-json") else SINGLE
    np.testing.assert_allclose(actual, scores(model, X), rtol=0, atol=tolerance)


@pytest.mark.parametrize("form", TAKE_MISSING)
@pytest.mark.parametrize("model", TREES)
def test_documents_with_missing_features_score_the_same(tmp_path, model, form) -> None:
    path = suffixed(written(tmp_path, model, form), form)
    X = documents_for(model, form, missing=True)
    actual = READ[form](path, X)
    tolerance = 1e-12 if form in ("lightgbm-text", "lightgbm-json") else SINGLE
    np.testing.assert_allclose(actual, scores(model, X), rtol=0, atol=tolerance)


@pytest.mark.parametrize("form", READ)
def test_a_wrong_document_is_noticed(tmp_path, form) -> None:
    """What guards the tests above: other features give other scores in every reader."""
    path = suffixed(written(tmp_path, "trees", form, missing="never"), form)
    X = probes("trees")
    assert np.abs(READ[form](path, X[::-1]) - scores("trees", X)).max() > 0.01


def test_ranklib_is_refused_where_missing_is_not_zero(tmp_path) -> None:
    with pytest.raises(UsageError, match=r'reads a missing feature as 0.*missing="never"'):
        written(tmp_path, "trees-missing", "ranklib")
    assert not (tmp_path / "model").exists()


def test_ranklib_reads_missing_as_zero_where_the_model_does(tmp_path) -> None:
    path = written(tmp_path, "trees", "ranklib")
    X = probes("trees", missing=True)
    np.testing.assert_allclose(ranklib(path.read_text(), X), scores("trees", X), rtol=0, atol=SINGLE)


def test_solr_is_told_about_missing_values_only_where_they_differ_from_zero(tmp_path) -> None:
    assert "isNullSameAsZero" not in written(tmp_path, "trees", "solr").read_text()
    assert '"isNullSameAsZero": false' in written(tmp_path, "trees-missing", "solr").read_text()


def test_lightgbm_and_vespa_agree_on_the_json_dump(tmp_path) -> None:
    text = written(tmp_path, "trees-missing", "lightgbm-json").read_text()
    X = probes("trees-missing", missing=True)
    np.testing.assert_array_equal(vespa_lightgbm(text, X), lightgbm_json(text, X))


def test_categories_go_to_lightgbm_text_and_nowhere_else(tmp_path) -> None:
    path = written(tmp_path, "trees-categories", "lightgbm-text")
    assert "cat_threshold=" in path.read_text()
    X = probes("trees-categories", missing=True)
    X[:, 1] = np.where(np.isnan(X[:, 1]), X[:, 1], np.arange(len(X)) % 60 - 3)
    actual = from_lightgbm(path, X)
    np.testing.assert_allclose(actual, scores("trees-categories", X), rtol=0, atol=1e-12)
    for form in READ:
        if form != "lightgbm-text":
            with pytest.raises(UsageError, match="splits on categories"):
                written(tmp_path, "trees-categories", form)


def test_the_text_of_one_model_is_lightgbms_own(tmp_path) -> None:
    text = written(tmp_path, "trees", "lightgbm-text").read_text()
    assert "feature_names=" + " ".join(NAMES) in text
    assert "leaf_count=" in text
    assert "[num_leaves: 8]" in text


def test_merged_trees_still_explain_their_scores(tmp_path) -> None:
    path = written(tmp_path, "trees-crossfit", "lightgbm-text")
    booster = lightgbm.Booster(model_file=str(path))
    X = probes("trees-crossfit")
    shares = booster.predict(X, pred_contrib=True, num_threads=1)
    np.testing.assert_allclose(shares.sum(axis=1), scores("trees-crossfit", X), atol=1e-9)


def test_xgboost_gets_names_and_gives_them_back(tmp_path) -> None:
    path = suffixed(written(tmp_path, "trees", "xgboost-json"), "xgboost-json")
    booster = xgboost.Booster(model_file=str(path))
    assert booster.feature_names == list(NAMES)
    assert booster.num_boosted_rounds() == 12


@pytest.mark.parametrize("form", ["xgboost-json", "xgboost-ubj"])
@pytest.mark.parametrize("n_docs", [1, 65, 500])
def test_xgboost_finds_its_way_through_trees_of_many_leaves(tmp_path, form, n_docs) -> None:
    # XGBoost takes the right child to be the node after the left one, and walks single documents,
    # blocks of them and the levels near the root each in its own way.
    ranker = TreeRanker(trees=10, leaves=48, min_documents=1, threads=1).fit(data())
    path = tmp_path / f"model.{form.removeprefix('xgboost-')}"
    assert export(ranker, path, form)
    X = documents(n_docs=500, seed=3)[:n_docs]
    np.testing.assert_allclose(from_xgboost(path, X), ranker.predict(X), rtol=0, atol=2e-5)


@pytest.mark.parametrize("form", ["lightgbm-json", "xgboost-dump", "ranklib", "solr"])
def test_trees_too_deep_for_nested_text_are_refused(tmp_path, form) -> None:
    splits = 401
    inner = 2 * np.arange(splits)  # the left child of each is a leaf, the right one the next split
    left, conditions = np.full(2 * splits + 1, -1), np.zeros(2 * splits + 1)
    left[inner], conditions[inner] = inner + 1, np.arange(splits)
    zeros = np.zeros(len(left), int).tolist()
    tree = {
        "left_children": left.tolist(),
        "right_children": np.where(left < 0, -1, left + 1).tolist(),
        "split_conditions": conditions.tolist(),
        "tree_param": {"size_leaf_vector": "1"},
    } | dict.fromkeys(("split_type", "split_indices", "default_left"), zeros)
    learner = {
        "gradient_booster": {"name": "gbtree", "model": {"trees": [tree], "tree_info": [0]}},
        "learner_model_param": {"num_feature": "1", "base_score": "0"},
        "objective": {"name": "rank:ndcg"},
    }
    (tmp_path / "chain.json").write_text(json.dumps({"learner": learner}))
    ranker = import_model(tmp_path / "chain.json")
    with pytest.raises(UsageError, match="splits deep"):
        export(ranker, tmp_path / "out", form, missing="never")


def test_an_imported_model_keeps_the_names_of_its_file(tmp_path) -> None:
    export(fitted(TREES[0]), tmp_path / "model.txt", "lightgbm-text")
    ranker = import_model(tmp_path / "model.txt")
    assert check_feature_names(ranker, "solr", None) == NAMES
