"""Closed forms of the conditional models, against sums over all sign vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from plackett.base.errors import UsageError
from plackett.objectives import L2AUC, L3AUC, MLE, ConvexLossAUC, ConvexLossNDCG, ExpGainAUC
from plackett.objectives.conditional.losses import log_z
from references.autograd import hessian_diagonal, value_and_gradient
from references.conditional import conditional, cube, gain_of_ranking

pytestmark = pytest.mark.kernels

MODELS = {"mle": MLE(), "expgain": ExpGainAUC(), "convexloss": ConvexLossAUC(), "l2": L2AUC(), "l3": L3AUC()}
SIZES = st.sampled_from([(1, 1), (1, 3), (2, 2), (3, 1), (2, 3), (3, 2)])


def evaluate(objective, scores, labels, **options):
    return objective.evaluate(scores, labels, [0, len(scores)], **options)


@st.composite
def small_list(draw):
    n_goods, n_bads = draw(SIZES)
    n = n_goods + n_bads
    labels = draw(st.permutations([1.0, 2.0, 0.5][:n_goods] + [0.0] * n_bads))
    steps = draw(st.lists(st.integers(-6, 6), min_size=n, max_size=n))
    scale = draw(st.sampled_from([0.25, 0.7, 0.03]))
    return scale * np.array(steps, dtype=np.float64), np.array(labels)


def over_the_cube(loss, labels):
    rankings = cube(int((labels > 0).sum()), int((labels == 0).sum()))
    gains = [gain_of_ranking(y, "auc") for y in rankings]
    return {"kind": loss, "rankings": rankings, "gains": gains}


@pytest.mark.parametrize("loss", MODELS)
@given(case=small_list())
@settings(deadline=None, max_examples=20)
def test_closed_forms_are_sums_over_all_sign_vectors(loss, case) -> None:
    scores, labels = case
    d = evaluate(MODELS[loss], scores, labels)
    everything = over_the_cube(loss, labels)
    value, gradient = value_and_gradient(conditional, scores, labels, **everything)
    assert d.values[0] == pytest.approx(value, rel=1e-10, abs=1e-12)
    np.testing.assert_allclose(d.gradient, gradient, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("loss", MODELS)
@given(case=small_list())
@settings(deadline=None, max_examples=12)
def test_curvature_is_the_diagonal_where_convex_and_bounds_it_elsewhere(loss, case) -> None:
    scores, labels = case
    d = evaluate(MODELS[loss], scores, labels)
    everything = over_the_cube(loss, labels)
    diagonal = hessian_diagonal(conditional, scores, labels, **everything)
    if MODELS[loss].convex:
        np.testing.assert_allclose(d.curvature, diagonal, rtol=1e-8, atol=1e-11)
    else:
        assert np.all(d.curvature >= diagonal - 1e-11)
        assert np.all(d.curvature > 0)


def test_mle_is_a_logistic_loss_of_slope_two() -> None:
    d = evaluate(MLE(), [0.3, -0.1, 0.8], [1, 0, 0])
    expected = np.log1p(np.exp(-2 * 0.4)) + np.log1p(np.exp(2 * 0.5))
    assert d.values[0] == pytest.approx(expected, rel=1e-13)


def test_expgain_is_minus_the_log_of_the_mean_probability_of_a_right_pair() -> None:
    d = evaluate(ExpGainAUC(), [0.3, -0.1, 0.8], [1, 0, 0])
    p = 1 / (1 + np.exp(-2 * np.array([0.4, -0.5])))
    assert d.values[0] == pytest.approx(-np.log(p.mean()), rel=1e-13)


def test_log_z_is_the_log_of_the_sum_over_all_sign_vectors() -> None:
    scores, labels = np.array([0.3, -0.1, 0.8, 0.2]), np.array([1, 0, 0, 2])
    gaps = scores[labels > 0][:, None] - scores[labels == 0]
    total = sum(np.exp((y * gaps).sum()) for y in cube(2, 2))
    assert log_z(scores, labels) == pytest.approx(np.log(total), rel=1e-13)
    # MLE is log Z less the compatibility of the ideal ranking.
    value = evaluate(MLE(), scores, labels).values[0]
    assert value == pytest.approx(log_z(scores, labels) - gaps.sum(), rel=1e-12)


@given(case=small_list())
@settings(deadline=None, max_examples=60)
def test_convexloss_is_at_least_l1_plus_l2_and_at_most_an_eighth_more(case) -> None:
    convex, l1, l2, l3 = (evaluate(MODELS[loss], *case).values[0] for loss in ("convexloss", "mle", "l2", "l3"))
    assert l3 == pytest.approx(l1 + l2, rel=1e-12)
    assert -1e-12 <= convex - l3 <= 1 / 8 + 1e-12


def test_expgain_still_pulls_where_every_pair_is_far_wrong() -> None:
    # -log p is 2 gap where p underflows: the slope of the nearest pair remains.
    d = evaluate(ExpGainAUC(), [-700.0, 700.0, 690.0], [1, 0, 0])
    assert d.values[0] == pytest.approx(2780 + np.log(2), rel=1e-12)
    assert d.gradient == pytest.approx([-2.0, 2 * np.exp(-20), 2.0], rel=1e-6)


@pytest.mark.parametrize("loss", MODELS)
def test_lists_without_bads_give_zeros(loss) -> None:
    d = evaluate(MODELS[loss], [0.5, 1.0], [1, 2])
    assert not any(np.any(part) for part in d)


def test_only_auc_has_a_closed_form() -> None:
    with pytest.raises(UsageError, match=r"convexloss-ndcg has no closed form; use space='sampled'"):
        ConvexLossNDCG(space="cube")


def test_a_closed_form_draws_nothing() -> None:
    with pytest.raises(UsageError, match="not random"):
        evaluate(MLE(), [0.0, 1.0], [0, 1], draws={"rankings": [[[[1]]]]})
