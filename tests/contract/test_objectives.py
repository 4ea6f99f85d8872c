"""What every objective promises, alone and under stochastic scores.

An objective added to ``OBJECTIVES`` is tested here without a new line.
"""

from __future__ import annotations

import pickle

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plackett.objectives as names_for_eval
from plackett.objectives import OBJECTIVES, Objective, Stochastic, objective

pytestmark = pytest.mark.kernels

VARIANTS = (
    objective("xendcg", epsilon=0.3, order=1),
    objective("lambdarank", sigma=2.0, truncation=3, score_norm=True, query_norm=True),
    objective("lambdarank", weight="map"),
    objective("lambdarank", weight="err"),
    objective("lambdarank", weight="mrr"),
    objective("lambdaloss", scheme="ndcg1"),
    objective("lambdaloss", scheme="ndcg2"),
    objective("lambdaloss", scheme="lambdarank"),
    objective("urank", window=2),
    objective("umart", window=1),
    objective("umart", window=None, score_norm=False, hess_factor=1.0),
    objective("mle", space="sampled"),
    objective("convexloss-auc", space="sampled", samples=20),
    objective("expgain-ndcg", restarts="many", discount="standard", cutoff=3),
    objective("ranksvm", squared=True),
    objective("boltzrank", mix=0.5, samples=20),
    objective("mdprank", gamma=0.9, discount="standard"),
)
PLAIN = (*(each() for each in OBJECTIVES), *VARIANTS)
STOCHASTIC = tuple(Stochastic(each, samples=3, beta=0.7, seed=1) for each in PLAIN)
ALL = (*PLAIN, *STOCHASTIC)

every = pytest.mark.parametrize("made", ALL, ids=repr)
few = settings(max_examples=6, deadline=None)


def _lists(seed: int, *, spread: float = 1.0, levels: int = 4):
    """Ragged lists with ties in labels and, now and then, a single document or a single level."""
    rng = np.random.default_rng(seed)
    sizes = np.concatenate([[1, 2, 3], rng.integers(1, 13, size=4)])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    labels = rng.integers(0, levels, size=offsets[-1]).astype(np.float32)
    labels[offsets[2] : offsets[3]] = 1.0  # one level
    scores = spread * rng.normal(size=offsets[-1])
    return scores, labels, offsets


def _evaluate(made: Objective, scores, labels, offsets, **options):
    keys = np.arange(len(offsets) - 1, dtype=np.uint64) + np.uint64(50)
    return made.evaluate(scores, labels, offsets, **{"keys": keys, "step": 3, **options})


def _value(made: Objective, scores, labels, offsets) -> float:
    return float(np.sum(_evaluate(made, scores, labels, offsets).values))


@every
@given(seed=st.integers(0, 10_000))
@few
def test_the_gradient_is_that_of_the_value_where_declared(made, seed: int) -> None:
    if not made.exact:
        return
    scores, labels, offsets = _lists(seed)
    found = _evaluate(made, scores, labels, offsets).gradient
    h = 1e-5
    for i in np.random.default_rng(seed).permutation(len(scores))[:6]:
        # Five points: exact to h**4, so that rounding is all that is left.
        e = np.zeros(len(scores))
        e[i] = h
        near = _value(made, scores + e, labels, offsets) - _value(made, scores - e, labels, offsets)
        far = _value(made, scores + 2 * e, labels, offsets) - _value(
            made, scores - 2 * e, labels, offsets
        )
        slope = (8 * near - far) / (12 * h)
        scale = np.abs(found).max() + 1.0
        assert found[i] == pytest.approx(slope, rel=1e-5, abs=1e-6 * scale)


@every
@given(seed=st.integers(0, 10_000), spread=st.sampled_from([0.0, 0.1, 1.0, 5.0]))
@few
def test_curvature_is_never_negative_and_bounds_the_second_derivative(
    made, seed: int, spread: float
) -> None:
    scores, labels, offsets = _lists(seed, spread=spread)
    found = _evaluate(made, scores, labels, offsets)
    assert np.all(found.curvature >= 0)
    if not (made.convex and made.exact) or spread == 0.0:
        return
    h = 1e-4
    for i in np.random.default_rng(seed).permutation(len(scores))[:4]:
        e = np.zeros(len(scores))
        e[i] = h
        up = _evaluate(made, scores + e, labels, offsets).gradient[i]
        down = _evaluate(made, scores - e, labels, offsets).gradient[i]
        bend = (up - down) / (2 * h)
        if abs(bend) * h < 0.5:  # else a kink of a piecewise linear loss lies in between
            assert bend <= found.curvature[i] * (1 + 1e-3) + 1e-5


@every
@given(seed=st.integers(0, 10_000), shift=st.floats(-50, 50))
@few
def test_shifting_all_scores_changes_nothing_where_declared(made, seed: int, shift: float) -> None:
    if not made.shift_invariant:
        return
    scores, labels, offsets = _lists(seed)
    here, there = (_evaluate(made, s, labels, offsets) for s in (scores, scores + shift))
    size = np.abs(here.gradient).max() + 1.0
    np.testing.assert_allclose(there.gradient, here.gradient, atol=1e-8 * size)
    sums = np.add.reduceat(here.gradient, offsets[:-1])
    np.testing.assert_allclose(sums, 0.0, atol=1e-9 * size)


@every
@given(seed=st.integers(0, 10_000))
@few
def test_lists_do_not_see_each_other(made, seed: int) -> None:
    scores, labels, offsets = _lists(seed)
    whole = _evaluate(made, scores, labels, offsets)
    for q in range(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        part = made.evaluate(
            scores[low:high], labels[low:high], [0, high - low], step=3, keys=[50 + q]
        )
        assert np.array_equal(part.values, whole.values[q : q + 1], equal_nan=True)
        assert np.array_equal(part.gradient, whole.gradient[low:high])
        assert np.array_equal(part.curvature, whole.curvature[low:high])


@every
def test_lists_with_nothing_to_rank_give_zeros(made) -> None:
    found = _evaluate(made, [0.3, 1.0, 2.0, -1.0, 5.0], [1, 0, 0, 2, 2], np.array([0, 1, 3, 5]))
    assert np.all(found.gradient == 0)
    assert np.all(found.curvature == 0)
    assert np.all((found.values == 0) | np.isnan(found.values))


@every
def test_extreme_scores_and_labels_stay_finite(made) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 40)
    for scores in (
        np.full(40, 700.0),
        rng.choice([-700.0, 700.0], 40),
        700.0 * rng.normal(size=40).clip(-1, 1),
        np.zeros(40),
    ):
        found = _evaluate(made, scores, labels, np.array([0, 20, 40]))
        assert np.all(np.isfinite(found.gradient))
        assert np.all(np.isfinite(found.curvature))
        assert np.all(found.curvature >= 0)
    big = _evaluate(made, rng.normal(size=4), [0, 0.5, 300.0, 1e30], np.array([0, 4]))
    assert np.all(np.isfinite(big.gradient))
    assert np.all(np.isfinite(big.curvature))


@every
def test_one_and_two_threads_give_the_same_bits(made) -> None:
    scores, labels, offsets = _lists(11)
    before = numba.get_num_threads()
    try:
        results = []
        for threads in (1, min(2, numba.config.NUMBA_NUM_THREADS)):
            numba.set_num_threads(threads)
            results.append(_evaluate(made, scores, labels, offsets))
    finally:
        numba.set_num_threads(before)
    for one, two in zip(*results, strict=True):
        assert np.array_equal(one, two, equal_nan=True)


@every
def test_weights_of_lists_multiply(made) -> None:
    scores, labels, offsets = _lists(5)
    weights = np.arange(len(offsets) - 1) / 2.0
    plain = _evaluate(made, scores, labels, offsets)
    weighted = _evaluate(made, scores, labels, offsets, weights=weights)
    each = np.repeat(weights, np.diff(offsets))
    np.testing.assert_allclose(weighted.values, plain.values * weights)
    np.testing.assert_allclose(weighted.gradient, plain.gradient * each)
    np.testing.assert_allclose(weighted.curvature, plain.curvature * each)


@every
def test_objectives_are_values(made) -> None:
    assert eval(repr(made), vars(names_for_eval)) == made
    assert pickle.loads(pickle.dumps(made)) == made
    assert hash(made) == hash(pickle.loads(pickle.dumps(made)))


@every
def test_inputs_are_left_alone_and_may_be_read_only(made) -> None:
    scores, labels, offsets = _lists(2)
    copies = scores.copy(), labels.copy(), offsets.copy()
    for array in (scores, labels, offsets):
        array.flags.writeable = False
    first = _evaluate(made, scores, labels, offsets)
    second = _evaluate(made, *copies)
    assert np.array_equal(first.gradient, second.gradient)
    assert all(map(np.array_equal, copies, (scores, labels, offsets)))


@every
def test_boosting_gives_what_newton_gives(made) -> None:
    scores, labels, offsets = _lists(8)
    keys = np.arange(len(offsets) - 1, dtype=np.uint64)
    weights = np.linspace(0.5, 2.0, len(keys))
    expected = made.newton(scores, labels, offsets, 4, keys=keys, weights=weights)
    gradient, curvature = made.boosting(labels, offsets, keys, weights)(scores, 4)
    np.testing.assert_allclose(
        gradient, expected.gradient, atol=1e-5 * np.abs(expected.gradient).max() + 1e-30
    )
    np.testing.assert_allclose(
        curvature, expected.curvature, atol=1e-5 * expected.curvature.max() + 1e-30
    )
