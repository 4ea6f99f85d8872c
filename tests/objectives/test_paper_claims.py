"""What the papers prove of their losses, as properties."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.special import gamma as gamma_function, softmax

from plackett.base.random import noise_state, perturb
from plackett.metrics import metric
from plackett.objectives import XENDCG, CrossEntropy, LambdaRank, Stochastic

pytestmark = pytest.mark.kernels


def _lists(seed: int, n_lists: int = 20):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 30, size=n_lists)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    labels = rng.integers(0, 5, size=offsets[-1]).astype(np.float32)
    scores = rng.normal(size=offsets[-1]) * rng.choice([0.1, 1.0, 10.0])
    return np.round(scores, 1), labels, offsets, rng


@given(seed=st.integers(0, 100_000))
@settings(max_examples=100, deadline=None)
def test_mean_xendcg_bounds_minus_the_log_of_mean_ndcg(seed: int) -> None:
    # Bruch 2021, Theorem 1, with the term the proof carries along: the mean of 1 / IDCG.
    scores, labels, offsets, rng = _lists(seed)
    ndcg = metric("ndcg")(scores, labels, offsets)
    dcg = metric("dcg")(scores, labels, offsets)
    counted = np.isfinite(ndcg) & (ndcg > 0)
    several = np.array([len(np.unique(labels[a:b])) > 1 for a, b in pairwise(offsets)])
    counted &= several  # lists of one level have no loss here
    if not counted.any():
        return
    loss = XENDCG().evaluate(scores, labels, offsets, draws={"gamma": rng.random(len(scores))}).values
    ideal = dcg[counted] / ndcg[counted]
    bound = -np.log(np.mean(ndcg[counted]) + np.mean(1 / ideal))
    assert np.mean(loss[counted]) >= bound


@given(seed=st.integers(0, 100_000))
@settings(max_examples=50, deadline=None)
def test_xendcg_is_2_lipschitz_and_lambdarank_sigma_m_squared(seed: int) -> None:
    # Bruch 2021, Proposition 1 and Claim 2: the constant is the 1-norm of a list's gradient.
    scores, labels, offsets, _ = _lists(seed)
    sizes = np.diff(offsets)
    slopes = np.abs(XENDCG().evaluate(scores, labels, offsets).gradient)
    assert np.all(np.add.reduceat(slopes, offsets[:-1]) <= 2 + 1e-12)
    slopes = np.abs(LambdaRank(sigma=2.0).evaluate(scores, labels, offsets).gradient)
    assert np.all(np.add.reduceat(slopes, offsets[:-1]) <= 2.0 * sizes**2)


def test_the_best_document_under_gumbel_noise_follows_the_softmax() -> None:
    # Bruch et al. 2020, section 4: the argmax of s + beta G is drawn from the softmax of s / beta.
    scores, beta, n = np.array([0.5, -0.3, 1.2, 0.0]), 0.7, 40_000
    actual, z = np.zeros(4), np.empty(4)
    for sample in range(n):
        perturb(scores, np.uint64(noise_state(np.uint64(9), sample)), beta, z)
        actual[np.argmax(z)] += 1
    expected = n * softmax(scores / beta)
    # Chi-square with 3 degrees of freedom: 16.3 is its 0.1 % point.
    assert np.sum((actual - expected) ** 2 / expected) < 16.3


@pytest.mark.parametrize("beta", [0.1, 0.25, 0.5])
def test_noise_moves_the_cross_entropy_by_no_more_than_a_constant(beta: float) -> None:
    # Bruch et al. 2020, equations 12 to 14: CE(s) <= E[CE(s + G)] + E-terms <= CE(s) + log E[e^G],
    # with E[e^(beta G)] = Gamma(1 - beta). Convexity gives the lower end.
    scores, labels, offsets, _ = _lists(3, n_lists=200)
    plain = CrossEntropy().evaluate(scores, labels, offsets).values.mean()
    noisy = Stochastic(CrossEntropy(), samples=300, beta=beta, seed=5)
    mean = noisy.evaluate(scores, labels, offsets).values.mean()
    noise = 0.05  # of the mean over 200 lists x 300 samples, with room
    assert plain - noise <= mean <= plain + np.log(gamma_function(1 - beta)) + noise


def test_stochastic_gradients_of_the_cross_entropy_point_the_same_way() -> None:
    scores, labels, offsets, _ = _lists(4, n_lists=100)
    plain = CrossEntropy().evaluate(scores, labels, offsets).gradient
    noisy = Stochastic(CrossEntropy(), samples=100, beta=0.25).evaluate(scores, labels, offsets)
    cosine = plain @ noisy.gradient / np.linalg.norm(plain) / np.linalg.norm(noisy.gradient)
    assert cosine > 0.99
