"""What TreeRanker does with objectives, data and LightGBM's options."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import plackett as pk
from plackett.models.fit_context import LEXICOGRAPHIC
from plackett.objectives import OBJECTIVES

SMALL = {"trees": 8, "leaves": 6, "learning_rate": 0.2, "min_documents": 3}


@pytest.fixture(scope="module")
def parts():
    return pk.split(pk.synthetic("letor", n_lists=100, seed=4), (0.5, 0.2, 0.3), seed=1)


def _ndcg(scores, data) -> float:
    return pk.evaluate(scores, data, "ndcg@10")["ndcg@10"]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda item: item.name)
def test_every_objective_and_its_stochastic_form_grow_trees(objective, parts) -> None:
    train, _, test = parts
    nothing = _ndcg(np.zeros(test.n_docs), test)
    for item in (objective(), pk.Stochastic(objective(), samples=2, beta=0.25)):
        ranker = pk.TreeRanker(objective=item, threads=1, **SMALL).fit(train)
        assert _ndcg(ranker.predict(test), test) > nothing


@pytest.mark.parametrize("growth", ["newton", "squares"])
def test_one_thread_and_two_give_the_same_model(growth, parts) -> None:
    train, validation, _ = parts
    ranker = pk.TreeRanker(
        objective=pk.Stochastic("lambdarank", samples=2),
        growth=growth,
        list_fraction=0.6,
        feature_fraction=0.5,
        **SMALL,
    )
    one, two = (
        ranker.clone().set_params(threads=n).fit(train, validation).model_.split("parameters:")[0] for n in (1, 2)
    )
    assert one == two


def test_curves_hold_each_metric_after_each_tree(parts) -> None:
    train, validation, _ = parts
    ranker = pk.TreeRanker(**SMALL).fit(train, validation, metric=["ndcg@5", "map"])
    assert set(ranker.curves_) == {"train", "validation"}
    for part in ranker.curves_.values():
        assert [len(values) for values in part.values()] == [8, 8]
        assert list(part) == ["ndcg@5", "map"]


def test_the_model_kept_is_the_best_on_validation(parts) -> None:
    train, validation, _ = parts
    ranker = pk.TreeRanker(trees=60, leaves=31, learning_rate=0.3, patience=5).fit(
        train, validation, metric=pk.metric("ndcg@10", convention="letor4")
    )
    (curve,) = ranker.curves_["validation"].values()
    best = int(np.argmax(curve))
    assert len(curve) == best + 6 < 60
    metric = pk.metric("ndcg@10", convention="letor4")
    values = pk.evaluate(ranker.predict(validation), validation, [metric])
    assert next(iter(values.values())) == pytest.approx(curve[best], abs=1e-12)


def test_a_smoothed_choice_is_the_best_mean_over_neighbors(parts) -> None:
    train, validation, _ = parts
    ranker = pk.TreeRanker(trees=25, leaves=15, learning_rate=0.3, patience=25, smoothing=5)
    curve = np.array(ranker.fit(train, validation).curves_["validation"]["ndcg@10"])
    means = [curve[max(i - 2, 0) : i + 3].mean() for i in range(len(curve))]
    assert ranker.model_.count("Tree=") == int(np.argmax(means)) + 1


def test_several_metrics_select_lexicographically(parts) -> None:
    train, validation, _ = parts
    ranker = pk.TreeRanker(trees=30, leaves=15, learning_rate=0.3, patience=30)
    curves = ranker.fit(train, validation, metric=LEXICOGRAPHIC).curves_["validation"]
    table = np.round(np.array(list(curves.values())).T, 9)
    best = max(range(len(table)), key=lambda i: tuple(table[i]))
    assert ranker.model_.count("Tree=") == best + 1


def test_large_real_labels_and_long_lists_are_learned() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(11_000, 3))
    labels = np.round(np.exp(X[:, 0]) * 7.5, 2)
    data = pk.Dataset.from_arrays(X, labels, np.zeros(11_000, int))
    for objective in ("ranksvm", "crossentropy"):
        scores = pk.TreeRanker(objective=objective, **SMALL).fit(data).predict(data)
        assert np.corrcoef(scores, data.features[:, 0])[0, 1] > 0.7


def test_list_weights_change_the_model(parts) -> None:
    train, _, _ = parts
    half = np.zeros(train.n_lists)
    half[::2] = 1.0
    weighted = train._replace(weights=half)
    keep = half > 0
    ranker = pk.TreeRanker(objective="ranknet", min_documents=1, trees=5, leaves=4)
    ranker.set_params(lightgbm={"bin_construct_sample_cnt": 10**6, "max_bin": 10_000})
    with_weights = ranker.clone().fit(weighted).predict(weighted)
    alone = ranker.clone().fit(weighted.select(np.flatnonzero(keep))).predict(weighted)
    assert np.corrcoef(with_weights, alone)[0, 1] > 0.95
    assert not np.array_equal(with_weights, ranker.clone().fit(train).predict(weighted))


def test_monotone_features_by_name_never_lower_the_score(parts) -> None:
    train, _, test = parts
    name = train.feature_names[4]
    ranker = pk.TreeRanker(monotone={name: 1}, **SMALL | {"trees": 30}).fit(train)
    low, high = np.array(test.features), np.array(test.features)
    low[:, 4], high[:, 4] = 0.1, 0.9
    scores = [ranker.predict(test.with_features(item)) for item in (low, high)]
    assert np.all(scores[1] >= scores[0])


def test_categories_are_split_as_sets() -> None:
    rng = np.random.default_rng(0)
    X = np.stack([rng.integers(0, 20, 2000), rng.normal(size=2000)], axis=1)
    labels = np.isin(X[:, 0], [1, 4, 9, 16]).astype(float)
    data = pk.Dataset.from_arrays(X, labels, np.arange(2000) // 20, feature_names=["kind", "x"])
    settings = {"trees": 1, "leaves": 2, "min_documents": 1, "learning_rate": 1.0}
    plain = {"cat_smooth": 0.0, "cat_l2": 0.0, "min_data_per_group": 1}
    ranker = pk.TreeRanker(categorical=("kind",), lightgbm=plain, **settings).fit(data)
    scores = ranker.predict(data)
    assert scores[data.labels == 1].min() > scores[data.labels == 0].max()


def test_contributions_sum_to_the_score_and_importance_goes_by_name(parts) -> None:
    train, _, test = parts
    ranker = pk.TreeRanker(**SMALL).fit(train)
    contributions = ranker.contributions(test)
    assert contributions.shape == (test.n_docs, test.n_features + 1)
    assert np.allclose(contributions.sum(axis=1), ranker.predict(test), atol=1e-9)
    importance = ranker.importance()
    assert set(importance) == set(train.feature_names)
    values = list(importance.values())
    assert values == sorted(values, reverse=True)
    assert sum(ranker.importance("split").values()) == ranker.model_.count("\nTree=") * 5
    with pytest.raises(pk.UsageError, match="'gain', 'split'"):
        ranker.importance("weight")


def test_errors_of_lightgbm_become_data_errors(parts) -> None:
    train, _, _ = parts
    real = train.with_labels(train.labels + 0.5)
    with pytest.raises(pk.DataError, match="LightGBM rejects the data or a setting"):
        pk.TreeRanker(objective="lightgbm-lambdarank", **SMALL).fit(real)
    constant = train.with_features(np.ones((train.n_docs, 2)))
    with pytest.raises(pk.DataError, match="there is nothing to learn from"):
        pk.TreeRanker(**SMALL).fit(constant)


def test_scores_are_lightgbms_to_the_bit(parts) -> None:
    train, _, test = parts
    ranker = pk.TreeRanker(**SMALL | {"trees": 40, "leaves": 31}).fit(train)
    theirs = ranker._booster.predict(test.features, raw_score=True)
    assert np.array_equal(ranker.predict(test), theirs)


def test_sampled_lists_and_features_change_the_model_but_not_from_run_to_run(parts) -> None:
    train, _, _ = parts
    ranker = pk.TreeRanker(**SMALL)
    plain = ranker.clone().fit(train).model_
    for name in ("list_fraction", "feature_fraction"):
        sampled = ranker.clone().set_params(**{name: 0.5})
        assert sampled.fit(train).model_ == sampled.clone().fit(train).model_
        assert sampled.model_ != plain
        assert sampled.clone().set_params(seed=1).fit(train).model_ != sampled.model_


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lightgbm": {"max_leaves": 3}}, "give 'leaves' to TreeRanker itself"),
        ({"lightgbm": {"num_iterations": 3}}, "give 'trees' to TreeRanker itself"),
        ({"lightgbm": {"bagging_by_query": True}}, "use list_fraction"),
        ({"list_fraction": 0.0}, "list_fraction must be above 0 and at most 1, got 0.0"),
        ({"growth": "oblique"}, "growth must be 'newton' or 'squares', got 'oblique'"),
        ({"trees": "abc"}, "trees must be a whole number, got 'abc'"),
        ({"lightgbm": 5}, "lightgbm must be a dictionary, got 5"),
        ({"transforms": "standard"}, "transforms must be a tuple, got 'standard'"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0"),
        ({"smoothing": 4}, "smoothing must be odd"),
        ({"leaves": 1}, 'leaves must be "auto" or at least 2'),
        ({"monotone": {"nothing": 1}}, "there is no feature 'nothing'"),
        ({"monotone": {0: 2}}, "directions are -1, 0 and 1"),
        ({"categorical": (99,)}, "there is no feature 99"),
        ({"lightgbm": {"linear_tree": True}}, "linear leaves cannot be scored"),
        ({"smoothing": 0}, "smoothing must be at least 1"),
        ({"lightgbm": {"boosting_type": "dart"}}, "only gbdt is supported"),
        ({"lightgbm": {"max_iter": 3}}, "give 'trees' to TreeRanker itself"),
        ({"lightgbm": {"use_quantized_grad": True}}, "4 bins are too coarse to rank by; use quantized=True"),
        ({"quantized": True, "feature_fraction": 0.5}, "quantized gradients and feature_fraction=0.5"),
        ({"quantized": True, "lightgbm": {"feature_fraction_bynode": 0.5}}, "and feature_fraction_bynode"),
        ({"quantized": True, "lightgbm": {"num_grad_quant_bins": 4}}, "4 bins are too coarse to rank by"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"objective": "lightgbm-xendcg", "list_fraction": 0.5}, "computed inside LightGBM"),
    ],
)
def test_invalid_settings_raise(settings, message, parts) -> None:
    with pytest.raises(pk.UsageError, match=message):
        pk.TreeRanker(**settings).fit(parts[0])


@pytest.mark.parametrize("growth", ["newton", "squares"])
def test_quantized_gradients_rank_about_as_well_and_repeat_to_the_bit(growth, parts) -> None:
    train, validation, test = parts
    exact = pk.TreeRanker("lambdarank", trees=15, leaves=8, learning_rate=0.2, growth=growth)
    quantized = exact.clone().set_params(quantized=True)
    values = [
        pk.evaluate(ranker.fit(train, validation).predict(test), test)["ndcg@10"] for ranker in (exact, quantized)
    ]
    assert quantized.model_ != exact.model_
    assert abs(values[0] - values[1]) < 0.05
    assert quantized.clone().fit(train, validation).model_ == quantized.model_
    by_columns = quantized.clone().set_params(lightgbm={"force_col_wise": True}).fit(train, validation)
    assert by_columns.model_.split("\nparameters:")[0] == quantized.model_.split("\nparameters:")[0]


def test_an_unlucky_draw_of_lists_does_not_end_the_fit() -> None:
    data = pk.synthetic("letor", n_lists=4, seed=2)
    settings = {"trees": 150, "leaves": 4, "min_documents": 2, "list_fraction": 0.3}
    ranker = pk.TreeRanker(objective="lambdarank", **settings).fit(data)
    assert ranker.model_.count("Tree=") == 150


def test_rankers_of_one_recipe_share_nothing() -> None:
    first = pk.recipe("lambdamart-ranklib")
    copy = first.clone()
    first.lightgbm["max_bin"] = 3
    assert pk.recipe("lambdamart-ranklib").lightgbm["max_bin"] == 256
    assert copy.lightgbm["max_bin"] == 256


def test_sparse_features_are_scored_as_dense_ones(parts) -> None:
    train, _, test = parts
    ranker = pk.TreeRanker(**SMALL).fit(train)
    dense = ranker.predict(test.features)
    assert np.array_equal(ranker.predict(csr_array(test.features)), dense)
