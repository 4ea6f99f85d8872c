from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.special import softmax

from plackett.base.errors import DataError, UsageError
from plackett.objectives.listmle import MDPRank
from references.autograd import hessian_diagonal, value_and_gradient
from references.plackett_luce import discounted_returns, likelihood
from references.random_lists import one_list

pytestmark = pytest.mark.kernels


def evaluate(objective, scores, labels, **options):
    return objective.evaluate(scores, labels, [0, len(scores)], **options)


def test_two_documents_by_hand() -> None:
    # Rewards 3 and 7 at the two undiscounted positions: the first pick returns 10.
    s = np.array([-0.7, 2.4])
    d = evaluate(MDPRank(), s, [3, 2], draws={"order": [1, 0]})
    assert d.values[0] == pytest.approx(10 * np.log1p(np.exp(-3.1)), rel=1e-13)


@pytest.mark.parametrize("gamma", [1.0, 0.6, 0.0])
@pytest.mark.parametrize("discount", ["jk", "standard"])
@given(case=one_list(), shuffle=st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=25)
def test_for_a_given_episode_all_derivatives_agree_with_autograd(gamma, discount, case, shuffle) -> None:
    scores, labels = case
    order = list(range(len(scores)))
    shuffle.shuffle(order)
    returns = discounted_returns(labels, order, gamma, discount)
    d = evaluate(MDPRank(gamma=gamma, discount=discount), scores, labels, draws={"order": order})
    episode = {"order": order, "weights": returns}
    value, gradient = value_and_gradient(likelihood, scores, labels, **episode)
    diagonal = hessian_diagonal(likelihood, scores, labels, **episode)
    assert d.values[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(d.gradient, gradient, rtol=1e-8, atol=1e-11)
    floored = np.maximum(diagonal, 1e-6 * np.mean(diagonal))
    np.testing.assert_allclose(d.curvature, floored, rtol=1e-8, atol=1e-11)


def test_the_mean_gradient_is_that_of_the_expected_return() -> None:
    scores, labels = np.array([0.3, -0.5, 0.8]), np.array([2.0, 0.0, 1.0])
    expected = np.zeros(3)
    for order in permutations(range(3)):
        chance = 1.0
        for t in range(3):
            left = list(order[t:])
            chance *= softmax(scores[left])[0]
        d = evaluate(MDPRank(discount="standard"), scores, labels, draws={"order": order})
        expected += chance * d.gradient
    n = 20_000  # copies of the list, which differ in their keys
    many = MDPRank(discount="standard").evaluate(np.tile(scores, n), np.tile(labels, n), 3 * np.arange(n + 1))
    draws = many.gradient.reshape(n, 3)
    error = draws.std(axis=0) / np.sqrt(n)
    assert np.all(np.abs(draws.mean(axis=0) - expected) < 5 * error)
    # And that expectation is minus the derivative of the expected return.
    assert expected == pytest.approx(-_slope_of_expected_return(scores, labels), rel=1e-6)


def _slope_of_expected_return(scores, labels):
    def expected_return(s):
        total = 0.0
        for order in permutations(range(3)):
            chance = np.prod([softmax(s[list(order[t:])])[0] for t in range(3)])
            total += chance * discounted_returns(labels, order, 1.0, "standard")[0]
        return total

    step = 1e-6 * np.eye(3)
    return np.array([(expected_return(scores + e) - expected_return(scores - e)) / 2e-6 for e in step])


def test_episodes_depend_on_seed_step_and_key_only() -> None:
    rng = np.random.default_rng(3)
    scores, labels = rng.normal(size=20), rng.integers(0, 3, 20)
    base = evaluate(MDPRank(seed=1), scores, labels, step=2, keys=[7]).values[0]
    assert base == evaluate(MDPRank(seed=1), scores, labels, step=2, keys=[7]).values[0]
    for other in (
        evaluate(MDPRank(seed=2), scores, labels, step=2, keys=[7]),
        evaluate(MDPRank(seed=1), scores, labels, step=3, keys=[7]),
        evaluate(MDPRank(seed=1), scores, labels, step=2, keys=[8]),
    ):
        assert other.values[0] != base


def test_parameters_out_of_range_are_refused() -> None:
    with pytest.raises(UsageError, match="gamma between 0 and 1"):
        MDPRank(gamma=1.5)
    with pytest.raises(UsageError, match="no discount='log'"):
        MDPRank(discount="log")
    with pytest.raises(DataError, match="each of 0 to 2 once"):
        evaluate(MDPRank(), [0.0, 1.0, 2.0], [0, 1, 2], draws={"order": [0, 0, 1]})
