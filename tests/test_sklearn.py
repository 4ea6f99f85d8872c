"""The scikit-learn estimator."""

from __future__ import annotations

import pickle

import lightgbm
import numpy as np
import pytest
import sklearn
from scipy.sparse import csr_array, issparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, GroupKFold, RandomizedSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import plackett as pk
from plackett.base.errors import DataError, UsageError
from plackett.models.fit_context import StopFit
from plackett.sklearn import Ranker

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
SIZES = np.full(40, 10)
QID = np.repeat(np.arange(40), SIZES)
X = RNG.normal(size=(400, 4))
Y = np.clip(np.round(X[:, 1] + 0.5 * X[:, 2] + 1), 0, 4)
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(qid=QID)
SMALL = {"n_estimators": 5, "num_leaves": 5, "min_child_samples": 5, "n_jobs": 1}


def ranker(**settings):
    return Ranker(**{**SMALL, **settings})


# ---- fit, predict, score ------------------------------------------------------------------------


def test_it_is_the_recipe_with_lightgbm_s_names() -> None:
    result = ranker(random_state=3, reg_lambda=2.0).fit(X, Y, qid=QID)
    expected = pk.recipe(
        "e-lambdaloss-mart", trees=5, leaves=5, min_documents=5, threads=1, seed=3, lightgbm={"lambda_l2": 2.0}
    ).fit(X, Y, qid=QID)
    assert np.array_equal(result.predict(X), expected.predict(X))
    assert result.ranker_.recipe_name == "e-lambdaloss-mart"
    assert result.n_features_in_ == 4
    assert not hasattr(result, "feature_names_in_")


def test_queries_come_as_ids_sizes_or_a_column() -> None:
    scores = ranker().fit(X, Y, qid=QID).predict(X)
    assert np.array_equal(ranker().fit(X, Y, group=SIZES).predict(X), scores)
    framed = ranker().fit(FRAME, Y)
    assert np.array_equal(framed.predict(FRAME), scores)
    assert np.array_equal(framed.predict(FRAME.drop(columns="qid")), scores)
    assert framed.feature_names_in_.tolist() == list("abcd")
    by_number = ranker(query=4).fit(FRAME.to_numpy(), Y)
    assert np.array_equal(by_number.predict(FRAME.to_numpy()), scores)
    assert np.array_equal(ranker().fit(csr_array(X), Y, qid=QID).predict(csr_array(X)), scores)
    polars = pytest.importorskip("polars").from_pandas(FRAME)
    assert np.array_equal(ranker().fit(polars, Y).predict(polars), scores)


def test_score_is_the_mean_ndcg_at_10_or_another_metric() -> None:
    result = ranker().fit(X, Y, qid=QID)
    data = pk.Dataset.from_arrays(X, Y, QID)
    for metric in ("ndcg@10", "map"):
        expected = pk.evaluate(result.ranker_.predict(data), data, metric)[metric]
        assert result.score(X, Y, qid=QID, metric=metric) == expected
    assert result.score(X, Y, group=SIZES) == result.score(X, Y, qid=QID)


def test_early_stopping_on_an_eval_set() -> None:
    result = ranker(n_estimators=60, learning_rate=0.3, early_stopping_rounds=3)
    result.fit(
        X[:300],
        Y[:300],
        qid=QID[:300],
        eval_set=[(X[300:], Y[300:])],
        eval_qid=[QID[300:]],
        eval_metric="ndcg",
        eval_at=[5],
    )
    curve = result.evals_result_["valid_0"]["ndcg@5"]
    assert list(result.evals_result_) == ["training", "valid_0"]
    assert len(curve) < 60
    assert 1 <= result.best_iteration_ <= len(curve)
    assert result.best_score_["valid_0"]["ndcg@5"] == curve[result.best_iteration_ - 1]
    assert result.n_iter_ == result.booster_.num_trees() == result.best_iteration_


def test_eval_sets_are_given_as_in_lightgbm() -> None:
    part = {"group": SIZES[:30]}
    pairs = [(X[:300], Y[:300]), (X[300:], Y[300:])]
    train = pairs[0]
    first = ranker().fit(*train, **part, eval_set=pairs, eval_group=[SIZES[:30], SIZES[30:]])
    second = ranker().fit(*train, **part, eval_set=pairs[1], eval_group=SIZES[30:])
    third = ranker().fit(*train, **part, eval_X=X[300:], eval_y=Y[300:], eval_group=SIZES[30:])
    fourth = ranker().fit(*train, **part, eval_X=(X[300:],), eval_y=(Y[300:],), eval_group=[SIZES[30:]])
    for actual in (second, third, fourth):
        assert first.evals_result_ == actual.evals_result_
    with pytest.raises(UsageError, match="takes one"):
        ranker().fit(X, Y, qid=QID, eval_set=pairs, eval_group=[SIZES[:30], SIZES[30:]])
    with pytest.raises(UsageError, match="for each"):
        ranker().fit(*train, **part, eval_set=pairs, eval_group=[SIZES[30:]])


def test_callbacks_of_ours_and_of_lightgbm(capfd) -> None:
    record, steps = {}, []

    def stop(step):
        steps.append(step.step)
        if step.step == 4:
            raise StopFit

    ranker().fit(
        *(X[:300], Y[:300]),
        group=SIZES[:30],
        eval_set=(X[300:], Y[300:]),
        eval_group=SIZES[30:],
        callbacks=[
            stop,
            lightgbm.early_stopping(50, verbose=False),
            lightgbm.log_evaluation(2),
            lightgbm.record_evaluation(record),
        ],
    )
    assert steps == [1, 2, 3, 4]
    assert len(record["valid_0"]["ndcg@10"]) == 4
    assert len(capfd.readouterr().err.splitlines()) == 2
    with pytest.raises(UsageError, match="early_stopping, log_evaluation"):
        ranker().fit(X, Y, qid=QID, callbacks=[lightgbm.reset_parameter(learning_rate=[0.1])])


def test_a_fit_continues_from_another() -> None:
    first = ranker().fit(X, Y, qid=QID)
    assert ranker().fit(X, Y, qid=QID, init_model=first).best_iteration_ == 10


def test_importances_are_in_the_order_of_the_features() -> None:
    assert ranker(n_estimators=20).fit(FRAME, Y).feature_importances_.argmax() == 1
    result = ranker(importance_type="split").fit(FRAME, Y)
    assert result.feature_importances_.sum() == result.booster_.feature_importance().sum()
    assert len(Ranker("listnet-linear").fit(X, Y, qid=QID).feature_importances_) == 4


def test_weights_belong_to_lists() -> None:
    weights = np.repeat(RNG.random(40), 10)
    result = ranker().fit(X, Y, qid=QID, sample_weight=weights)
    assert not np.array_equal(result.predict(X), ranker().fit(X, Y, qid=QID).predict(X))
    with pytest.raises(DataError, match="a list has one"):
        ranker().fit(X, Y, qid=QID, sample_weight=RNG.random(400))


@pytest.mark.parametrize("recipe", ["xendcg-mart", "listnet-linear", "rankboost", "urank"])
def test_other_recipes_and_rankers(recipe) -> None:
    small = {"urank": {"epochs": 3}, "xendcg-mart": SMALL, "rankboost": {"rounds": 5}}
    result = Ranker(recipe, **small.get(recipe, {})).fit(X, Y, qid=QID)
    assert result.score(X, Y, qid=QID) > 0.5
    assert len(result.feature_importances_) == 4
    ours = Ranker(pk.recipe(recipe), **small.get(recipe, {})).fit(X, Y, qid=QID)
    assert np.array_equal(ours.predict(X), result.predict(X))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Ranker(n_estimatrs=3), "Did you mean 'n_estimators'"),
        (lambda: Ranker("listnet-linear", num_leaves=3), "LinearRanker has no parameter"),
        (lambda: Ranker().set_params(leafs=3), "Did you mean 'leaves'"),
        (lambda: Ranker("lambdamrt").fit(X, Y, qid=QID), "Did you mean 'lambdamart'"),
        (lambda: Ranker(3).fit(X, Y, qid=QID), "recipe must be a name or a ranker"),
        (lambda: Ranker().fit(X, Y), r"fit\(X, y, qid=ids\).*set_fit_request"),
        (lambda: Ranker().fit(X, Y, qid=QID, group=SIZES), "not both"),
        (lambda: Ranker().fit(X, Y, group=SIZES[1:]), "add up to 390"),
        (lambda: Ranker(pk.TreeRanker(), preset="A-yahoo").fit(X, Y, qid=QID), "preset"),
    ],
)
def test_mistakes_are_answered(call, message) -> None:
    with pytest.raises(UsageError, match=message) if "add" not in message else pytest.raises(DataError, match=message):
        call()


def test_a_ranker_that_is_not_fitted_says_so() -> None:
    for call in (
        lambda r: r.predict(X),
        lambda r: r.score(X, Y, qid=QID),
        lambda r: r.feature_importances_,
        lambda r: r.booster_,
    ):
        with pytest.raises(NotFittedError):
            call(Ranker())
    with pytest.raises(AttributeError, match="no booster"):
        _ = Ranker("listnet-linear").fit(X, Y, qid=QID).booster_


# ---- scikit-learn's tools -----------------------------------------------------------------------


def test_parameters_are_those_of_the_constructor_and_of_the_recipe() -> None:
    result = ranker(preset="A-web30k")
    params = result.get_params()
    assert params["n_estimators"] == 5
    assert set(params) == {"recipe", "preset", "query", "importance_type", "verbose", *SMALL}
    copy = clone(result.set_params(n_estimators=7, reg_lambda=1.0))
    assert copy.get_params() == result.get_params()
    assert copy.n_estimators == 7
    assert "n_estimators=7" in repr(copy)
    inner = Ranker(pk.TreeRanker(trees=3)).set_params(recipe__trees=4)
    assert clone(inner).recipe.trees == 4


def test_cross_validation_and_searches_with_a_query_column() -> None:
    folds = GroupKFold(3)
    scores = cross_val_score(ranker(), FRAME, Y, groups=QID, cv=folds)
    assert scores.shape == (3,)
    assert scores.min() > 0.5
    grid = GridSearchCV(ranker(), {"num_leaves": [3, 5], "learning_rate": [0.1]}, cv=folds)
    assert grid.fit(FRAME, Y, groups=QID).best_params_["num_leaves"] in (3, 5)
    assert grid.best_estimator_.predict(FRAME).shape == (400,)
    draws = RandomizedSearchCV(ranker(), {"num_leaves": [3, 4, 5]}, n_iter=2, cv=folds, random_state=0)
    assert np.isfinite(draws.fit(FRAME, Y, groups=QID).best_score_)
    several = {"ndcg": lambda r, X, y: r.score(X, y), "map": lambda r, X, y: r.score(X, y, metric="map")}
    actual = cross_validate(ranker(), FRAME, Y, groups=QID, cv=folds, scoring=several)
    assert np.isfinite(actual["test_map"]).all()


def test_metadata_routing_passes_the_queries() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        routed = ranker().set_fit_request(qid=True).set_score_request(qid=True)
        scores = cross_val_score(routed, X, Y, cv=GroupKFold(3), params={"qid": QID, "groups": QID})
        assert scores.min() > 0.5
        grid = GridSearchCV(routed, {"num_leaves": [3, 5]}, cv=GroupKFold(3))
        grid.fit(X, Y, qid=QID, groups=QID)
        pipe = Pipeline([("scale", StandardScaler()), ("rank", routed)])
        pipe.fit(X, Y, qid=QID)
        assert pipe.score(X, Y, qid=QID) > 0.5
    assert grid.best_score_ > 0.5


def test_pipelines() -> None:
    pipe = Pipeline([("scale", StandardScaler()), ("rank", ranker())])
    pipe.fit(X, Y, rank__qid=QID)
    assert pipe.predict(X).shape == (400,)
    assert clone(pipe).get_params()["rank__n_estimators"] == 5


def test_permutation_importance() -> None:
    result = permutation_importance(ranker().fit(FRAME, Y), FRAME, Y, n_repeats=2, random_state=0)
    assert result.importances_mean[:4].argmax() in (1, 2)


def test_copies_for_other_processes_predict_the_same() -> None:
    result = ranker().fit(FRAME, Y)
    again = pickle.loads(pickle.dumps(result))
    assert np.array_equal(again.predict(FRAME), result.predict(FRAME))
    scores = cross_val_score(ranker(), FRAME, Y, groups=QID, cv=GroupKFold(2), n_jobs=2)
    assert np.isfinite(scores).all()


# ---- scikit-learn's checks ----------------------------------------------------------------------


class WithQueries(Ranker):
    """A ranker for the checks, which know of no queries: each five rows are a list."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y, qid=_queries(X), sample_weight=sample_weight)

    def score(self, X, y, sample_weight=None):
        return super().score(X, y, qid=_queries(X), sample_weight=sample_weight)


def _queries(X):
    shape = (X if issparse(X) else np.asarray(X)).shape
    n_docs = shape[0] if shape else 0
    return np.random.default_rng(0).integers(0, max(n_docs // 5, 1), n_docs)


_PER_ROW = "a weight belongs to a list, and the check gives each row its own"
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": _PER_ROW,
    "check_sample_weight_equivalence_on_sparse_data": _PER_ROW,
    "check_sample_weights_not_overwritten": _PER_ROW,
    "check_no_attributes_set_in_init": "the settings of a recipe become attributes, as LightGBM's",
}


@parametrize_with_checks(
    [WithQueries(n_estimators=3, num_leaves=3, min_child_samples=1, n_jobs=1), WithQueries("listnet-linear", C=1.0)],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_checks_of_scikit_learn(estimator, check) -> None:
    check(estimator)
