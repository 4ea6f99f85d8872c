from __future__ import annotations

import numpy as np
import pytest
from references import softmax as reference
from references.autograd import as_tensor, hessian_diagonal, value_and_gradient
from scipy.special import log_softmax, softmax

from plackett.objectives import XENDCG, CrossEntropy, ListNet, objective

pytestmark = pytest.mark.kernels

SCORES = np.array([0.3, -1.2, 2.0, 0.7])
LABELS = np.array([1.0, 0.0, 2.0, 0.5])
OFFSETS = [0, 4]


@pytest.mark.parametrize(
    ("objective", "targets"),
    [
        (CrossEntropy(), LABELS / LABELS.sum()),
        (ListNet(), softmax(LABELS)),
    ],
)
def test_value_gradient_and_curvature_follow_the_formula(objective, targets) -> None:
    d = objective.evaluate(SCORES, LABELS, OFFSETS)
    rho = softmax(SCORES)
    assert d.values[0] == pytest.approx(-np.sum(targets * log_softmax(SCORES)), rel=1e-12)
    assert d.gradient == pytest.approx(rho - targets, rel=1e-12)
    assert d.curvature == pytest.approx(rho * (1 - rho), rel=1e-12)


def test_xendcg_takes_its_targets_from_perturbed_gains() -> None:
    gamma = np.array([0.1, 0.9, 0.5, 0.3])
    d = XENDCG().evaluate(SCORES, LABELS, OFFSETS, draws={"gamma": gamma})
    targets = (2**LABELS - gamma) / np.sum(2**LABELS - gamma)
    assert d.gradient == pytest.approx(softmax(SCORES) - targets, rel=1e-12)


@pytest.mark.parametrize("name", ["crossentropy", "listnet", "xendcg"])
def test_value_gradient_and_curvature_agree_with_autograd(name: str) -> None:
    rng = np.random.default_rng(3)
    for n in (2, 3, 10, 50):
        scores, labels, gamma = rng.normal(size=n), rng.integers(0, 5, n), rng.random(n)
        labels[0], labels[1] = 0, 1
        extra = {"gamma": as_tensor(gamma)} if name == "xendcg" else {}
        draws = {"gamma": gamma} if name == "xendcg" else None
        loss = getattr(reference, name)
        found = objective(name).evaluate(scores, labels, [0, n], draws=draws)
        value, gradient = value_and_gradient(loss, scores, as_tensor(labels), **extra)
        assert found.values[0] == pytest.approx(value, rel=1e-9)
        assert found.gradient == pytest.approx(gradient, rel=1e-8, abs=1e-12)
        diagonal = hessian_diagonal(loss, scores, as_tensor(labels), **extra)
        assert found.curvature == pytest.approx(diagonal, rel=1e-8, abs=1e-12)


def test_newton_is_the_truncated_neumann_series_of_the_whole_hessian() -> None:
    rho = softmax(SCORES)
    gradient = rho - softmax(LABELS)
    D = rho * (1 - rho)
    S = np.where(np.eye(4, dtype=bool), 0.0, rho[None, :] / (1 - rho[:, None]))
    step = (np.eye(4) + S + S @ S) @ (gradient / D)
    d = ListNet(order=3).newton(SCORES, LABELS, OFFSETS)
    assert d.gradient / d.curvature == pytest.approx(step, rel=1e-10)


def test_a_saturated_softmax_never_divides_by_zero() -> None:
    for made in (CrossEntropy(), ListNet(), XENDCG()):
        d = made.newton([800.0, -800.0, 0.0], [0, 1, 2], [0, 3])
        assert np.all(np.isfinite(d.gradient))
        assert np.all(d.curvature >= 0)


def test_labels_of_any_size_keep_targets_finite() -> None:
    for made in (CrossEntropy(), ListNet(), XENDCG()):
        d = made.evaluate([0.0, 1.0, 2.0], [0, 5000, 1e30], [0, 3])
        assert np.all(np.isfinite(d.gradient))
        assert d.gradient.sum() == pytest.approx(0.0, abs=1e-12)


def test_noise_depends_on_seed_step_and_key_only() -> None:
    base = XENDCG(seed=1).evaluate(SCORES, LABELS, OFFSETS, step=3, keys=[9]).gradient
    assert np.array_equal(
        base, XENDCG(seed=1).evaluate(SCORES, LABELS, OFFSETS, step=3, keys=[9]).gradient
    )
    for other in (
        XENDCG(seed=2).evaluate(SCORES, LABELS, OFFSETS, step=3, keys=[9]),
        XENDCG(seed=1).evaluate(SCORES, LABELS, OFFSETS, step=4, keys=[9]),
        XENDCG(seed=1).evaluate(SCORES, LABELS, OFFSETS, step=3, keys=[8]),
    ):
        assert not np.array_equal(base, other.gradient)
