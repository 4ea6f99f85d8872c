from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from plackett.base.errors import UsageError
from plackett.objectives.pairwise import RankNet
from references.autograd import hessian_diagonal, value_and_gradient
from references.random_lists import one_list
from references.ranknet import ranknet

pytestmark = pytest.mark.kernels


def evaluate(objective, scores, labels):
    return objective.evaluate(scores, labels, [0, len(scores)])


def test_pairs_with_equal_labels_cost_nothing() -> None:
    d = evaluate(RankNet(), [0.3, -0.2, 0.9], [1, 0, 1])
    expected = np.log1p(np.exp(-0.5)) + np.log1p(np.exp(-1.1))
    assert d.values[0] == pytest.approx(expected, rel=1e-13)
    assert d.gradient[0] == pytest.approx(-1 / (1 + np.exp(0.5)), rel=1e-13)


@given(case=one_list(longest=12))
@settings(deadline=None, max_examples=60)
def test_all_derivatives_agree_with_autograd(case) -> None:
    scores, labels = case
    d = evaluate(RankNet(sigma=1.7), scores, labels)
    value, gradient = value_and_gradient(ranknet, scores, labels, sigma=1.7)
    assert d.values[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(d.gradient, gradient, rtol=1e-8, atol=1e-12)
    diagonal = hessian_diagonal(ranknet, scores, labels, sigma=1.7)
    np.testing.assert_allclose(d.curvature, diagonal, rtol=1e-8, atol=1e-12)


def test_far_scores_cost_their_distance() -> None:
    d = evaluate(RankNet(), [700.0, -700.0, 0.0], [0, 1, 2])
    # Pairs (1, 0) and (2, 0) are wrong by 1400 and 700, pair (2, 1) is right.
    assert d.values[0] == pytest.approx(2100.0, rel=1e-14)
    assert d.gradient == pytest.approx([2.0, -1.0, -1.0])
    assert np.all(np.isfinite(d.curvature))


def test_both_paths_of_the_exponentials_agree() -> None:
    # A document far from the rest makes the list wide; it changes the others' pairs by nothing.
    rng = np.random.default_rng(1)
    scores, labels = 3 * rng.normal(size=30), rng.integers(0, 5, 30)
    narrow = evaluate(RankNet(), scores, labels)
    wide = evaluate(RankNet(), [*scores, -5000.0], [*labels, 0.0])
    np.testing.assert_allclose(wide.gradient[:-1], narrow.gradient, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(wide.curvature[:-1], narrow.curvature, rtol=1e-12, atol=1e-14)


def test_sigma_that_is_not_positive_is_refused() -> None:
    with pytest.raises(UsageError, match="sigma > 0"):
        RankNet(sigma=0.0)
