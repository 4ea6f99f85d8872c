from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from plackett.base.errors import UsageError
from plackett.objectives.lambdarank import LambdaRank
from plackett.objectives.urank import UMart
from references.random_lists import one_list
from references.umart import umart

pytestmark = pytest.mark.kernels


def evaluate(objective, scores, labels):
    return objective.evaluate(scores, labels, [0, len(scores)])


def test_one_document_against_two_follows_the_formula() -> None:
    d = evaluate(UMart(score_norm=False), [0.5, 0.3, 0.0], [0, 1, 0])
    masses = np.exp(2 * np.array([0.3, 0.5, 0.0]))
    reference, first, last = masses / masses.sum()
    discounts = 1 / np.log2([2, 3, 4])
    up, down = discounts[0] - discounts[1], discounts[1] - discounts[2]
    assert d.gradient == pytest.approx([2 * up * first, -2 * (up * first + down * last), 2 * down * last], rel=1e-12)
    assert d.curvature == pytest.approx(
        [8 * up * first * (1 - first), 8 * reference * (up * first + down * last), 8 * down * last * (1 - last)],
        rel=1e-12,
    )


@given(
    case=one_list(),
    window=st.sampled_from([None, 1, 2, 3]),
    sigma=st.sampled_from([1.0, 2.0]),
    score_norm=st.booleans(),
    hess_factor=st.sampled_from([1.0, 2.0]),
)
@settings(deadline=None, max_examples=80)
def test_gradient_and_curvature_follow_the_equations(case, **parameters) -> None:
    scores, labels = case
    d = evaluate(UMart(**parameters), scores, labels)
    gradient, curvature = umart(scores, labels, **parameters)
    np.testing.assert_allclose(d.gradient, gradient, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(d.curvature, curvature, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("flags", [{"score_norm": True, "hess_factor": 2.0},
                                   {"score_norm": False, "hess_factor": 1.0}])  # fmt: skip
@given(case=one_list(longest=12), sigma=st.sampled_from([1.0, 2.0]))
@settings(deadline=None, max_examples=40)
def test_a_window_of_one_is_lambdamart(flags, case, sigma) -> None:
    for ours, theirs in zip(
        evaluate(UMart(window=1, sigma=sigma, **flags), *case),
        evaluate(LambdaRank(sigma=sigma, **flags), *case),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-15)


def test_curvature_is_the_derivative_of_the_gradient_at_frozen_weights() -> None:
    scores, labels = np.array([0.4, -0.3, 1.2, 0.1, 0.8]), [0, 2, 1, 4, 0]
    objective = UMart(window=2, score_norm=False, hess_factor=1.0)
    d = evaluate(objective, scores, labels)
    for k in range(5):
        step = 1e-5 * np.eye(5)[k]
        high = evaluate(objective, scores + step, labels).gradient[k]
        low = evaluate(objective, scores - step, labels).gradient[k]
        assert d.curvature[k] == pytest.approx((high - low) / 2e-5, rel=1e-7)


def test_only_a_window_of_one_has_a_value() -> None:
    for window in (2, None):
        assert np.isnan(evaluate(UMart(window=window), [0.1, 0.2], [0, 1]).values[0])
    assert evaluate(UMart(window=1), [0.1, 0.2], [0, 1]).values[0] > 0


def test_lists_wider_than_the_range_of_exponentials_are_treated_alike() -> None:
    # A document far below adds a label-0 loser with no mass to the last windows.
    scores, labels = np.array([0.4, -0.3, 0.9, 0.1]), [0, 2, 1, 0]
    narrow = evaluate(UMart(), scores, labels)
    wide = evaluate(UMart(), [*scores, -5000.0], [*labels, 0])
    assert wide.gradient[:4] == pytest.approx(narrow.gradient, rel=1e-12)
    assert wide.curvature[:4] == pytest.approx(narrow.curvature, rel=1e-12)


@pytest.mark.parametrize("wrong", [{"window": 0}, {"sigma": 0.0}, {"hess_factor": 0.0}])
def test_parameters_out_of_range_are_refused_by_name(wrong) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        UMart(**wrong)
