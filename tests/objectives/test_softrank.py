from __future__ import annotations

from math import erf, sqrt

import numpy as np
import pytest
from hypothesis import given, settings

from plackett.base.errors import UsageError
from plackett.objectives.approx import SoftRank
from references.autograd import hessian_diagonal, value_and_gradient
from references.random_lists import one_list
from references.softrank import softrank

pytestmark = pytest.mark.kernels


def evaluate(objective, scores, labels):
    return objective.evaluate(scores, labels, [0, len(scores)])


def test_two_documents_follow_the_formula() -> None:
    # The relevant document is first with probability Phi(0.3 / (sqrt(2) 0.5)).
    first = 0.5 * (1 + erf(0.3 / (2 * 0.5)))
    density = np.exp(-(0.3**2) / (4 * 0.5**2)) / (2 * 0.5 * sqrt(np.pi))
    d = evaluate(SoftRank(), [0.8, 0.5], [1, 0])
    assert d.values[0] == pytest.approx(-(first + (1 - first) / np.log2(3)), rel=1e-12)
    assert d.gradient[0] == pytest.approx(-density * (1 - 1 / np.log2(3)), rel=1e-12)


@given(case=one_list(longest=5))
@settings(deadline=None, max_examples=25)
def test_value_and_gradient_agree_with_enumeration(case) -> None:
    scores, labels = case
    for sigma in (0.5, 0.1):
        d = evaluate(SoftRank(sigma=sigma), scores, labels)
        value, gradient = value_and_gradient(softrank, scores, labels, sigma=sigma)
        assert d.values[0] == pytest.approx(value, rel=1e-10)
        np.testing.assert_allclose(d.gradient, gradient, rtol=1e-8, atol=1e-12)


@given(case=one_list(longest=4))
@settings(deadline=None, max_examples=15)
def test_curvature_bounds_the_hessian_and_the_newton_step(case) -> None:
    scores, labels = case
    d = evaluate(SoftRank(), scores, labels)
    assert np.all(d.curvature >= hessian_diagonal(softrank, scores, labels, sigma=0.5) - 1e-10)
    assert np.all(np.abs(d.gradient) <= sqrt(2) * 0.5 * d.curvature * (1 + 1e-10) + 1e-15)


@pytest.mark.parametrize("spread", [0.0, 0.05, 1.0, 5.0])
def test_removing_a_coin_from_a_long_law_loses_no_accuracy(spread) -> None:
    # Finite differences see the laws themselves, which hold only positive terms.
    rng = np.random.default_rng(3)
    scores = spread * rng.normal(size=200)
    labels = rng.integers(0, 3, 200)
    d = evaluate(SoftRank(), scores, labels)
    direction = rng.normal(size=200)
    step = 1e-4
    ahead, behind, far_ahead, far_behind = (
        evaluate(SoftRank(), scores + k * step * direction, labels).values[0] for k in (1, -1, 2, -2)
    )
    slope = (8 * (ahead - behind) - (far_ahead - far_behind)) / (12 * step)
    assert d.gradient @ direction == pytest.approx(slope, rel=1e-9, abs=1e-10)
    assert d.gradient.sum() == pytest.approx(0.0, abs=1e-12)


def test_hardly_any_noise_gives_minus_ndcg() -> None:
    gains, discounts = np.array([0.0, 3.0, 1.0]), 1 / np.log2([2, 3, 4])
    ndcg = np.sum(gains * discounts) / (3 * discounts[0] + 1 * discounts[1])
    d = evaluate(SoftRank(sigma=1e-3), [0.2, 0.1, 0.3], [2, 1, 0])
    assert d.values[0] == pytest.approx(-ndcg, rel=1e-12)


@pytest.mark.parametrize("sigma", [0.5, 1e-3, 1e3])
def test_far_scores_and_huge_labels_stay_finite(sigma) -> None:
    for labels in ([0, 1, 2, 0], [0, 700, 1e30, 5]):
        for scores in ([700.0, -700.0, 0.0, -700.0], [-700.0, -699.9, 700.0, 700.0]):
            d = evaluate(SoftRank(sigma=sigma), scores, labels)
            assert all(np.all(np.isfinite(item)) for item in d)
            assert -1.0 - 1e-12 <= d.values[0] <= 0.0
            assert np.all(d.curvature >= 0)


def test_sigma_that_is_not_positive_is_refused() -> None:
    with pytest.raises(UsageError, match="sigma > 0"):
        SoftRank(sigma=0.0)
