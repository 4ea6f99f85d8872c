from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

from plackett.data.synthetic import synthetic
from plackett.data.transforms import transform
from plackett.models.linear.lbfgs import Preconditioner, minimize
from plackett.models.linear.loss import DenseLoss, RankingLoss, ScoreLoss, make_loss, products_are_smaller
from plackett.objectives import objective


@pytest.fixture(scope="module")
def data():
    raw = synthetic("letor", n_lists=60, seed=1)
    return raw.with_features(transform("standard").fit(raw).apply(raw.features, raw.offsets))


@pytest.mark.parametrize("name", ["listnet", "mle", "convexloss-ndcg", "ranknet", "l3-map"])
def test_lbfgs_reaches_scipys_minimum(name, data) -> None:
    loss = DenseLoss(objective(name), data)
    C = 0.01

    def penalised(w):
        value, gradient = loss.evaluate(w)
        return value + w @ w / C, gradient + 2 * w / C

    zero = np.zeros(data.n_features)
    options = {"maxiter": 5000, "gtol": 1e-7, "ftol": 1e-15}
    expected = scipy_minimize(penalised, zero, jac=True, method="L-BFGS-B", options=options)
    solution = minimize(loss, zero, C=C, max_iterations=500, tolerance=1e-8)
    assert solution.convergence.converged
    assert solution.convergence.value == pytest.approx(expected.fun, rel=1e-8)
    assert solution.weights == pytest.approx(expected.x, rel=1e-2, abs=1e-4)


def test_one_pass_over_the_features_gives_the_same_loss_as_two_products(data) -> None:
    w = np.random.default_rng(0).normal(size=data.n_features)
    for name in ("listnet", "expgain-map", "lambdarank"):
        one, two = DenseLoss(objective(name), data), ScoreLoss(objective(name), data)
        value, gradient = one.evaluate(w)
        expected, slopes = two.evaluate(w)
        assert value == pytest.approx(expected, rel=1e-12)
        assert gradient == pytest.approx(slopes, rel=1e-9, abs=1e-9 * np.abs(slopes).max())


def test_lists_with_one_label_count_where_the_objective_keeps_them(data) -> None:
    one_level = data.with_labels(np.ones(data.n_docs))
    w = 0.01 * np.random.default_rng(0).normal(size=data.n_features)
    keeping = objective("listnet", one_level="keep")
    value, gradient = make_loss(keeping, one_level).evaluate(w)
    expected = keeping.evaluate(one_level.features @ w, one_level.labels, one_level.offsets)
    assert value == pytest.approx(expected.values.sum(), rel=1e-5)
    assert np.abs(gradient).max() > 0
    assert make_loss(objective("listnet"), one_level).evaluate(w)[0] == 0


@pytest.mark.parametrize("name", ["mle", "expgain-map", "convexloss-ndcg", "l2-auc", "l3-map"])
def test_stored_products_give_the_same_loss_as_scores(name, data) -> None:
    loss = objective(name, space="sampled", samples=30)
    w = 0.01 * np.random.default_rng(0).normal(size=data.n_features)
    value, gradient = RankingLoss(loss, data).evaluate(w)
    expected, slopes = DenseLoss(loss, data).evaluate(w)
    assert value == pytest.approx(expected, rel=1e-5)
    assert gradient == pytest.approx(slopes, rel=1e-4, abs=1e-4 * np.abs(slopes).max())


def test_stored_products_respect_list_weights(data) -> None:
    loss = objective("convexloss-ndcg", samples=20)
    list_weights = np.linspace(0.5, 2.0, data.n_lists)

    weighted = data._replace(weights=list_weights)
    w = 0.01 * np.random.default_rng(0).normal(size=data.n_features)
    assert RankingLoss(loss, weighted).evaluate(w)[0] == pytest.approx(
        DenseLoss(loss, weighted).evaluate(w)[0], rel=1e-5
    )


def test_products_are_stored_where_lists_are_long(data) -> None:
    assert products_are_smaller(data, samples=10) == (
        10 * data.n_lists * data.n_features <= 10 * data.n_docs + data.n_docs * data.n_features
    )


def test_the_preconditioner_is_the_hessian_of_a_quadratic_loss_of_centered_features(data) -> None:
    h = np.random.default_rng(2).uniform(0.5, 1.0, data.n_docs)
    C = 3.0
    expected = 2.0 / C * np.eye(data.n_features)
    X = data.features.astype(float)
    for low, high in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        x, weight = X[low:high], h[low:high]
        x = x - weight @ x / weight.sum()
        expected += (weight * x.T) @ x
    g = np.random.default_rng(3).normal(size=data.n_features)
    preconditioner = Preconditioner.at(data, h, C)
    solved = preconditioner.to_weights(preconditioner.to_gradient(g))
    assert solved == pytest.approx(np.linalg.solve(expected, g), rel=1e-6)


def test_a_run_resumed_between_rounds_ends_at_the_same_weights(data) -> None:
    loss = DenseLoss(objective("expgain-map"), data)
    states: list[dict] = []
    settings = {"C": 1.0, "max_iterations": 150, "tolerance": 1e-9}
    start = np.zeros(data.n_features)
    whole = minimize(loss, start, save=states.append, **settings)
    assert len(states) > 1
    resumed = minimize(loss, start, resume=states[0], **settings)
    assert np.array_equal(resumed.weights, whole.weights)
    assert resumed.convergence.iterations == whole.convergence.iterations


def test_a_stop_at_the_limit_is_reported(data) -> None:
    loss = DenseLoss(objective("listnet"), data)
    solution = minimize(loss, np.zeros(data.n_features), C=1e5, max_iterations=2, tolerance=1e-9)
    assert not solution.convergence.converged
    assert "max_iterations=2 reached" in str(solution.convergence)
