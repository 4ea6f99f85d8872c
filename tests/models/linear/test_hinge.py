from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

from plackett.data.dataset import Dataset
from plackett.models.linear.convergence import Iterate, Planes
from plackett.models.linear.cutting_plane import Bundle, maximize_on_simplex, minimize_by_planes
from plackett.models.linear.loss import DenseLoss
from plackett.models.linear.solvers import SmoothHinge, minimize_hinge
from plackett.objectives import objective


def _data(n_lists: int = 30, n_features: int = 4) -> Dataset:
    rng = np.random.default_rng(7)
    ids = np.repeat(np.arange(n_lists), 8)
    X = rng.normal(size=(len(ids), n_features))
    y = np.clip(np.round(X[:, 0] - 0.5 * X[:, 1] + rng.normal(size=len(ids))), 0, 2)
    return Dataset.from_arrays(X, y, ids)


def _pairs(data: Dataset) -> np.ndarray:
    X = data.features.astype(float)
    parts = []
    for low, high in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        x, y = X[low:high], data.labels[low:high]
        i, j = np.nonzero(y[:, None] > y)
        parts.append(x[i] - x[j])
    return np.concatenate(parts)


@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
def test_the_smoothed_hinge_reaches_a_linear_svms_minimum(C) -> None:
    svm = pytest.importorskip("sklearn.svm")
    data = _data()
    Z = _pairs(data)
    both, signs = np.concatenate([Z, -Z]), np.repeat([1, -1], len(Z))
    # Each pair stands there twice, and |w|^2 / 2 + C' sum has its minimum at C = 2 C'.
    settings = {"C": C / 4, "tol": 1e-6, "max_iter": 1_000_000, "random_state": 0}
    peer = svm.LinearSVC(loss="hinge", fit_intercept=False, **settings)
    w = peer.fit(both, signs).coef_[0]
    expected = np.maximum(0.0, 1.0 - Z @ w).sum() + w @ w / C
    solution = minimize_hinge(data, np.zeros(4), C=C, max_iterations=1000, gap=1e-4)
    report = solution.convergence
    assert report.converged
    assert report.value == pytest.approx(expected, rel=2e-4)
    assert report.value * (1.0 - report.gap) <= expected * (1 + 1e-6)


def test_the_smoothed_hinge_is_that_of_the_pairs_and_below_the_hinge() -> None:
    data = _data()
    width = 0.2
    w = np.array([0.4, -0.3, 0.1, 0.0])
    m = 1.0 - _pairs(data) @ w
    smooth = np.where(m < width, np.maximum(m, 0.0) ** 2 / (2 * width), m - width / 2)
    loss = SmoothHinge(data, width)
    assert loss.evaluate(w)[0] == pytest.approx(smooth.sum(), rel=1e-6)
    assert loss.evaluate(w)[0] <= loss.hinge(w)
    steps = 1e-5 * np.eye(4)
    slopes = [(loss.evaluate(w + s)[0] - loss.evaluate(w - s)[0]) / 2e-5 for s in steps]
    assert loss.evaluate(w)[1] == pytest.approx(slopes, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("C", [0.1, 10.0, 1e4])
def test_cutting_planes_close_the_gap_and_no_point_is_below_the_bound(C) -> None:
    data = _data()
    loss = DenseLoss(objective("svmmap"), data)
    solution = minimize_by_planes(loss, np.zeros(4), C=C, max_iterations=500, gap=1e-4)
    report = solution.convergence
    assert report.converged
    bound = report.value * (1.0 - report.gap)

    def total(w):
        return loss.evaluate(w)[0] + w @ w / C

    assert total(solution.weights) == pytest.approx(report.value)
    searched = scipy_minimize(total, solution.weights, method="Nelder-Mead").fun
    assert bound <= searched + 1e-9 * abs(searched)


def test_planes_of_another_penalty_save_evaluations() -> None:
    loss = DenseLoss(objective("svmmap"), _data(n_features=8))
    first = minimize_by_planes(loss, np.zeros(8), C=100.0, max_iterations=500, gap=1e-4)
    settings = {"C": 200.0, "max_iterations": 500, "gap": 1e-4}
    warm = minimize_by_planes(loss, first.weights, planes=first.planes, **settings)
    cold = minimize_by_planes(loss, np.zeros(8), **settings)
    assert warm.convergence.value == pytest.approx(cold.convergence.value, rel=2e-4)
    assert warm.convergence.evaluations < cold.convergence.evaluations


def test_the_simplex_program_reaches_scipys_maximum() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 20):
        A = rng.normal(size=(n, 6))
        Q, b = A @ A.T, rng.normal(size=n)
        start = np.eye(n)[0]
        alpha = maximize_on_simplex(Q, b, start)
        assert np.all(alpha >= 0)
        assert alpha.sum() == pytest.approx(1.0)
        slope = b - Q @ alpha
        level = slope[alpha > 0].max()
        # The conditions of an optimum: equal gains inside, no higher one outside.
        assert slope.max() <= level + 1e-6
        assert slope[alpha > 0].min() >= level - 1e-6


def test_a_bundle_of_tangents_bounds_the_minimum_from_below() -> None:
    bundle = Bundle(2, 1.0)
    for w in ([1.0, 0.0], [0.0, 2.0], [-0.2, 0.4]):
        at = np.array(w)
        bundle.add(Iterate(at, float(np.sum((at - 1.0) ** 2)), 2 * (at - 1.0)))
    # min of |w - 1|^2 + |w|^2 is 1, at w = 1/2.
    assert 0.0 < bundle.lower <= 1.0
    again = Bundle(2, 1.0, Planes(bundle.A[1:], bundle.b[1:]))
    assert again.lower == pytest.approx(bundle.lower, rel=1e-9)
