"""What every objective promises, alone and under stochastic scores.

An objective added to ``OBJECTIVES`` is tested here without a new line. Tests whose lists differ in
shape, ties or levels run again with bounds checks; the others would reach the same indices.
"""

from __future__ import annotations

import pickle

import numba
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import plackett.objectives as names_for_eval
from objective_cases import (
    ALL,
    assert_curvature_bounds_the_hessian,
    assert_gradient_is_exact,
    each,
    evaluate,
    random_lists,
)

every = each(ALL)
few = settings(max_examples=6, deadline=None)


def pick(scores, seed: int, count: int):
    """A few documents to check."""
    return np.random.default_rng(seed).permutation(len(scores))[:count]


@each(loss for loss in ALL if loss.exact)
@given(seed=st.integers(0, 10_000))
@few
def test_the_gradient_is_that_of_the_value_where_declared(loss, seed: int) -> None:
    lists = random_lists(seed)
    assert_gradient_is_exact(loss, *lists, documents=pick(lists[0], seed, 4))


@pytest.mark.kernels
@each(loss for loss in ALL if loss.exact)
def test_the_gradient_of_a_long_list_is_that_of_the_value_where_declared(loss) -> None:
    rng = np.random.default_rng(0)
    scores, labels, direction = rng.normal(size=50), rng.integers(0, 3, 50), rng.normal(size=50)
    bound = loss.bind(labels, [0, 50])
    high, low = (bound.evaluate(scores + h * direction, 3).values[0] for h in (1e-6, -1e-6))
    slope = bound.evaluate(scores, 3).gradient @ direction
    assert slope == pytest.approx((high - low) / 2e-6, rel=1e-4, abs=1e-6)


@pytest.mark.kernels
@every
@given(seed=st.integers(0, 10_000), spread=st.sampled_from([0.0, 0.1, 1.0, 5.0]))
@few
def test_curvature_is_never_negative(loss, seed: int, spread: float) -> None:
    assert np.all(evaluate(loss, *random_lists(seed, spread=spread)).curvature >= 0)


@each(loss for loss in ALL if loss.convex and loss.exact)
@given(seed=st.integers(0, 10_000), spread=st.sampled_from([0.1, 1.0, 5.0]))
@few
def test_curvature_bounds_the_second_derivative_where_convex(loss, seed: int, spread: float) -> None:
    lists = random_lists(seed, spread=spread)
    documents = pick(lists[0], seed, 4)
    assert_curvature_bounds_the_hessian(loss, *lists, documents=documents)


@each(loss for loss in ALL if loss.shift_invariant)
@given(seed=st.integers(0, 10_000), shift=st.floats(-50, 50))
@few
def test_shifting_all_scores_changes_nothing_where_declared(loss, seed: int, shift: float) -> None:
    scores, labels, offsets = random_lists(seed)
    here, there = (evaluate(loss, s, labels, offsets) for s in (scores, scores + shift))
    size = np.abs(here.gradient).max() + 1.0
    np.testing.assert_allclose(there.gradient, here.gradient, atol=1e-8 * size)
    sums = np.add.reduceat(here.gradient, offsets[:-1])
    np.testing.assert_allclose(sums, 0.0, atol=1e-9 * size)


@pytest.mark.kernels
@every
@given(seed=st.integers(0, 10_000))
@few
def test_lists_do_not_see_each_other(loss, seed: int) -> None:
    scores, labels, offsets = random_lists(seed)
    whole = evaluate(loss, scores, labels, offsets)
    for q in range(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        part = evaluate(loss, scores[low:high], labels[low:high], np.array([0, high - low]), keys=[50 + q])
        assert np.array_equal(part.values, whole.values[q : q + 1], equal_nan=True)
        assert np.array_equal(part.gradient, whole.gradient[low:high])
        assert np.array_equal(part.curvature, whole.curvature[low:high])


@pytest.mark.kernels
@every
def test_lists_with_nothing_to_rank_give_zeros(loss) -> None:
    result = evaluate(loss, [0.3, 1.0, 2.0, -1.0, 5.0], [1, 0, 0, 2, 2], np.array([0, 1, 3, 5]))
    assert np.all(result.gradient == 0)
    assert np.all(result.curvature == 0)
    assert np.all((result.values == 0) | np.isnan(result.values))


@pytest.mark.kernels
@every
def test_extreme_scores_and_labels_stay_finite(loss) -> None:
    rng = np.random.default_rng(0)
    scores = (
        np.full(40, 700.0),
        rng.choice([-700.0, -699.9, 0.0, 700.0], 40),
        700.0 * rng.normal(size=40).clip(-1, 1),
        np.zeros(40),
    )
    for labels in (rng.integers(0, 3, 40), rng.choice([0, 0.5, 5, 700, 1e30], 40)):
        for s in scores:
            result = evaluate(loss, s, labels, np.array([0, 20, 40]))
            assert np.all(np.isfinite(result.gradient))
            assert np.all(np.isfinite(result.curvature))
            assert np.all(result.curvature >= 0)
            assert not np.any(np.isinf(result.values))
            size = 1.0 + np.abs(result.gradient).max()
            if loss.shift_invariant and size < 1e100:  # RankBoost saturates beyond
                np.testing.assert_allclose(np.add.reduceat(result.gradient, [0, 20]), 0.0, atol=1e-9 * size)


@every
def test_one_and_two_threads_give_the_same_bits(loss) -> None:
    scores, labels, offsets = random_lists(11)
    before = numba.get_num_threads()
    try:
        results = []
        for threads in (1, min(2, numba.config.NUMBA_NUM_THREADS)):
            numba.set_num_threads(threads)
            results.append(evaluate(loss, scores, labels, offsets))
    finally:
        numba.set_num_threads(before)
    for one, two in zip(*results, strict=True):
        assert np.array_equal(one, two, equal_nan=True)


@every
def test_weights_of_lists_multiply(loss) -> None:
    scores, labels, offsets = random_lists(5)
    weights = np.arange(len(offsets) - 1) / 2.0
    plain = evaluate(loss, scores, labels, offsets)
    weighted = evaluate(loss, scores, labels, offsets, weights=weights)
    factors = np.repeat(weights, np.diff(offsets))
    np.testing.assert_allclose(weighted.values, plain.values * weights)
    np.testing.assert_allclose(weighted.gradient, plain.gradient * factors)
    np.testing.assert_allclose(weighted.curvature, plain.curvature * factors)


@every
def test_objectives_are_values(loss) -> None:
    assert eval(repr(loss), vars(names_for_eval)) == loss
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert hash(loss) == hash(pickle.loads(pickle.dumps(loss)))


@every
def test_inputs_are_left_alone_and_may_be_read_only(loss) -> None:
    scores, labels, offsets = random_lists(2)
    copies = scores.copy(), labels.copy(), offsets.copy()
    for array in (scores, labels, offsets):
        array.flags.writeable = False
    first = evaluate(loss, scores, labels, offsets)
    second = evaluate(loss, *copies)
    assert np.array_equal(first.gradient, second.gradient)
    assert all(map(np.array_equal, copies, (scores, labels, offsets)))


@pytest.mark.kernels
@every
def test_the_float32_gradient_is_that_of_newton(loss) -> None:
    scores, labels, offsets = random_lists(8)
    keys = np.arange(len(offsets) - 1, dtype=np.uint64)
    weights = np.linspace(0.5, 2.0, len(keys))
    expected = loss.newton(scores, labels, offsets, 4, keys=keys, weights=weights)
    gradient, curvature = loss.bind(labels, offsets, keys, weights).float32_gradient(scores, 4)
    np.testing.assert_allclose(gradient, expected.gradient, atol=1e-5 * np.abs(expected.gradient).max() + 1e-30)
    np.testing.assert_allclose(curvature, expected.curvature, atol=1e-5 * expected.curvature.max() + 1e-30)
