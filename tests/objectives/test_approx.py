from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from plackett.base.errors import UsageError
from plackett.objectives.approx import ApproxERR, ApproxMAP, ApproxMRR, ApproxNDCG
from references.approx import approxerr, approxmap, approxmrr, approxndcg
from references.autograd import hessian_diagonal, value_and_gradient
from references.random_lists import one_list

pytestmark = pytest.mark.kernels

CONCAVE = [(ApproxNDCG, approxndcg), (ApproxMRR, approxmrr), (ApproxERR, approxerr)]
PAIRS = [*CONCAVE, (ApproxMAP, approxmap)]


def evaluate(objective, scores, labels):
    return objective.evaluate(scores, labels, [0, len(scores)])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_approximate_ranks_of_two_documents_enter_the_metrics() -> None:
    # The relevant document lies 0.2 below the other: its rank is 1 + sigmoid(2).
    rank = 1 + sigmoid(10 * 0.2)
    assert evaluate(ApproxNDCG(), [0.6, 0.8], [1, 0]).values[0] == pytest.approx(-1 / np.log2(1 + rank), rel=1e-12)
    assert evaluate(ApproxMRR(), [0.6, 0.8], [1, 0]).values[0] == pytest.approx(-1 / rank, rel=1e-12)


def test_the_numbers_that_other_libraries_print_are_reproduced() -> None:
    # TF-Ranking's documentation of its losses, and Rax's README, in float32.
    assert evaluate(ApproxNDCG(), [0.6, 0.8], [1, 0]).values[0] == pytest.approx(-0.655107, abs=1e-6)
    assert evaluate(ApproxMRR(), [0.6, 0.8], [1, 0]).values[0] == pytest.approx(-0.53168947, abs=1e-7)
    two = [0.6, 0.8, 0.5, 0.8, 0.4], [1, 0, 0, 1, 0], [0, 2, 5]
    assert np.mean(ApproxNDCG().evaluate(*two).values) == pytest.approx(-0.80536866, abs=1e-6)
    assert np.mean(ApproxMRR().evaluate(*two).values) == pytest.approx(-0.73514676, abs=1e-6)
    d = evaluate(ApproxNDCG(eta=1.0), [2.2, -1.3, 5.4], [1, 0, 0])
    assert d.values[0] == pytest.approx(-0.63282484, abs=1e-6)
    assert d.gradient == pytest.approx([-0.01276882, 0.00549765, 0.00727116], abs=1e-6)


@pytest.mark.parametrize(("objective", "reference"), PAIRS)
@given(case=one_list())
@settings(deadline=None, max_examples=40)
def test_value_and_gradient_agree_with_autograd(objective, reference, case) -> None:
    scores, labels = case
    if reference is approxmrr and np.all(labels > 0):
        return
    for eta in (10.0, 1.5):
        d = evaluate(objective(eta=eta), scores, labels)
        value, gradient = value_and_gradient(reference, scores, labels, eta=eta)
        assert d.values[0] == pytest.approx(value, rel=1e-10)
        np.testing.assert_allclose(d.gradient, gradient, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(("objective", "reference"), CONCAVE)
@given(case=one_list(longest=6))
@settings(deadline=None, max_examples=25)
def test_curvature_bounds_the_hessian_and_the_newton_step(objective, reference, case) -> None:
    scores, labels = case
    if reference is approxmrr and np.all(labels > 0):
        return
    d = evaluate(objective(eta=3.0), scores, labels)
    diagonal = hessian_diagonal(reference, scores, labels, eta=3.0)
    assert np.all(d.curvature >= diagonal - 1e-10)
    assert np.all(np.abs(d.gradient) <= d.curvature / 3.0 * (1 + 1e-10) + 1e-15)
    assert np.all(d.curvature >= 1e-6 * np.mean(d.curvature) * (1 - 1e-5))


def test_a_steep_comparison_gives_minus_the_metric() -> None:
    scores, labels = [0.3, 0.9, -0.2, 0.1, 0.6], [2, 0, 3, 1, 0]
    gains = 2.0 ** np.array([0, 0, 2, 1, 3]) - 1  # by falling score
    discounts = 1 / np.log2(2 + np.arange(5))
    ndcg = np.sum(gains * discounts) / np.sum(np.sort(gains)[::-1] * discounts)
    assert evaluate(ApproxNDCG(eta=1e4), scores, labels).values[0] == pytest.approx(-ndcg, rel=1e-12)
    # Three documents are relevant; the first of them is third.
    assert evaluate(ApproxMRR(eta=1e4), scores, labels).values[0] == pytest.approx(-1 / 3, rel=1e-12)
    precisions = [1 / 3, 2 / 4, 3 / 5]
    assert evaluate(ApproxMAP(eta=1e4), scores, labels).values[0] == pytest.approx(-np.mean(precisions), rel=1e-12)
    err = 3 / 8 / 3 + (5 / 8) * (1 / 8) / 4 + (5 / 8) * (7 / 8) * (7 / 8) / 5
    assert evaluate(ApproxERR(eta=1e4), scores, labels).values[0] == pytest.approx(-err, rel=1e-12)


def test_mrr_of_a_list_without_an_irrelevant_document_is_zero_throughout() -> None:
    d = evaluate(ApproxMRR(), [0.1, 0.2], [1, 2])
    assert d.values[0] == 0.0
    assert not np.any(d.gradient)
    assert not np.any(d.curvature)


def test_close_scores_far_below_the_top_are_still_compared() -> None:
    # Beyond the range of exponentials relative to the top score, pairs take another path.
    near = evaluate(ApproxNDCG(), [0.0, 0.1], [0, 1])
    far = evaluate(ApproxNDCG(), [1000.0, 0.0, 0.1], [2, 0, 1])
    gain = 1 / (3 + 1 / np.log2(3))
    rank = 2 + sigmoid(-1.0)
    slope = gain * np.log(2) / ((1 + rank) * np.log(1 + rank) ** 2)
    expected = 10 * sigmoid(1.0) * sigmoid(-1.0) * slope
    assert far.gradient == pytest.approx([0.0, expected, -expected], rel=1e-9)
    assert near.gradient[1] < 0


@pytest.mark.parametrize("objective", [ApproxNDCG, ApproxMRR, ApproxMAP, ApproxERR])
@pytest.mark.parametrize("eta", [0.0, -1.0, np.inf, np.nan])
def test_eta_that_is_not_positive_is_refused(objective, eta) -> None:
    with pytest.raises(UsageError, match="eta > 0"):
        objective(eta=eta)
