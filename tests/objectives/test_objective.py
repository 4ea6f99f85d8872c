from __future__ import annotations

import numpy as np
import pytest

from plackett.base.errors import DataError, UsageError
from plackett.objectives import XENDCG, ListMLE, RankNet, Stochastic, objective
from plackett.objectives.objective import reseed

SCORES, LABELS, OFFSETS = [0.3, -1.0, 0.8, 0.1, 0.5], [0, 2, 1, 1, 0], [0, 3, 5]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": [0, -1, 1, 1, 0]}, "labels must be one finite, non-negative number"),
        ({"keys": [1]}, r"keys must be 2, one per list, got shape \(1,\)"),
        ({"weights": [1.0, 1.0, 1.0]}, r"weights must be 2, one per list, got shape \(3,\)"),
        ({"draws": {"gamma": [0.5]}}, r"draws\['gamma'\] must be 5 numbers"),
        ({"scores": [0.0]}, r"scores must be 5 numbers, one per label, got shape \(1,\)"),
    ],
)
def test_arrays_of_the_wrong_form_are_refused(options, message) -> None:
    arguments = {"scores": SCORES, "labels": LABELS, "offsets": OFFSETS, **options}
    with pytest.raises(DataError, match=message):
        XENDCG().evaluate(**arguments)


def test_draws_that_the_objective_does_not_have_are_refused() -> None:
    with pytest.raises(UsageError, match="ranknet draws nothing: it is not random, not 'gamma'"):
        RankNet().bind(LABELS, OFFSETS, draws={"gamma": [0.5] * 5})
    with pytest.raises(UsageError, match="listmle draws only 'order', not 'gamma'"):
        Stochastic(ListMLE()).bind(LABELS, OFFSETS, draws={"gamma": [0.5] * 5})


def test_explicit_draws_reach_the_float32_gradient() -> None:
    gamma = np.array([0.1, 0.9, 0.5, 0.3, 0.7])
    bound = XENDCG().bind(LABELS, OFFSETS, draws={"gamma": gamma})
    assert np.array_equal(bound.float32_gradient(SCORES)[0], bound.newton(SCORES).gradient)


def test_a_seed_is_added_only_where_something_is_random() -> None:
    assert reseed(XENDCG(seed=2), 3) == XENDCG(seed=5)
    assert reseed(RankNet(), 3) == RankNet()


@pytest.mark.parametrize("positions", [[], [1], [1, 0]])
def test_lists_taken_from_a_bound_objective_keep_their_derivatives(positions) -> None:
    bound = ListMLE().bind(LABELS, OFFSETS, keys=[7, 8], weights=[1.0, 0.5])
    whole = bound.evaluate(SCORES)
    documents = [i for q in positions for i in range(OFFSETS[q], OFFSETS[q + 1])]
    part = bound.take(np.array(positions, dtype=np.int64)).evaluate(np.take(SCORES, np.array(documents, int)))
    assert np.array_equal(part.values, np.take(whole.values, np.array(positions, int)))
    assert np.array_equal(part.gradient, np.take(whole.gradient, np.array(documents, int)))


@pytest.mark.parametrize(
    ("name", "parameter"),
    [("xendcg", "order"), ("boltzrank", "samples"), ("convexloss-ndcg", "cutoff"), ("convexloss-ndcg", "walk")],
)
@pytest.mark.parametrize("value", [None, 0, 1.5])
def test_counts_without_a_limit_are_refused_where_a_number_is_needed(name, parameter, value) -> None:
    with pytest.raises(UsageError, match=f"needs {parameter} to be a whole number >= 1, got {parameter}={value}"):
        objective(name, **{parameter: value})
