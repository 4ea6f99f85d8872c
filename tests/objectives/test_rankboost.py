from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from plackett.objectives.pairwise import RankBoost
from references.autograd import hessian_diagonal, value_and_gradient
from references.margins import rankboost
from references.random_lists import one_list

pytestmark = pytest.mark.kernels


def evaluate(scores, labels):
    return RankBoost().evaluate(scores, labels, [0, len(scores)])


def test_three_documents_by_hand() -> None:
    d = evaluate(np.log([2.0, 3.0, 5.0]), [1, 0, 1])
    assert d.values[0] == pytest.approx(3 / 2 + 3 / 5, rel=1e-14)
    assert d.gradient == pytest.approx([-3 / 2, 3 / 2 + 3 / 5, -3 / 5], rel=1e-14)
    assert d.curvature == pytest.approx([3 / 2, 3 / 2 + 3 / 5, 3 / 5], rel=1e-14)


@given(case=one_list(longest=12))
@settings(deadline=None, max_examples=80)
def test_all_derivatives_agree_with_autograd(case) -> None:
    scores, labels = case
    d = evaluate(scores, labels)
    value, gradient = value_and_gradient(rankboost, scores, labels)
    assert d.values[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(d.gradient, gradient, rtol=1e-8, atol=1e-11)
    diagonal = hessian_diagonal(rankboost, scores, labels)
    np.testing.assert_allclose(d.curvature, diagonal, rtol=1e-8, atol=1e-11)


def test_it_is_the_number_of_pairs_times_the_normalizers_of_boosting() -> None:
    # Freund et al. 2003: with distribution D over pairs, each round multiplies the loss by
    # Z = sum D exp(-alpha (h_i - h_j)) <= sqrt(1 - r^2), r = sum D (h_i - h_j).
    rng = np.random.default_rng(1)
    labels = np.array([1, 0, 0, 1, 0, 1])
    scores, product = np.zeros(6), 9.0
    distribution = np.where(labels[:, None] > labels[None, :], 1 / 9, 0.0)
    for _ in range(5):
        h = rng.integers(0, 2, 6)
        gap = h[:, None] - h[None, :]
        r = np.sum(distribution * gap)
        alpha = 0.5 * np.log((1 + r) / (1 - r))
        distribution = distribution * np.exp(-alpha * gap)
        normalizer = distribution.sum()
        assert normalizer <= np.sqrt(1 - r**2) + 1e-12
        distribution /= normalizer
        scores, product = scores + alpha * h, product * normalizer
    assert evaluate(scores, labels).values[0] == pytest.approx(product, rel=1e-12)


def test_far_scores_saturate_at_e_to_the_700() -> None:
    d = evaluate([700.0, -700.0, 0.0], [0, 1, 2])
    top = np.exp(700.0)
    assert d.values[0] == pytest.approx(top, rel=1e-12)
    assert all(np.all(np.isfinite(part)) for part in d)
    assert np.all(np.abs(d.gradient) <= top)
    assert np.all(d.curvature >= 0)


def test_real_valued_labels_agree_with_pairs_on_a_long_list() -> None:
    rng = np.random.default_rng(1)
    scores, labels = 3 * rng.normal(size=200), rng.random(200).astype(np.float32)
    costs = np.exp(-(scores[:, None] - scores[None, :])) * (labels[:, None] > labels[None, :])
    d = evaluate(scores, labels)
    assert d.values[0] == pytest.approx(costs.sum(), rel=1e-12)
    np.testing.assert_allclose(d.curvature, costs.sum(axis=0) + costs.sum(axis=1), rtol=1e-10)
