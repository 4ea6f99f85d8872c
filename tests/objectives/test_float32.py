from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from plackett.objectives.float32 import fill_order
from plackett.objectives.lambdaloss import LambdaLoss
from plackett.objectives.lambdarank import LambdaRank

pytestmark = pytest.mark.kernels

SCORES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "wide": lambda rng, n: 60 * rng.normal(size=n),
    "equal": lambda _, n: np.zeros(n),
    "few values": lambda rng, n: rng.integers(0, 4, n) / 3,
    "almost equal": lambda rng, n: 1 + 1e-12 * rng.normal(size=n),
    "one outlier": lambda rng, n: np.where(np.arange(n) == n // 2, 1e6, rng.normal(size=n)),
    "tiny": lambda rng, n: 1e-300 * rng.normal(size=n),
    "huge": lambda rng, n: 1e307 * rng.uniform(-1, 1, n),
    "too far apart": lambda _, n: np.where(np.arange(n) % 2, 1.7e308, -1.7e308),
}


@pytest.mark.parametrize("kind", SCORES)
@given(n=st.integers(1, 700), seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=25)
def test_documents_are_ranked_as_by_a_stable_sort(kind, n, seed) -> None:
    scores = SCORES[kind](np.random.default_rng(seed), n)
    order = np.empty(n, np.int32)
    fill_order(scores, order)
    assert order.tolist() == np.argsort(-scores, kind="stable").tolist()


@pytest.mark.parametrize(
    "loss",
    [LambdaRank(), LambdaRank(query_norm=True), LambdaRank(truncation=4), LambdaRank(score_norm=True), LambdaLoss()],
    ids=["all pairs", "query_norm", "truncated", "score_norm", "lambdaloss"],
)
@pytest.mark.parametrize("kind", ["normal", "wide", "equal", "few values"])
@given(n=st.integers(2, 90), levels=st.integers(1, 5), seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=15)
def test_the_gradient_is_that_in_double_precision(loss, kind, n, levels, seed) -> None:
    rng = np.random.default_rng(seed)
    scores, labels = SCORES[kind](rng, n), rng.integers(0, levels, n)
    bound = loss.bind(labels, [0, n])
    exact = bound.newton(scores)
    gradient, curvature = bound.float32_gradient(scores)
    scale = max(np.abs(exact.gradient).max() + np.abs(exact.curvature).max(), 1e-3)
    atol = 1e-3 * scale if getattr(loss, "score_norm", False) else 1e-5 * scale  # divides by small differences
    np.testing.assert_allclose(gradient, exact.gradient, atol=atol)
    np.testing.assert_allclose(curvature, exact.curvature, atol=atol)
