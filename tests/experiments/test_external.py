"""Saved models, files of scores and rankers of other libraries are compared beside recipes."""

from __future__ import annotations

import numpy as np
import pytest

import plackett as pk
from plackett.base.errors import DataError, DataWarning, UsageError
from plackett.experiments.external import PeerRanker, SavedModel, ScoreFile
from plackett.experiments.systems import as_systems, split_outside_brackets


@pytest.fixture(scope="module")
def data():
    return pk.synthetic("letor", n_lists=30, seed=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("external")
    pk.recipe("lambdamart", trees=3).fit(data).save(path / "saved.plackett")
    by_row = np.empty(data.n_docs)
    by_row[data.rows] = data.labels
    np.save(path / "perfect.npy", by_row)
    np.savetxt(path / "worst.txt", -by_row)
    return path


def test_each_kind_of_system_is_named_by_what_it_is(folder) -> None:
    models = ["lambdamart", "lambdamart:leaves=7:objective.sigma=1", folder / "saved.plackett"]
    systems = as_systems([*models, str(folder / "worst.txt"), pk.recipe("xendcg-mart")])
    names = ["lambdamart", models[1], "saved.plackett", "worst.txt", "xendcg-mart"]
    assert [system.name for system in systems] == names
    assert (systems[1].ranker.leaves, systems[1].ranker.objective.sigma) == (7, 1)
    assert isinstance(systems[2].ranker, SavedModel)
    assert isinstance(systems[3].ranker, ScoreFile)
    assert systems[2].settings(0)["kind"] == "saved model"


@pytest.mark.parametrize("jobs", [1, 2])
def test_models_and_scores_are_used_as_they_are(data, folder, jobs) -> None:
    files = ["perfect.npy", "worst.txt", "saved.plackett"]
    models = ["listnet-linear:C=1", *(folder / name for name in files)]
    with pytest.warns(DataWarning, match=r"saved.plackett is used as it was saved; if it was tra"):
        result = pk.compare(data, models, metrics="ndcg@10", jobs=jobs)
    means = {entry.name: entry.means["ndcg@10"] for entry in result.board.entries}
    assert means["perfect.npy"] == 1.0
    assert means["worst.txt"] < means["listnet-linear:C=1"] < 1.0
    test = result.results.details[0].data.test
    saved = pk.load(folder / "saved.plackett")
    scores = saved.predict(data)
    where = {row: i for i, row in enumerate(data.rows.tolist())}
    expected = pk.evaluate(scores[[where[r] for r in test.rows.tolist()]], test, "ndcg@10")
    assert means["saved.plackett"] == pytest.approx(expected["ndcg@10"])


def test_rankers_of_other_libraries_are_trained_on_each_split(data) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    estimators = {
        "LightGBM": lightgbm.LGBMRanker(n_estimators=5, min_child_samples=5),
        "stopped": lightgbm.LGBMRanker(n_estimators=5, min_child_samples=5, early_stopping_rounds=2),
        "XGBoost": pytest.importorskip("xgboost").XGBRanker(n_estimators=5),
        "CatBoost": pytest.importorskip("catboost").CatBoostRanker(iterations=5, allow_writing_files=False),
    }
    result = pk.compare(data, {"ours": "listnet-linear:C=1", **estimators}, protocol="seeds:2")
    assert {entry.name for entry in result.board.entries} == {"ours", *estimators}
    assert not hasattr(estimators["LightGBM"], "booster_")  # a copy was fitted
    settings = {s.name: s.settings(1) for s in result.plan.systems}
    assert settings["XGBoost"]["kind"] == "xgboost XGBRanker"
    assert settings["XGBoost"]["seed"] == 1


def test_the_estimator_of_another_library_scores_as_it_does_alone(data) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    ranker = PeerRanker(lightgbm.LGBMRanker(n_estimators=5, min_child_samples=5), threads=1)
    scores = ranker.fit(data).predict(data)
    lists = data.canonical() if hasattr(data, "canonical") else data
    alone = lightgbm.LGBMRanker(n_estimators=5, min_child_samples=5, random_state=0, n_jobs=1, verbosity=-1)
    alone.fit(lists.features, lists.labels.astype(int), group=np.diff(lists.offsets))
    np.testing.assert_array_equal(scores, alone.predict(data.features))


def top_label(scores, labels):
    return labels[scores.argmax()]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_function_selects_and_measures(data, jobs, tmp_path) -> None:
    models = ["lambdamart:trees=3", "lambdamart:trees=4"]
    call = {"metrics": [top_label, "ndcg@5"], "metric": top_label, "store": tmp_path / "runs.db"}
    result = pk.compare(data, models, jobs=jobs, **call)
    assert set(result.board.metrics) == {"top_label", "ndcg@5"}
    assert pk.compare(data, models, **call).ran == 0
    call["metric"] = pk.metric(lambda scores, labels: labels[scores.argmax()], name="top_label")
    assert pk.compare(data, models, **call).ran == 0  # the same code
    call["metric"] = pk.metric(lambda _, labels: labels.max(), name="top_label")
    assert pk.compare(data, models, **call).ran == 2


@pytest.mark.parametrize(
    ("models", "error", "message"),
    [
        (["missing.plackett"], DataError, "missing.plackett: does not exist"),
        (["missing.npy"], DataError, "does not exist; expected one score per row"),
        (["lambdamart:leaves"], UsageError, "a setting is written key=value, .* got 'leaves'"),
        (["lambdamart:leavs=3"], UsageError, "no parameter 'leavs'"),
        (["lambdamart:objective.sigm=3"], UsageError, "Did you mean 'sigma'"),
        ([3], UsageError, "cannot compare a int; there are: the name of a recipe"),
        ("lambdamart", UsageError, "models is a list"),
    ],
)
def test_what_cannot_be_compared_is_an_error(data, models, error, message) -> None:
    with pytest.raises(error, match=message):
        pk.compare(data, models)


def test_scores_must_fit_the_data(data, folder, tmp_path) -> None:
    (tmp_path / "short.txt").write_text("1\n2\n")
    with pytest.raises(DataError, match=r"2 scores for the [\d,]+ documents of data"):
        pk.compare(data, [tmp_path / "short.txt"])
    folds = [pk.Fold("a", data, None, data), pk.Fold("b", data, None, data)]
    with pytest.raises(UsageError, match="has 2 folds; compare scores on one data set"):
        pk.compare(folds, [folder / "worst.txt"], protocol="folds")


def test_lists_in_settings_keep_their_commas() -> None:
    text = "urank:layers=[10,5], lambdamart:leaves=31"
    assert split_outside_brackets(text, ",") == ["urank:layers=[10,5]", "lambdamart:leaves=31"]
