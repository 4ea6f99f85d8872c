from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from plackett.base.errors import UsageError
from plackett.data.folds import split
from plackett.data.synthetic import synthetic
from plackett.metrics import evaluate
from plackett.models import LinearRanker, TreeRanker
from plackett.objectives import RankNet, Stochastic, custom


def pairs(scores, labels, params, gradient, curvature):
    value = 0.0
    for i in range(len(scores)):
        for j in range(len(scores)):
            if labels[i] > labels[j]:
                x = params[0] * (scores[i] - scores[j])
                value += max(-x, 0.0) + np.log1p(np.exp(-abs(x)))
                q = 1.0 / (1.0 + np.exp(min(x, 700.0)))
                gradient[i] -= params[0] * q
                gradient[j] += params[0] * q
                curvature[i] += params[0] ** 2 * q * (1.0 - q)
                curvature[j] += params[0] ** 2 * q * (1.0 - q)
    return value


PAIRS = custom(pairs, params=(2.0,), convex=True, shift_invariant=True)


def test_a_function_in_python_is_the_built_in_objective() -> None:
    rng = np.random.default_rng(0)
    scores, labels, offsets = rng.normal(size=30), rng.integers(0, 3, 30), [0, 10, 11, 30]
    ours = PAIRS.evaluate(scores, labels, offsets)
    built_in = RankNet(sigma=2.0).evaluate(scores, labels, offsets)
    for actual, expected in zip(ours, built_in, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)


def test_a_compiled_function_is_taken_too() -> None:
    loss = custom(njit(pairs), params=(2.0,))
    scores, labels = [0.0, 1.0], [1, 0]
    assert loss.evaluate(scores, labels, [0, 2]).values == pytest.approx(PAIRS.evaluate(scores, labels, [0, 2]).values)


@pytest.mark.parametrize(
    "ranker",
    [
        LinearRanker(objective=PAIRS),
        LinearRanker(objective=Stochastic(PAIRS, samples=2, beta=0.3)),
        TreeRanker(objective=PAIRS, trees=15, leaves=6, learning_rate=0.2),
        TreeRanker(objective=Stochastic(PAIRS, samples=2, beta=0.3), trees=15, leaves=6),
    ],
    ids=["linear", "linear, stochastic", "trees", "trees, stochastic"],
)
def test_it_trains_in_every_model(ranker) -> None:
    train, test = split(synthetic("letor", n_lists=100, seed=4), (0.6, 0.4))
    if isinstance(ranker, TreeRanker):
        ranker.set_params(threads=1)
    scores = ranker.fit(train).predict(test)
    nothing = evaluate(np.zeros(test.n_docs), test, "ndcg@10")["ndcg@10"]
    assert evaluate(scores, test, "ndcg@10")["ndcg@10"] > nothing + 0.05


def test_what_cannot_be_compiled_is_refused_with_the_reason() -> None:
    def opens_a_file(scores, labels, params, gradient, curvature):  # noqa: ARG001
        return open("x")

    with pytest.raises(UsageError, match=r"'opens_a_file' cannot be compiled.*takes \(scores"):
        custom(opens_a_file)
    with pytest.raises(UsageError, match="needs a function of one list, got int"):
        custom(3)


def test_a_linear_model_follows_the_gradient_of_what_is_not_exact() -> None:
    train, test = split(synthetic("letor", n_lists=60, seed=4), (0.6, 0.4))
    ranker = LinearRanker(objective=custom(pairs, params=(1.0,), exact=False), C=10.0)
    scores = ranker.fit(train, test).predict(test)
    nothing = evaluate(np.zeros(test.n_docs), test, "ndcg@10")["ndcg@10"]
    assert evaluate(scores, test, "ndcg@10")["ndcg@10"] > nothing + 0.05
    assert ranker.convergence_.solver == "adam"
