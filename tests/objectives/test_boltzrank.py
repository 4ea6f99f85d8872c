from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from plackett.base.errors import DataError, UsageError
from plackett.objectives.sampled import BoltzRank
from references.autograd import hessian_diagonal, value_and_gradient
from references.boltzrank import boltzrank, ndcg
from references.random_lists import one_list

pytestmark = pytest.mark.kernels


def evaluate(objective, scores, labels, **options):
    return objective.evaluate(scores, labels, [0, len(scores)], **options)


def test_two_documents_by_hand() -> None:
    # Two rankings, 2/(2*1) = 1: energies -/+ (s_0 - s_1); NDCG 1 and 1/log2(3).
    d = evaluate(BoltzRank(), [0.3, 0.1], [1, 0], draws={"permutations": [[[0, 1], [1, 0]]]})
    p = 1 / (1 + np.exp(-2 * 0.2))
    assert d.values[0] == pytest.approx(-(p + (1 - p) / np.log2(3)), rel=1e-13)
    slope = 2 * p * (1 - p) * (1 - 1 / np.log2(3))
    assert d.gradient == pytest.approx([-slope, slope], rel=1e-12)


@pytest.mark.parametrize("mix", [1.0, 0.4, 0.0])
@given(case=one_list(longest=6), data=st.data())
@settings(deadline=None, max_examples=30)
def test_value_and_gradient_agree_with_autograd_and_curvature_bounds(mix, case, data) -> None:
    scores, labels = case
    rankings = data.draw(st.lists(st.permutations(range(len(scores))), min_size=1, max_size=8), label="rankings")
    d = evaluate(BoltzRank(mix=mix), scores, labels, draws={"permutations": [rankings]})
    parameters = {"permutations": rankings, "mix": mix}
    value, gradient = value_and_gradient(boltzrank, scores, labels, **parameters)
    diagonal = hessian_diagonal(boltzrank, scores, labels, **parameters)
    assert d.values[0] == pytest.approx(value, rel=1e-12, abs=1e-13)
    np.testing.assert_allclose(d.gradient, gradient, rtol=1e-8, atol=1e-12)
    assert np.all(d.curvature >= diagonal - 1e-12)
    if mix == 0.0:
        floored = np.maximum(diagonal, 1e-6 * diagonal.mean())
        np.testing.assert_allclose(d.curvature, floored, rtol=1e-8, atol=1e-12)


def test_over_all_rankings_large_scores_in_order_reach_ndcg_one() -> None:
    labels = np.array([0.0, 2.0, 1.0, 1.0])
    everything = [list(permutations(range(4)))]
    d = evaluate(BoltzRank(), 300 * labels, labels, draws={"permutations": everything})
    assert d.values[0] == pytest.approx(-1, rel=1e-12)


def test_the_set_holds_the_ideal_ranking() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 15)
    lonely = BoltzRank(samples=1)  # the ideal ranking and nothing else
    assert evaluate(lonely, rng.normal(size=15), labels).values[0] == pytest.approx(-1, rel=1e-12)


def test_the_set_mixes_good_and_bad_rankings() -> None:
    labels = np.array([0.0, 0, 0, 0, 1, 1, 2, 3])
    stored = BoltzRank(samples=200).bind(labels, [0, 8]).prepared.values
    quality = stored[1 : 1 + 200]
    assert quality[0] == pytest.approx(1, rel=1e-12)
    worst = ndcg(labels, np.arange(8))
    assert np.all(quality >= worst - 1e-12)
    assert quality.min() < 0.7 < quality.mean() < 1


def test_the_set_depends_on_seed_and_key_but_not_on_the_step() -> None:
    rng = np.random.default_rng(3)
    scores, labels = rng.normal(size=20), rng.integers(0, 3, 20)
    base = evaluate(BoltzRank(seed=1), scores, labels, step=2, keys=[7]).values[0]
    assert base == evaluate(BoltzRank(seed=1), scores, labels, step=9, keys=[7]).values[0]
    assert base != evaluate(BoltzRank(seed=2), scores, labels, keys=[7]).values[0]
    assert base != evaluate(BoltzRank(seed=1), scores, labels, keys=[8]).values[0]


def test_lists_do_not_see_each_other() -> None:
    rng = np.random.default_rng(4)
    scores, labels = rng.normal(size=13), rng.integers(0, 3, 13)
    offsets, keys = [0, 5, 5, 6, 13], [3, 1, 4, 15]
    whole = BoltzRank().evaluate(scores, labels, offsets, keys=keys)
    for q in range(4):
        part = slice(offsets[q], offsets[q + 1])
        alone = BoltzRank().evaluate(scores[part], labels[part], [0, offsets[q + 1] - offsets[q]], keys=[keys[q]])
        assert alone.values[0] == whole.values[q]
        assert np.array_equal(alone.gradient, whole.gradient[part])
        assert np.array_equal(alone.curvature, whole.curvature[part])


@pytest.mark.parametrize("wrong", [[], [[[0, 1]]], [[[0, 1, 1]]], [[[0, 1, 2]], [[0, 1, 2]]]])
def test_sets_that_are_not_permutations_are_refused(wrong) -> None:
    with pytest.raises(DataError, match="permutation"):
        evaluate(BoltzRank(), [0.0, 1.0, 2.0], [0, 1, 2], draws={"permutations": wrong})


def test_parameters_out_of_range_are_refused() -> None:
    with pytest.raises(UsageError, match="mix between 0 and 1"):
        BoltzRank(mix=2.0)
    with pytest.raises(UsageError, match="samples"):
        BoltzRank(samples=0)
