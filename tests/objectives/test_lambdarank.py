from __future__ import annotations

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from plackett.base.errors import UsageError
from plackett.objectives.lambdarank import SWAP_METRICS, LambdaGap, LambdaRank, fill_swaps, prepare_swaps
from plackett.objectives.ranking import normalized_gains
from references.autograd import hessian_diagonal, value_and_gradient
from references.lambdarank import lambdarank, swap_change
from references.random_lists import one_list

pytestmark = pytest.mark.kernels


def evaluate(objective, scores, labels):
    return objective.evaluate(scores, labels, [0, len(scores)])


def test_one_misordered_pair_follows_the_formula() -> None:
    # Ranks 1 and 2, gains 0 and 3.
    delta = 3 * (1 - 1 / np.log2(3)) / 3
    q = 1 / (1 + np.exp(-2 * 0.4))
    d = evaluate(LambdaRank(sigma=2.0), [0.9, 0.5], [0, 2])
    assert d.values[0] == pytest.approx(delta * np.log1p(np.exp(2 * 0.4)), rel=1e-12)
    assert d.gradient == pytest.approx([2 * delta * q, -2 * delta * q], rel=1e-12)
    assert d.curvature == pytest.approx(2 * [4 * delta * q * (1 - q)], rel=1e-12)


@given(
    case=one_list(),
    sigma=st.sampled_from([1.0, 2.0]),
    truncation=st.sampled_from([None, 1, 3]),
    score_norm=st.booleans(),
    query_norm=st.booleans(),
    weight=st.sampled_from(["ndcg", "map", "err", "mrr"]),
)
@settings(deadline=None, max_examples=120)
def test_value_and_gradient_agree_with_autograd_at_frozen_weights(case, **parameters) -> None:
    scores, labels = case
    d = evaluate(LambdaRank(**parameters), scores, labels)
    value, gradient = value_and_gradient(lambdarank, scores, labels, **parameters)
    assert d.values[0] == pytest.approx(value, rel=1e-10, abs=1e-14)
    np.testing.assert_allclose(d.gradient, gradient, rtol=1e-8, atol=1e-12)


@given(case=one_list())
@settings(deadline=None, max_examples=30)
def test_curvature_is_the_derivative_of_the_gradient_at_frozen_weights(case) -> None:
    scores, labels = case
    d = evaluate(LambdaRank(sigma=1.5), scores, labels)
    half = evaluate(LambdaRank(sigma=1.5, hess_factor=0.5), scores, labels)
    diagonal = hessian_diagonal(lambdarank, scores, labels, sigma=1.5)
    np.testing.assert_allclose(d.curvature, diagonal, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(half.curvature, d.curvature / 2, rtol=1e-14)


def test_between_crossings_of_scores_the_gradient_is_that_of_the_value() -> None:
    scores, labels = np.array([0.4, -0.3, 1.2, 0.1, 0.8]), [0, 2, 1, 4, 0]
    d = evaluate(LambdaRank(), scores, labels)
    for k in range(5):
        step = 1e-5 * np.eye(5)[k]
        high = evaluate(LambdaRank(), scores + step, labels).values[0]
        low = evaluate(LambdaRank(), scores - step, labels).values[0]
        assert d.gradient[k] == pytest.approx((high - low) / 2e-5, rel=1e-8)


def test_equal_scores_are_not_divided_by_their_distance() -> None:
    plain = evaluate(LambdaRank(), [0.5] * 4, [0, 2, 1, 0])
    normed = evaluate(LambdaRank(score_norm=True), [0.5] * 4, [0, 2, 1, 0])
    assert np.array_equal(plain.gradient, normed.gradient)


@pytest.mark.parametrize("weight", ["map", "mrr"])
def test_binary_metrics_see_no_difference_between_relevant_documents(weight) -> None:
    d = evaluate(LambdaRank(weight=weight), [0.1, 0.2, 0.3], [1, 2, 3])
    assert d.values[0] == 0.0
    assert not np.any(d.gradient)


def lightgbm_derivatives(scores, labels, truncation, norm, copies=500):
    """Gradient and curvature of LightGBM's own objective, from a tree with one document per leaf.

    A leaf's value is -g/h, its weight h. LightGBM estimates how many documents a leaf has from its
    curvature, so many copies of the list are needed for leaves of one document each.
    """
    n = len(scores)
    X = np.tile(np.arange(n, dtype=np.float64), copies)[:, None]
    parameters = {
        "objective": "lambdarank", "lambdarank_truncation_level": truncation,
        "lambdarank_norm": norm, "learning_rate": 1.0, "num_leaves": n, "min_data_in_leaf": 1,
        "min_sum_hessian_in_leaf": 0.0, "verbosity": -1, "num_threads": 1,
    }  # fmt: skip
    data = lightgbm.Dataset(X, np.tile(labels, copies), group=[n] * copies, init_score=np.tile(scores, copies))
    booster = lightgbm.train(parameters, data, num_boost_round=1)
    tree = booster.model_to_string().split("Tree=0")[1]
    weights = next(line for line in tree.splitlines() if line.startswith("leaf_weight="))
    leaves = booster.predict(X[:n], pred_leaf=True).ravel()
    assert len(set(leaves)) == n
    curvature = np.array(weights.split("=")[1].split(), dtype=np.float64)[leaves] / copies
    return -booster.predict(X[:n]) * curvature, curvature


@pytest.mark.parametrize("norm", [False, True])
def test_lightgbm_computes_the_same_on_lists_within_its_truncation(norm) -> None:
    rng = np.random.default_rng(8)
    scores, labels = rng.normal(size=14), rng.integers(0, 5, 14)
    ours = evaluate(LambdaRank(truncation=30, score_norm=norm, query_norm=norm), scores, labels)
    gradient, curvature = lightgbm_derivatives(scores, labels, 30, norm)
    # LightGBM works in float32, with a table for the logistic function.
    np.testing.assert_allclose(ours.gradient, gradient, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(ours.curvature, curvature, rtol=1e-3, atol=1e-4)


def test_lightgbm_truncates_the_ideal_ranking_too() -> None:
    rng = np.random.default_rng(9)
    scores, labels = rng.normal(size=14), rng.integers(0, 5, 14)
    loss = LambdaRank(truncation=5, idcg_truncation=5)
    ours = evaluate(loss, scores, labels)
    gradient, curvature = lightgbm_derivatives(scores, labels, 5, False)
    np.testing.assert_allclose(ours.gradient, gradient, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(ours.curvature, curvature, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(loss.bind(labels, [0, 14]).float32_gradient(scores, 0)[0], ours.gradient, atol=1e-5)
    with pytest.raises(UsageError, match="only with weight='ndcg'"):
        LambdaRank(weight="map", idcg_truncation=5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sigma": 0.0}, {"truncation": 0}, {"truncation": 2.5}, {"hess_factor": -1.0},
        {"weight": "auc"},
    ],
)  # fmt: skip
def test_parameters_out_of_range_are_refused_by_name(wrong) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        LambdaRank(**wrong)


def changes(metric, labels_by_rank, a):
    y = np.array(labels_by_rank, dtype=np.float64)
    state, out = np.empty((3, len(y))), np.zeros(len(y))
    gains = normalized_gains(y.astype(np.float32), np.array([0, len(y)])).values
    code = SWAP_METRICS.index(metric)
    prepare_swaps(code, y, gains, state)
    fill_swaps(code, state, a, out)
    return out


@pytest.mark.parametrize("metric", SWAP_METRICS)
@given(labels=st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0]), min_size=2, max_size=9).filter(any))
@settings(deadline=None, max_examples=60)
def test_each_change_equals_that_of_a_real_swap(metric, labels) -> None:
    for a in range(len(labels) - 1):
        actual = changes(metric, labels, a)
        for b in range(a + 1, len(labels)):
            assert abs(actual[b]) == pytest.approx(swap_change(metric, labels, a, b), abs=1e-13)


@pytest.mark.parametrize("metric", SWAP_METRICS)
def test_the_sign_says_which_document_has_the_higher_label(metric) -> None:
    assert changes(metric, [2, 0, 1], 0)[1] > 0
    assert changes(metric, [0, 2, 1], 0)[1] < 0


def test_err_of_labels_that_overflow_powers_of_two_is_finite() -> None:
    assert changes("err", [0.0, 1e30, 5e29], 0)[1:] == pytest.approx([-0.5, 0.0])


@pytest.mark.parametrize("kind", ["s", "x"])
def test_lambdagap_takes_pairs_of_relevant_and_irrelevant_documents_k_ranks_apart(kind) -> None:
    rng = np.random.default_rng(3)
    scores, labels = rng.normal(size=12), rng.integers(0, 3, 12)
    rank = np.empty(12, dtype=int)
    rank[np.argsort(-scores)] = np.arange(12)
    value, gradient = 0.0, np.zeros(12)
    for i in range(12):
        for j in range(12):
            apart = abs(rank[i] - rank[j])
            if labels[i] > 0 == labels[j] and (apart == 4 or (apart > 4 and kind == "x")):
                difference = 1.5 * (scores[i] - scores[j])
                value += np.log1p(np.exp(-difference))
                gradient[i] -= 1.5 / (1 + np.exp(difference))
                gradient[j] += 1.5 / (1 + np.exp(difference))
    d = LambdaGap(kind, cutoff=4, sigma=1.5).evaluate(scores, labels, [0, 12])
    assert d.values[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(d.gradient, gradient, rtol=1e-10, atol=1e-14)
    assert not np.any(LambdaGap(kind, cutoff=12).evaluate(scores, labels, [0, 12]).gradient)
