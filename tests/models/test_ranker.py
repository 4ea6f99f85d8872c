"""What all rankers have in common: data that cannot be learned from, and parameters."""

from __future__ import annotations

import numpy as np
import pytest

import plackett as pk
from plackett.base.errors import DataError, UsageError
from plackett.models.linear.lbfgs import minimize
from plackett.models.linear.loss import ScoreLoss
from plackett.objectives import ListNet, custom


def _data(labels):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(len(labels), 3)).astype(np.float32)
    return pk.Dataset.from_arrays(features, labels, np.repeat(np.arange(len(labels) // 5), 5))


@pytest.mark.parametrize("ranker", [pk.LinearRanker(objective="listnet"), pk.StumpRanker(rounds=2)], ids=repr)
def test_one_level_of_labels_raises(ranker) -> None:
    with pytest.raises(DataError, match="no list has two levels"):
        ranker.fit(_data(np.ones(20)))


@pytest.mark.parametrize("objective", ["mle", "svmmap", "convexloss-ndcg"])
def test_labels_from_1_on_are_all_relevant_to_binary_objectives(objective) -> None:
    with pytest.raises(DataError, match="treats labels above 0 as relevant"):
        pk.LinearRanker(objective=objective).fit(_data(np.tile([1, 2, 3, 4, 5], 4)))


def _uphill(scores, labels, params, gradient, curvature):
    value = 0.0
    for i in range(len(scores)):
        error = scores[i] - labels[i]
        value += 0.5 * error * error
        gradient[i] = params[0] * error
        curvature[i] = 1.0
    return value + params[1]


def test_a_gradient_of_the_wrong_sign_does_not_converge() -> None:
    objective = custom(_uphill, params=(-1.0, 0.0), name="uphill", exact=True)
    with pytest.warns(pk.ConvergenceWarning, match="no step along the gradient lowers the value"):
        pk.LinearRanker(objective=objective).fit(_data(np.tile([0, 1, 2, 3, 4], 4)))


def test_a_value_that_is_not_finite_raises() -> None:
    objective = custom(_uphill, params=(1.0, np.nan), name="lost", exact=True)
    with pytest.raises(UsageError, match="not finite at the start"):
        pk.LinearRanker(objective=objective).fit(_data(np.tile([0, 1, 2, 3, 4], 4)))


def test_a_search_resumed_from_any_state_ends_at_the_same_weights() -> None:
    data = _data(np.tile([0, 1, 2, 1, 0], 8))
    states = []
    options = {"C": 10.0, "max_iterations": 200, "tolerance": 1e-6}
    whole = minimize(ScoreLoss(ListNet(), data), np.zeros(3), save=states.append, **options)
    for state in states:
        again = minimize(ScoreLoss(ListNet(), data), np.zeros(3), resume=state, **options)
        np.testing.assert_array_equal(again.weights, whole.weights)
        assert again.convergence.trace == whole.convergence.trace


def test_sequences_are_taken_as_tuples() -> None:
    ranker = pk.LinearRanker().set_params(C=np.logspace(-1, 1, 3), transforms=["standard"])
    assert pytest.approx((0.1, 1.0, 10.0)) == ranker.C
    assert ranker.transforms == ("standard",)


def test_presets_of_paper_a_do_not_clip() -> None:
    pytest.importorskip("torch")
    for preset in ("A-web30k", "A-yahoo"):
        assert pk.recipe("crossentropy-net", preset=preset).clip is None
    assert pk.recipe("e-approxndcg-net", preset="A-web30k-tuned").clip is None
