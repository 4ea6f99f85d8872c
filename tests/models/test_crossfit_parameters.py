"""Parameters of the ranker inside a cross-fit, by scikit-learn's spelling."""

from __future__ import annotations

import numpy as np
import pytest

import plackett as pk
from plackett.base.errors import UsageError


def test_two_underscores_lead_into_the_ranker() -> None:
    given = pk.TreeRanker(leaves=31, learning_rate=0.1)
    fit = pk.CrossFit(given, folds=3)
    assert fit.set_params(ranker__leaves=np.int64(7), ranker__learning_rate=0.2, folds=4) is fit
    assert (fit.ranker.leaves, fit.ranker.learning_rate, fit.folds) == (7, 0.2, 4)
    assert type(fit.ranker.leaves) is int
    assert (given.leaves, given.learning_rate) == (31, 0.1)  # the caller's stays as it was


def test_a_copy_is_changed_alone() -> None:
    fit = pk.CrossFit(pk.TreeRanker(leaves=31))
    assert fit.clone().set_params(ranker__leaves=7).ranker.leaves == 7
    assert fit.ranker.leaves == 31


def test_a_new_ranker_and_its_parameters_may_come_together_and_nest() -> None:
    inner = pk.CrossFit(pk.TreeRanker(leaves=31))
    fit = pk.CrossFit().set_params(ranker__ranker__leaves=5, ranker=inner)
    assert fit.ranker.ranker.leaves == 5
    assert inner.ranker.leaves == 31


def test_the_recipe_of_the_ranker_is_remembered() -> None:
    fit = pk.CrossFit(pk.recipe("lambdamart")).set_params(ranker__trees=5)
    assert fit.ranker.recipe_name == "lambdamart"


def test_parameters_by_name_are_those_of_the_cross_fit_itself() -> None:
    known = pk.CrossFit(pk.TreeRanker()).set_params(ranker__leaves=7).get_params()
    assert set(known) == {"ranker", "folds", "repeats", "combine", "seed", "transforms"}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"ranker__leafs": 3}, "TreeRanker has no parameter 'leafs'; it has"),
        ({"ranker__leaves": "many"}, "TreeRanker's leaves must be a whole number"),
        ({"folds__leaves": 3}, "'folds' holds no ranker"),
        ({"model__leaves": 3}, "'model' holds no ranker"),
        ({"leaves": 3}, "CrossFit has no parameter 'leaves'"),
    ],
)
def test_wrong_names_and_values_are_refused(given, reason) -> None:
    with pytest.raises(UsageError, match=reason):
        pk.CrossFit(pk.TreeRanker()).set_params(**given)
    with pytest.raises(UsageError, match="'ranker' holds no ranker whose 'leaves'"):
        pk.CrossFit().set_params(ranker__leaves=3)
