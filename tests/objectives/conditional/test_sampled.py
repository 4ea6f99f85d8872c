"""The conditional models over sampled rankings, against plain sums over the same rankings."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from plackett.base.errors import DataError, UsageError
from plackett.objectives import CONDITIONAL, MLE, ConvexLossMAP, ConvexLossNDCG, ExpGainNDCG
from references.autograd import as_tensor, hessian_diagonal, value_and_gradient
from references.conditional import conditional, gain_of_ranking, valid_rankings

pytestmark = pytest.mark.kernels

BY_NAME = {each.name: each for each in CONDITIONAL}
SAMPLED = [each(space="sampled", cutoff=2) if each is not MLE else each(space="sampled") for each in CONDITIONAL]
VALID = {size: valid_rankings(*size) for size in [(1, 1), (1, 3), (2, 2), (3, 1), (2, 3)]}


def evaluate(objective, scores, labels, **options):
    return objective.evaluate(scores, labels, [0, len(scores)], **options)


@st.composite
def list_with_rankings(draw):
    """Scores, labels, and some of the valid rankings with the ideal one among them."""
    n_goods, n_bads = draw(st.sampled_from(sorted(VALID)))
    n = n_goods + n_bads
    labels = draw(st.permutations([1.0, 2.0, 0.5][:n_goods] + [0.0] * n_bads))
    steps = draw(st.lists(st.integers(-6, 6), min_size=n, max_size=n))
    scale = draw(st.sampled_from([0.25, 0.7, 0.03]))
    others = draw(st.lists(st.sampled_from(VALID[n_goods, n_bads]), max_size=8))
    rankings = [np.ones((n_goods, n_bads), dtype=int), *others]
    return scale * np.array(steps, dtype=np.float64), np.array(labels), rankings


def reference_of(objective, rankings):
    loss, _, gain = objective.name.partition("-")
    gains = [gain_of_ranking(y, gain or "auc", cutoff=2) for y in rankings]
    return {"kind": loss, "rankings": rankings, "gains": gains}


@pytest.mark.parametrize("objective", SAMPLED, ids=lambda o: o.name)
@given(case=list_with_rankings())
@settings(deadline=None, max_examples=15)
def test_all_derivatives_agree_with_plain_sums_over_the_rankings(objective, case) -> None:
    scores, labels, rankings = case
    d = evaluate(objective, scores, labels, draws={"rankings": [rankings]})
    sums = reference_of(objective, rankings)
    value, gradient = value_and_gradient(conditional, scores, labels, **sums)
    diagonal = hessian_diagonal(conditional, scores, labels, **sums)
    assert d.values[0] == pytest.approx(value, rel=1e-10, abs=1e-13)
    np.testing.assert_allclose(d.gradient, gradient, rtol=1e-8, atol=1e-11)
    if objective.convex:
        np.testing.assert_allclose(d.curvature, diagonal, rtol=1e-8, atol=1e-10)
    else:
        assert np.all(d.curvature >= diagonal - 1e-10)


@pytest.mark.parametrize("gain", ["auc", "map", "ndcg"])
@given(case=list_with_rankings())
@settings(deadline=None, max_examples=15)
def test_l3_is_convex_although_the_paper_doubts_it(gain, case) -> None:
    scores, labels, rankings = case
    sums = reference_of(BY_NAME[f"l3-{gain}"](), rankings)
    hessian = torch.autograd.functional.hessian(lambda s: conditional(s, labels, **sums), as_tensor(scores))
    assert torch.linalg.eigvalsh(hessian).min() > -1e-9


@pytest.mark.parametrize("gain", ["auc", "map", "ndcg"])
@given(case=list_with_rankings())
@settings(deadline=None, max_examples=25)
def test_convexloss_is_at_least_l1_plus_l2_and_at_most_an_eighth_more(gain, case) -> None:
    scores, labels, rankings = case
    given_rankings = {"draws": {"rankings": [rankings]}}
    values = {
        loss: evaluate(BY_NAME[f"{loss}-{gain}"](space="sampled"), scores, labels, **given_rankings).values[0]
        for loss in ("convexloss", "l2", "l3")
    }
    l1 = evaluate(MLE(space="sampled"), scores, labels, **given_rankings).values[0]
    assert values["l3"] == pytest.approx(l1 + values["l2"], rel=1e-12)
    assert -1e-12 <= values["convexloss"] - values["l3"] <= 1 / 8 + 1e-12
    assert l1 >= 0  # the ideal ranking is in the sample


def test_rankings_depend_on_seed_and_key_but_not_on_the_step() -> None:
    rng = np.random.default_rng(3)
    scores, labels = rng.normal(size=20), rng.integers(0, 3, 20)
    base = evaluate(ConvexLossMAP(seed=1), scores, labels, step=2, keys=[7]).values[0]
    assert base == evaluate(ConvexLossMAP(seed=1), scores, labels, step=9, keys=[7]).values[0]
    assert base != evaluate(ConvexLossMAP(seed=2), scores, labels, keys=[7]).values[0]
    assert base != evaluate(ConvexLossMAP(seed=1), scores, labels, keys=[8]).values[0]


def test_lists_do_not_see_each_other() -> None:
    rng = np.random.default_rng(4)
    scores, labels = rng.normal(size=22), rng.integers(0, 3, 22)
    labels[10:13] = 1  # a list of goods only
    labels[20:] = 0  # and one of bads only
    offsets, keys = [0, 9, 9, 10, 13, 20, 22], [3, 1, 4, 15, 9, 26]
    whole = ConvexLossNDCG().evaluate(scores, labels, offsets, keys=keys)
    for q in range(6):
        part = slice(offsets[q], offsets[q + 1])
        alone = ConvexLossNDCG().evaluate(scores[part], labels[part], [0, offsets[q + 1] - offsets[q]], keys=[keys[q]])
        assert alone.values[0] == whole.values[q]
        assert np.array_equal(alone.gradient, whole.gradient[part])
        assert np.array_equal(alone.curvature, whole.curvature[part])
    assert np.count_nonzero(whole.values) == 2


def test_a_ranking_given_twice_weighs_double() -> None:
    scores, labels = np.array([0.1, -0.2, 0.3]), [1, 0, 0]
    ideal, swapped = np.ones((1, 2)), np.array([[-1, 1]])
    d = evaluate(MLE(space="sampled"), scores, labels, draws={"rankings": [[ideal, swapped, swapped]]})
    assert d.values[0] == pytest.approx(np.log(1 + 2 * np.exp(-2 * 0.3)), rel=1e-13)


def test_rankings_without_gain_drop_out_of_expgain() -> None:
    # The good at rank 2, beyond the cut-off of 1: its gain is 0.
    scores, labels = np.array([0.1, -0.2, 0.3]), [1, 0, 0]
    objective = ExpGainNDCG(cutoff=1)
    ideal, swapped = np.ones((1, 2)), np.array([[-1, 1]])
    d = evaluate(objective, scores, labels, draws={"rankings": [[ideal, swapped]]})
    assert d.values[0] == pytest.approx(np.log1p(np.exp(-2 * 0.3)), rel=1e-13)
    d = evaluate(objective, scores, labels, draws={"rankings": [[swapped]]})
    assert d.values[0] == 0.0
    assert not np.any(d.gradient)


def test_over_all_rankings_of_one_good_the_sample_is_the_cube() -> None:
    # With one good every sign vector is a ranking.
    scores, labels = np.array([0.1, -0.2, 0.3, 0.4]), [1, 0, 0, 0]
    everything = {"rankings": [VALID[1, 3]]}
    for name in ("mle", "expgain-auc", "convexloss-auc", "l2-auc", "l3-auc"):
        sampled = evaluate(BY_NAME[name](space="sampled"), scores, labels, draws=everything)
        closed = evaluate(BY_NAME[name](space="cube"), scores, labels)
        assert sampled.values[0] == pytest.approx(closed.values[0], rel=1e-12)
        np.testing.assert_allclose(sampled.gradient, closed.gradient, rtol=1e-10)


def test_names_are_those_of_losses_and_gains_and_objects_are_values() -> None:
    losses = ("expgain", "convexloss", "l2", "l3")
    names = ["mle", *(f"{loss}-{gain}" for loss in losses for gain in ("auc", "map", "ndcg"))]
    assert [item.name for item in CONDITIONAL] == names
    for item in CONDITIONAL:
        one = item(samples=50)
        assert one == item(samples=50) != item(samples=51)
        assert pickle.loads(pickle.dumps(one)) == one
        assert eval(repr(one), {item.__name__: item}) == one
    assert BY_NAME["l2-auc"]().space == BY_NAME["mle"]().space == "cube"
    assert BY_NAME["l2-map"]().space == "sampled"


@pytest.mark.parametrize("wrong", [[], [[[1, -1]]], [[[[1, 0]]]], [np.ones((1, 2, 1))], [np.empty((0, 1, 2))]])
def test_rankings_of_another_shape_are_refused(wrong) -> None:
    with pytest.raises(DataError, match="rankings"):
        evaluate(ConvexLossMAP(), [0.0, 1.0, 2.0], [0, 1, 0], draws={"rankings": wrong})


@pytest.mark.parametrize(
    "wrong", [{"space": "sphere"}, {"samples": 0}, {"cutoff": 0}, {"discount": "log"}, {"best": -1.0}]
)
def test_parameters_out_of_range_are_refused(wrong) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        ConvexLossNDCG(**wrong)
