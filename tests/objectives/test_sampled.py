from __future__ import annotations

import numpy as np
import pytest

from plackett.base.errors import DataError, UsageError
from plackett.objectives import StochasticRank, YetiRank, objective

pytestmark = pytest.mark.kernels

SCORES, LABELS = np.array([0.3, 0.9, -0.2, 0.1, 0.6]), np.array([2, 0, 3, 1, 0])


def _ndcg(order) -> float:
    gains, discounts = 2.0**LABELS - 1, 1 / np.log2(2 + np.arange(5))
    return np.sum(gains[order] * discounts) / np.sum(np.sort(gains)[::-1] * discounts)


def test_yetirank_pairs_neighbors_of_explicit_rankings() -> None:
    rankings = np.array([[4, 1, 0, 2, 3], [0, 2, 3, 4, 1]])
    value, gradient, curvature = 0.0, np.zeros(5), np.zeros(5)
    for ranking in rankings:
        for k in range(4):
            i, j = sorted(ranking[k : k + 2], key=lambda d: -LABELS[d])
            weight = 0.5 * 0.7**k * (LABELS[i] - LABELS[j])
            p = 1 / (1 + np.exp(SCORES[i] - SCORES[j]))
            value -= weight * np.log(1 - p)
            gradient[i] -= weight * p
            gradient[j] += weight * p
            curvature[[i, j]] += weight * p * (1 - p)
    d = YetiRank(decay=0.7).evaluate(SCORES, LABELS, [0, 5], draws={"permutations": [rankings]})
    assert d.values[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(d.gradient, gradient, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(d.curvature, curvature, rtol=1e-10, atol=1e-15)


def test_yetirank_draws_rankings_by_scores_with_logistic_noise() -> None:
    # Of two documents, the better one by 1 is first with the probability that one logistic
    # variable exceeds another by less than 1; the pair counts in any case.
    loss = YetiRank(samples=3)
    d = loss.evaluate([0.0, 1.0], [1, 0], [0, 2])
    assert d.values[0] == pytest.approx(np.log1p(np.e), rel=1e-12)
    # Of three, the middle one by label differs from both others.
    steps = [loss.evaluate(np.zeros(3), [0, 1, 2], [0, 3], step=t).gradient for t in range(2000)]
    shares = -np.mean(steps, axis=0)
    # Each of the six rankings is as likely; weights 1 and 0.85 at the two places.
    expected = np.zeros(3)
    for ranking in ([0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]):
        for k in range(2):
            i, j = sorted(ranking[k : k + 2], reverse=True)
            expected[i] += 0.85**k * (i - j) / 2 / 6
            expected[j] -= 0.85**k * (i - j) / 2 / 6
    np.testing.assert_allclose(shares, expected, atol=0.02)


def test_stochasticrank_follows_its_formula() -> None:
    noise, sigma = np.array([0.5, -1.0, 0.2, 1.3, -0.4]), 0.7
    z = SCORES + sigma * noise
    gradient = np.zeros(5)
    for i in range(5):
        others = [d for d in np.argsort(-z) if d != i]
        for place, j in enumerate(others):
            # NDCG with i just above and just below j, in the ranking of the others.
            above = _ndcg(np.array([*others[:place], i, *others[place:]]))
            below = _ndcg(np.array([*others[: place + 1], i, *others[place + 1 :]]))
            x = (z[j] - SCORES[i]) / sigma
            gradient[i] -= (above - below) * np.exp(-(x**2) / 2) / (sigma * np.sqrt(2 * np.pi))
    d = StochasticRank(sigma).evaluate(SCORES, LABELS, [0, 5], draws={"noise": noise})
    assert d.values[0] == pytest.approx(-_ndcg(np.argsort(-z)), rel=1e-12)
    np.testing.assert_allclose(d.gradient, gradient - gradient.mean(), rtol=1e-9, atol=1e-12)


def test_the_mean_gradient_of_stochasticrank_is_that_of_the_mean_value() -> None:
    # Documents i and j differ by a normal variable of variance 2 sigma^2: closed form for two.
    sigma, steps = 0.8, 4000
    offsets = np.arange(0, 2 * steps + 1, 2)
    scores, labels = np.tile([0.3, 0.0], steps), np.tile([1, 0], steps)
    d = StochasticRank(sigma).evaluate(scores, labels, offsets)
    density = np.exp(-(0.3**2) / (4 * sigma**2)) / (2 * sigma * np.sqrt(np.pi))
    expected = -(1 - 1 / np.log2(3)) * density
    assert d.gradient[::2].mean() == pytest.approx(expected, rel=0.02)
    assert d.gradient[1::2].mean() == pytest.approx(-expected, rel=0.02)


def test_noise_depends_on_seed_step_and_key() -> None:
    for name in ("yetirank", "stochasticrank"):
        loss = objective(name)
        first = loss.evaluate(SCORES, LABELS, [0, 5]).gradient
        assert np.array_equal(first, loss.evaluate(SCORES, LABELS, [0, 5]).gradient)
        for options in ({"step": 1}, {"keys": [9]}):
            other = loss.evaluate(SCORES, LABELS, [0, 5], **options).gradient
            assert not np.array_equal(first, other)
        assert not np.array_equal(first, objective(name, seed=1).evaluate(SCORES, LABELS, [0, 5]).gradient)


def test_wrong_parameters_and_draws_are_refused() -> None:
    for name, parameters in (
        ("yetirank", {"samples": 0}),
        ("yetirank", {"decay": 0.0}),
        ("yetirank", {"decay": 1.1}),
        ("stochasticrank", {"sigma": 0.0}),
    ):
        with pytest.raises(UsageError):
            objective(name, **parameters)
    with pytest.raises(DataError, match="permutation"):
        YetiRank().evaluate(SCORES, LABELS, [0, 5], draws={"permutations": [[[0, 1, 1, 2, 3]]]})
    with pytest.raises(DataError, match="one per list"):
        YetiRank().evaluate(SCORES, LABELS, [0, 5], draws={"permutations": []})
    with pytest.raises(DataError, match="noise"):
        StochasticRank().evaluate(SCORES, LABELS, [0, 5], draws={"noise": [1.0]})
