from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from plackett.base.errors import DataError, UsageError
from plackett.objectives.hinge import SVMMAP, most_violated
from references.autograd import value_and_gradient
from references.margins import average_precision, svmmap
from references.random_lists import one_list

pytestmark = pytest.mark.kernels


def evaluate(objective, scores, labels):
    return objective.evaluate(scores, labels, [0, len(scores)])


def test_one_good_one_bad_is_a_hinge() -> None:
    # Swapped, average precision loses 1/2 and the margin is twice the gap: max(0, 1/2 - 2 gap).
    for gap in (-1.0, 0.1, 0.3):
        d = evaluate(SVMMAP(), [gap, 0.0], [1, 0])
        assert d.values[0] == pytest.approx(max(0.0, 0.5 - 2 * gap), abs=1e-15)
        active = 0.5 - 2 * gap > 0
        assert list(d.gradient) == ([-2.0, 2.0] if active else [0.0, 0.0])


@pytest.mark.parametrize("scale", [None, 0.05, 1.0])
@given(case=one_list(longest=6))
@settings(deadline=None, max_examples=25)
def test_inference_equals_the_maximum_over_all_rankings(scale, case) -> None:
    scores, labels = case
    d = evaluate(SVMMAP(scale=scale), scores, labels)
    if np.all(labels > 0):
        assert d.values[0] == 0.0
        return
    value, _ = value_and_gradient(svmmap, scores, labels, scale=scale)
    assert d.values[0] == pytest.approx(value, rel=1e-10, abs=1e-13)


@pytest.mark.parametrize("seed", range(8))
def test_gradient_agrees_with_autograd_where_the_maximum_is_unique(seed) -> None:
    rng = np.random.default_rng(seed)
    scores, labels = 0.3 * rng.normal(size=6), rng.permutation([0, 0, 0, 1, 1, 2])
    _, gradient = value_and_gradient(svmmap, scores, labels, scale=None)
    d = evaluate(SVMMAP(), scores, labels)
    np.testing.assert_allclose(d.gradient, gradient, rtol=1e-10, atol=1e-13)


@given(case=one_list(longest=12, distinct=True))
@settings(deadline=None, max_examples=80)
def test_the_value_bounds_the_loss_of_the_ranking_by_scores(case) -> None:
    scores, labels = case
    relevant = labels[np.argsort(-scores)] > 0
    d = evaluate(SVMMAP(), scores, labels)
    if not np.all(relevant):
        assert d.values[0] >= 1 - average_precision(relevant) - 1e-12


@given(first=one_list(longest=10), weight=st.floats(0, 1))
@settings(deadline=None, max_examples=60)
def test_values_on_a_segment_stay_below_the_chord(first, weight) -> None:
    scores, labels = first
    other = np.random.default_rng(0).normal(size=len(scores))
    middle = evaluate(SVMMAP(), weight * scores + (1 - weight) * other, labels).values[0]
    ends = [evaluate(SVMMAP(), s, labels).values[0] for s in (scores, other)]
    assert middle <= weight * ends[0] + (1 - weight) * ends[1] + 1e-12


def test_curvature_lets_a_newton_step_cover_one_gap_at_most() -> None:
    rng = np.random.default_rng(2)
    scores, labels = rng.normal(size=40), rng.integers(0, 2, 40)
    for scale in (None, 1.0, 1e-3):
        d = evaluate(SVMMAP(scale=scale), scores, labels)
        n_pairs = labels.sum() * (40 - labels.sum())
        gap = 0.5 / (n_pairs * (1 / n_pairs if scale is None else scale))
        moved = d.curvature > 0
        assert np.any(moved)
        assert np.abs(d.gradient[moved] / d.curvature[moved]) == pytest.approx(gap, rel=1e-12)
        assert not np.any(d.gradient[~moved])


def test_most_violated_says_how_many_goods_stand_above_each_bad() -> None:
    # Bads by score: documents 1 and 3. With a small scale the loss decides: all bads on top.
    worst = most_violated([0.0, 1.0, 0.5, -1.0], [1, 0, 1, 0], scale=1e-9)
    assert worst.goods_above.tolist() == [0, 0]
    # The worst ranking has precisions 1/3 and 2/4.
    assert worst.value == pytest.approx(1 - (1 / 3 + 2 / 4) / 2, abs=1e-7)
    # With goods far ahead nothing is violated: both goods stand above both bads.
    fine = most_violated([5.0, 0.0, 5.0, 0.0], [1, 0, 1, 0])
    assert fine.value == 0.0
    assert fine.goods_above.tolist() == [2, 2]


def test_lists_without_goods_or_bads_violate_nothing() -> None:
    assert most_violated([1.0, 2.0], [1, 2]).value == 0.0
    assert most_violated([1.0, 2.0], [0, 0]).goods_above.tolist() == [0, 0]


def test_wrong_scales_and_shapes_are_refused() -> None:
    with pytest.raises(UsageError, match="scale > 0"):
        SVMMAP(scale=0.0)
    with pytest.raises(UsageError, match="scale > 0"):
        most_violated([0.0, 1.0], [0, 1], scale=-1.0)
    with pytest.raises(DataError, match="must match"):
        most_violated([0.0, 1.0], [0, 1, 1])
