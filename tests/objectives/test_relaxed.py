from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings

from plackett import metric
from plackett.base.errors import UsageError
from plackett.objectives import objective
from references import relaxed
from references.autograd import value_and_gradient
from references.random_lists import one_list

pytestmark = pytest.mark.kernels

CASES = [
    (relaxed.pirank, "pirank", {}),
    (relaxed.pirank, "pirank", {"tau": 0.5, "cutoff": 2}),
    (relaxed.softsort, "softsort", {}),
    (relaxed.softsort, "softsort", {"tau": 2.0, "cutoff": 3}),
    (relaxed.neuralndcg, "neuralndcg", {}),
    (relaxed.neuralndcg, "neuralndcg", {"tau": 0.7, "cutoff": 2, "rounds": 4}),
]
SCORES, LABELS = [0.3, 0.9, -0.2, 0.1, 0.6], [2, 0, 3, 1, 0]


def evaluate(loss, scores, labels):
    return loss.evaluate(scores, labels, [0, len(scores)])


@pytest.mark.parametrize(("reference", "name", "parameters"), CASES)
@given(case=one_list(distinct=True))
@settings(deadline=None, max_examples=30)
def test_value_and_gradient_agree_with_autograd(reference, name, parameters, case) -> None:
    scores, labels = case
    d = evaluate(objective(name, **parameters), scores, labels)
    value, gradient = value_and_gradient(reference, scores, labels, **parameters)
    assert d.values[0] == pytest.approx(value, rel=1e-7)
    np.testing.assert_allclose(d.gradient, gradient, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["pirank", "softsort", "neuralndcg"])
def test_a_low_temperature_gives_minus_the_metric(name: str) -> None:
    for cutoff in (None, 3):
        expected = metric("ndcg" if cutoff is None else f"ndcg@{cutoff}")(SCORES, LABELS, [0, 5])
        d = evaluate(objective(name, tau=1e-3, cutoff=cutoff), SCORES, LABELS)
        assert d.values[0] == pytest.approx(-expected[0], rel=1e-6)


def test_sinkhorn_scaling_gives_each_document_one_rank() -> None:
    # With the same gain for all but one document and no discount beyond the first rank, the value
    # shows the first row; rows and columns of the scaled matrix sum to one.
    rng = np.random.default_rng(0)
    scores = rng.normal(size=6)
    firsts = [
        -evaluate(objective("neuralndcg", cutoff=1, rounds=200), scores, np.eye(6)[j]).values[0] for j in range(6)
    ]
    assert sum(firsts) == pytest.approx(1.0, abs=1e-6)


@given(case=one_list(distinct=True, longest=4))  # the reference looks at all permutations
@settings(max_examples=25)
def test_fast_soft_ranks_are_the_nearest_ones_of_the_permutahedron(case) -> None:
    scores, labels = case
    for epsilon in (1.0, 0.2):
        ranks = relaxed.soft_ranks(scores, epsilon)
        gains = 2.0 ** np.array(labels) - 1
        discounts = 1 / np.log2(2 + np.arange(len(labels)))
        ideal = np.sum(np.sort(gains)[::-1] * discounts)
        d = evaluate(objective("fastsoftrank", epsilon=epsilon), scores, labels)
        expected = -np.sum(gains / np.log2(1 + ranks)) / ideal
        assert d.values[0] == pytest.approx(expected, abs=1e-5)


def test_fast_soft_ranks_of_distant_scores_are_ranks() -> None:
    d = evaluate(objective("fastsoftrank", epsilon=1e-3), SCORES, LABELS)
    assert d.values[0] == pytest.approx(-metric("ndcg")(SCORES, LABELS, [0, 5])[0], rel=1e-9)
    assert not np.any(d.gradient)


@pytest.mark.parametrize("name", ["pirank", "softsort", "neuralndcg", "fastsoftrank"])
def test_equal_scores_have_a_gradient_that_prefers_the_best_document(name: str) -> None:
    d = evaluate(objective(name), np.zeros(4), [0, 2, 0, 0])
    assert d.gradient[1] < 0
    assert np.argmin(d.gradient) == 1
    assert d.gradient.sum() == pytest.approx(0.0, abs=1e-12)


def test_softsort_takes_the_mean_over_the_orders_of_equal_scores() -> None:
    scores, labels = np.array([0.5, 0.2, 0.2, -0.3, 0.2]), [0, 2, 1, 1, 0]
    d = evaluate(objective("softsort"), scores, labels)
    orders = []
    for order in permutations([-1e-9, 0.0, 1e-9]):
        moved = scores.copy()
        moved[[1, 2, 4]] += order
        orders.append(evaluate(objective("softsort"), moved, labels).gradient)
    np.testing.assert_allclose(d.gradient, np.mean(orders, axis=0), atol=1e-8)


def test_parameters_out_of_range_are_refused() -> None:
    for name, parameters in (
        ("pirank", {"tau": 0.0}),
        ("softsort", {"cutoff": 0}),
        ("neuralndcg", {"rounds": -1}),
        ("fastsoftrank", {"epsilon": 0.0}),
    ):
        with pytest.raises(UsageError):
            objective(name, **parameters)
