from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from plackett.base.errors import UsageError
from plackett.objectives.lambdaloss import SCHEMES, LambdaLoss
from plackett.objectives.lambdarank import LambdaRank
from references.autograd import hessian_diagonal, value_and_gradient
from references.lambdaloss import lambdaloss
from references.lambdarank import ndcg, ranking
from references.random_lists import one_list

pytestmark = pytest.mark.kernels


def evaluate(objective, scores, labels):
    return objective.evaluate(scores, labels, [0, len(scores)])


def test_two_documents_follow_the_formulas() -> None:
    # One relevant document, at rank 2; G = 1, rho = delta = 1 - 1/log2(3).
    cost, gap = np.log1p(np.exp(0.4)), 1 - 1 / np.log2(3)
    expected = {
        "ndcg1": cost / np.log2(3),
        "ndcg2": gap * cost,
        "ndcg2++": (gap + 10 * gap) * cost,
        "lambdarank": gap * cost,
        "arp1": cost,
        "arp2": cost,
    }
    for scheme in SCHEMES:
        d = evaluate(LambdaLoss(scheme), [0.9, 0.5], [0, 1])
        assert d.values[0] == pytest.approx(expected[scheme], rel=1e-12)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(case=one_list())
@settings(deadline=None, max_examples=30)
def test_all_derivatives_agree_with_autograd_at_frozen_ranks(scheme, case) -> None:
    scores, labels = case
    parameters = {"scheme": scheme, "sigma": 1.5, "mu": 4.0}
    d = evaluate(LambdaLoss(**parameters), scores, labels)
    value, gradient = value_and_gradient(lambdaloss, scores, labels, **parameters)
    diagonal = hessian_diagonal(lambdaloss, scores, labels, **parameters)
    assert d.values[0] == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(d.gradient, gradient, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(d.curvature, diagonal, rtol=1e-8, atol=1e-12)


@given(case=one_list())
@settings(deadline=None, max_examples=30)
def test_the_lambdarank_scheme_is_lambdarank(case) -> None:
    for ours, theirs in zip(
        evaluate(LambdaLoss("lambdarank", sigma=2.0), *case), evaluate(LambdaRank(sigma=2.0), *case), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-15)


@given(case=one_list())
@settings(deadline=None, max_examples=40)
def test_the_first_loss_in_bits_bounds_the_lost_ndcg(case) -> None:
    # Wang et al. 2018: log2(1 + e^-x) >= [x <= 0], so the pairs of i cost at least rank_i - 1
    # >= log2(1 + rank_i) - 1 times its discounted gain.
    scores, labels = case
    gains = 2.0**labels - 1
    ideal = np.sum(np.sort(gains)[::-1] / np.log2(2 + np.arange(len(gains))))
    bits = evaluate(LambdaLoss("ndcg1"), scores, labels).values[0] / np.log(2)
    assert bits >= gains.sum() / ideal - ndcg(labels[ranking(scores)]) - 1e-12


@pytest.mark.parametrize("wrong", [{"scheme": "ndcg3"}, {"sigma": -1.0}, {"mu": -0.5}])
def test_parameters_out_of_range_are_refused_by_name(wrong) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        LambdaLoss(**wrong)
