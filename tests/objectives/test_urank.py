from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.special import logsumexp

from plackett.base.errors import UsageError
from plackett.objectives.urank import URank
from references.autograd import hessian_diagonal, value_and_gradient
from references.random_lists import one_list
from references.urank import urank

pytestmark = pytest.mark.kernels


def evaluate(objective, scores, labels):
    return objective.evaluate(scores, labels, [0, len(scores)])


def test_the_worked_example_of_the_paper() -> None:
    d = evaluate(URank(), np.log([2, 3, 4, 5]), [1, 2, 2, 0])
    expected = -(3 * np.log(3 / 10) + 3 * np.log(4 / 11) + np.log(2 / 7)) / 2
    assert d.values[0] == pytest.approx(3.949742058254, rel=1e-12)
    assert d.values[0] == pytest.approx(expected, rel=1e-13)
    assert d.gradient == pytest.approx([0.21558442, -1.05, -0.95454545, 1.78896104], rel=1e-7)
    assert d.curvature == pytest.approx([0.56518131, 0.315, 0.34710744, 0.84894164], rel=1e-7)


@given(case=one_list())
@settings(deadline=None, max_examples=60)
def test_all_derivatives_agree_with_autograd(case) -> None:
    scores, labels = case
    d = evaluate(URank(), scores, labels)
    value, gradient = value_and_gradient(urank, scores, labels)
    diagonal = hessian_diagonal(urank, scores, labels)
    assert d.values[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(d.gradient, gradient, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(d.curvature, diagonal, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("window", [1, 2, 3])
@given(case=one_list())
@settings(deadline=None, max_examples=40)
def test_with_a_window_they_agree_at_frozen_order(window, case) -> None:
    scores, labels = case
    d = evaluate(URank(window=window), scores, labels)
    value, gradient = value_and_gradient(urank, scores, labels, window=window)
    diagonal = hessian_diagonal(urank, scores, labels, window=window)
    assert d.values[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(d.gradient, gradient, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(d.curvature, diagonal, rtol=1e-8, atol=1e-12)


def test_a_window_as_long_as_the_list_is_no_window() -> None:
    rng = np.random.default_rng(2)
    scores, labels = rng.normal(size=40), rng.integers(0, 5, 40)
    for ours, theirs in zip(evaluate(URank(window=40), scores, labels), evaluate(URank(), scores, labels), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11)


def test_without_ties_in_labels_terms_are_those_of_listmle_weighted_by_gain() -> None:
    scores, labels = np.array([0.4, -1.0, 0.7, 0.2]), np.array([2.0, 0.0, 1.0, 3.0])
    ordered = scores[np.argsort(-labels)]
    terms = [logsumexp(ordered[i:]) - ordered[i] for i in range(4)]
    gains = [7, 3, 1, 0]
    assert evaluate(URank(), scores, labels).values[0] == pytest.approx(np.dot(gains, terms) / 3, rel=1e-13)


def test_a_document_that_is_wrong_by_a_thousand_costs_a_thousand_times_its_gain() -> None:
    d = evaluate(URank(), [1000.0, 0.0], [0, 2])
    assert d.values[0] == pytest.approx(3000.0, rel=1e-13)
    assert d.gradient == pytest.approx([3.0, -3.0], rel=1e-13)


def test_declarations_depend_on_the_window() -> None:
    assert URank().exact
    assert URank().convex
    assert not URank(window=3).exact
    assert not URank(window=3).convex


@pytest.mark.parametrize("window", [0, -1, 1.5])
def test_a_window_that_is_no_count_is_refused(window) -> None:
    with pytest.raises(UsageError, match="window"):
        URank(window=window)
