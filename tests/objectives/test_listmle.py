from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.special import logsumexp

from plackett.base.errors import DataError
from plackett.objectives.listmle import ListMLE, PListMLE
from references.autograd import hessian_diagonal, value_and_gradient
from references.plackett_luce import likelihood, top_heavy_weights
from references.random_lists import one_list

pytestmark = pytest.mark.kernels


def evaluate(objective, scores, labels, **options):
    return objective.evaluate(scores, labels, [0, len(scores)], **options)


def test_three_documents_by_hand() -> None:
    s = np.array([0.2, -0.4, 1.1])
    d = evaluate(ListMLE(), s, [1, 0, 2])
    assert d.values[0] == pytest.approx(logsumexp(s) - s[2] + logsumexp(s[:2]) - s[0], rel=1e-14)
    p, p2 = np.exp(s) / np.exp(s).sum(), np.exp(s[:2]) / np.exp(s[:2]).sum()
    assert d.gradient == pytest.approx([p[0] + p2[0] - 1, p[1] + p2[1], p[2] - 1], rel=1e-13)
    bend = p * (1 - p) + np.append(p2 * (1 - p2), 0)
    assert d.curvature == pytest.approx(bend, rel=1e-13)


@pytest.mark.parametrize("span", [599.0, 601.0, 1400.0])
def test_scores_far_apart_follow_the_same_formula(span) -> None:
    s = np.array([0.0, span, 0.3 * span, span - 2.0])
    d = evaluate(ListMLE(), s, [3, 2, 1, 0])
    expected = [logsumexp(s) - s[0], logsumexp(s[1:]) - s[1], logsumexp(s[2:]) - s[2]]
    assert d.values[0] == pytest.approx(sum(expected), rel=1e-14)
    p, p2 = np.exp(s - logsumexp(s)), np.exp(s[1:] - logsumexp(s[1:]))
    gradient = p + np.append(0, p2) + [0, 0, 0, 1] - [1, 1, 1, 0]
    assert d.gradient == pytest.approx(gradient, rel=1e-12, abs=1e-12)


def test_position_weights_put_three_quarters_on_the_first_of_three() -> None:
    s = np.array([0.2, -0.4, 1.1])
    d = evaluate(PListMLE(), s, [1, 0, 2])
    # (2^2 - 1, 2^1 - 1, 2^0 - 1) / 4
    expected = 0.75 * (logsumexp(s) - s[2]) + 0.25 * (logsumexp(s[:2]) - s[0])
    assert d.values[0] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("objective", [ListMLE(), PListMLE()])
@given(case=one_list(), shuffle=st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=60)
def test_all_derivatives_agree_with_autograd(objective, case, shuffle) -> None:
    scores, labels = case
    n = len(scores)
    order = list(range(n))
    shuffle.shuffle(order)
    weights = np.ones(n) if objective == ListMLE() else top_heavy_weights(n)
    given_order = {"order": order, "weights": weights}
    d = evaluate(objective, scores, labels, draws={"order": order})
    value, gradient = value_and_gradient(likelihood, scores, labels, **given_order)
    diagonal = hessian_diagonal(likelihood, scores, labels, **given_order)
    assert d.values[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(d.gradient, gradient, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(d.curvature, diagonal, rtol=1e-8, atol=1e-12)


def test_equal_labels_come_in_every_order_equally_often() -> None:
    # The value tells the six orders of three tied documents apart.
    scores, labels = np.array([0.0, 1.0, 3.0, 0.5]), np.array([1.0, 1.0, 1.0, 0.0])
    possible = {
        round(evaluate(ListMLE(), scores, labels, draws={"order": [*p, 3]}).values[0], 9): 0
        for p in permutations(range(3))
    }
    n = 6000  # copies of the list, which differ in their keys
    d = ListMLE().evaluate(np.tile(scores, n), np.tile(labels, n), 4 * np.arange(n + 1))
    for value in d.values:
        possible[round(value, 9)] += 1
    assert len(possible) == 6
    spread = np.sqrt(n * (1 / 6) * (5 / 6))
    assert all(abs(count - n / 6) < 5 * spread for count in possible.values())


def test_higher_labels_come_first_whatever_the_step() -> None:
    scores, labels = np.array([0.0, 1.0, 3.0, -2.0]), np.array([0.0, 2.5, 1.0, 7.0])
    expected = evaluate(ListMLE(), scores, labels, draws={"order": [3, 1, 2, 0]}).values[0]
    for step in range(5):
        assert evaluate(ListMLE(), scores, labels, step=step).values[0] == expected


def test_orders_of_ties_depend_on_seed_step_and_key_only() -> None:
    rng = np.random.default_rng(3)
    scores, labels = rng.normal(size=20), rng.integers(0, 2, 20)
    base = evaluate(ListMLE(seed=1), scores, labels, step=2, keys=[7]).values[0]
    assert base == evaluate(ListMLE(seed=1), scores, labels, step=2, keys=[7]).values[0]
    for other in (
        evaluate(ListMLE(seed=2), scores, labels, step=2, keys=[7]),
        evaluate(ListMLE(seed=1), scores, labels, step=3, keys=[7]),
        evaluate(ListMLE(seed=1), scores, labels, step=2, keys=[8]),
    ):
        assert other.values[0] != base


@pytest.mark.parametrize("objective", [ListMLE(), PListMLE()])
def test_far_scores_and_long_lists_stay_finite(objective) -> None:
    d = evaluate(objective, [700.0, -700.0, 0.0], [0, 1, 2])
    assert all(np.all(np.isfinite(part)) for part in d)
    rng = np.random.default_rng(0)
    d = evaluate(objective, 300 * rng.normal(size=3000), rng.integers(0, 5, 3000))
    assert all(np.all(np.isfinite(part)) for part in d)
    assert np.all(d.curvature >= 0)
    assert d.gradient.sum() == pytest.approx(0, abs=1e-9)


def test_curvature_keeps_its_digits_where_probabilities_are_nearly_one() -> None:
    # p (1 - p) with 1 - p = e^-40 / (1 + e^-40), far below the last bit of 1.
    d = evaluate(ListMLE(), [40.0, 0.0], [1, 0])
    tail = np.exp(-40) / (1 + np.exp(-40))
    assert d.curvature == pytest.approx([tail, tail], rel=1e-12)
    assert d.gradient == pytest.approx([-tail, tail], rel=1e-12)


@pytest.mark.parametrize("order", [[0, 1], [0, 0, 1], [1, 2, 3]])
def test_an_order_that_is_no_permutation_is_refused(order) -> None:
    with pytest.raises(DataError, match=r"draws\['order'\]"):
        evaluate(ListMLE(), [0.0, 1.0, 2.0], [0, 1, 2], draws={"order": order})


def test_orders_are_counted_within_each_list() -> None:
    scores, labels = np.array([0.3, 1.0, -1.0, 0.5, 0.1]), np.array([1.0, 0, 0, 2, 1])
    both = ListMLE().evaluate(scores, labels, [0, 2, 5], draws={"order": [1, 0, 2, 0, 1]})
    first = evaluate(ListMLE(), scores[:2], labels[:2], draws={"order": [1, 0]})
    second = evaluate(ListMLE(), scores[2:], labels[2:], draws={"order": [2, 0, 1]})
    assert list(both.values) == [first.values[0], second.values[0]]
    assert list(both.gradient) == [*first.gradient, *second.gradient]


def test_grades_and_other_labels_of_the_same_order_are_shuffled_alike() -> None:
    rng = np.random.default_rng(11)
    scores, grades = rng.normal(size=200), rng.integers(0, 5, 200)
    by_counting = evaluate(ListMLE(seed=2), scores, grades, step=4)
    for labels in (grades + 0.5, 100.0 * grades):
        by_comparing = evaluate(ListMLE(seed=2), scores, labels, step=4)
        assert all(map(np.array_equal, by_counting, by_comparing))


@pytest.mark.parametrize("top", [31, 32])
def test_grades_up_to_the_last_that_is_counted_are_ranked_like_any_other(top) -> None:
    scores, labels = np.array([0.2, -0.4, 1.1, 0.6]), [top, 0, top - 1, 1]
    given_order = evaluate(ListMLE(), scores, labels, draws={"order": [0, 2, 3, 1]})
    assert all(map(np.array_equal, evaluate(ListMLE(), scores, labels), given_order))
