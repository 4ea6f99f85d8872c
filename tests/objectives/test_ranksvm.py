from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from plackett.objectives.hinge import RankSVM
from references.autograd import hessian_diagonal, value_and_gradient
from references.margins import pairs, ranksvm
from references.random_lists import one_list

pytestmark = pytest.mark.kernels


def evaluate(objective, scores, labels):
    return objective.evaluate(scores, labels, [0, len(scores)])


def test_three_documents_by_hand() -> None:
    # Pairs (2, 0): 1 - 0.5, (2, 1): 1 - 1.5 < 0, (1, 0): 1 + 1.
    scores, labels = [0.5, -0.5, 1.0], [0, 1, 2]
    d = evaluate(RankSVM(), scores, labels)
    assert d.values[0] == pytest.approx(0.5 + 2.0, rel=1e-14)
    assert list(d.gradient) == [2.0, -1.0, -1.0]
    assert list(d.curvature) == [2.0, 1.0, 1.0]
    d = evaluate(RankSVM(squared=True), scores, labels)
    assert d.values[0] == pytest.approx(0.25 + 4.0, rel=1e-14)
    assert d.gradient == pytest.approx([2 * 0.5 + 2 * 2, -4.0, -1.0], rel=1e-14)
    assert list(d.curvature) == [4.0, 2.0, 2.0]


def test_a_pair_exactly_at_the_margin_is_not_active() -> None:
    d = evaluate(RankSVM(), [1.0, 0.0], [1, 0])
    assert d.values[0] == 0.0
    assert not np.any(d.gradient)
    assert not np.any(d.curvature)


@pytest.mark.parametrize("squared", [False, True])
@given(case=one_list(longest=14))
@settings(deadline=None, max_examples=60)
def test_value_and_gradient_agree_with_autograd(squared, case) -> None:
    scores, labels = case
    d = evaluate(RankSVM(squared=squared), scores, labels)
    value, gradient = value_and_gradient(ranksvm, scores, labels, squared=squared)
    assert d.values[0] == pytest.approx(value, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(d.gradient, gradient, rtol=1e-8, atol=1e-12)


@given(case=one_list(longest=14))
@settings(deadline=None, max_examples=60)
def test_curvature_counts_active_pairs(case) -> None:
    scores, labels = case
    active = np.zeros(len(scores))
    for i, j in pairs(labels):
        if scores[i] - scores[j] < 1:
            active[[i, j]] += 1
    assert np.array_equal(evaluate(RankSVM(), scores, labels).curvature, active)
    assert np.array_equal(evaluate(RankSVM(squared=True), scores, labels).curvature, 2 * active)


def test_curvature_of_the_squared_hinge_is_the_exact_diagonal() -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=12), rng.integers(0, 4, 12)
    diagonal = hessian_diagonal(ranksvm, scores, labels, squared=True)
    d = evaluate(RankSVM(squared=True), scores, labels)
    np.testing.assert_allclose(d.curvature, diagonal, rtol=1e-12)


@pytest.mark.parametrize("squared", [False, True])
def test_real_valued_labels_agree_with_pairs_on_a_long_list(squared) -> None:
    rng = np.random.default_rng(1)
    scores, labels = 2 * rng.normal(size=300), rng.random(300).astype(np.float32)
    margins = 1 - (scores[:, None] - scores[None, :])
    margins = np.where((labels[:, None] > labels[None, :]) & (margins > 0), margins, 0)
    slopes = 2 * margins if squared else (margins > 0).astype(float)
    d = evaluate(RankSVM(squared=squared), scores, labels)
    expected = (margins**2 if squared else margins).sum()
    assert d.values[0] == pytest.approx(expected, rel=1e-11)
    np.testing.assert_allclose(d.gradient, slopes.sum(axis=0) - slopes.sum(axis=1), atol=1e-9)


@pytest.mark.parametrize("squared", [False, True])
def test_far_scores_stay_finite_and_far_from_zero_changes_nothing(squared) -> None:
    d = evaluate(RankSVM(squared=squared), [700.0, -700.0, 0.0], [0, 1, 2])
    # Margins 1401 and 701 are violated.
    expected = 1401.0**2 + 701.0**2 if squared else 2102.0
    assert d.values[0] == pytest.approx(expected, rel=1e-12)
    near = evaluate(RankSVM(squared=squared), [0.25, -0.5, 1.0], [0, 1, 2])
    far = evaluate(RankSVM(squared=squared), np.array([0.25, -0.5, 1.0]) + 2**20, [0, 1, 2])
    for ours, theirs in zip(near, far, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
