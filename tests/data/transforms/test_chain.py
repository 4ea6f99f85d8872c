"""Transforms as plain data: exact round trips, and refusal of what cannot be right."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from plackett.base.errors import DataError, UsageError
from plackett.data.transforms import (
    TRANSFORMS,
    FittedStandard,
    Impute,
    ListContext,
    ListMeans,
    Log1p,
    Quantile,
    QueryMinMax,
    Standard,
    chain,
    transform,
    transform_from_dict,
)

RECIPES = [
    QueryMinMax(),
    ListMeans(),
    ListContext(),
    Standard(),
    Log1p(clip=3),
    Quantile(n_quantiles=7),
    Impute("median", value=0.1),
    chain(Impute(), Log1p(), Quantile(n_quantiles=9)),
]
OFFSETS = np.array([0, 5, 12])
MATRICES = arrays(np.float32, (12, 3), elements=st.floats(-(2.0**100), 2.0**100, width=32) | st.just(float("nan")))


@pytest.mark.parametrize("recipe", RECIPES, ids=repr)
@given(matrix=MATRICES)
@settings(max_examples=40, deadline=None)
def test_a_trip_through_json_gives_the_same_bits(recipe, matrix):
    fitted = recipe.fit_features(matrix, OFFSETS)
    again = transform_from_dict(json.loads(json.dumps(fitted.to_dict(), allow_nan=False)))
    assert type(again) is type(fitted)
    assert again == fitted
    assert json.dumps(again.to_dict()) == json.dumps(fitted.to_dict())
    first, second = (t.apply(matrix, OFFSETS) for t in (fitted, again))
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("recipe", RECIPES, ids=repr)
def test_a_recipe_comes_back_from_json(recipe):
    assert transform_from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe


@pytest.mark.parametrize("kind", TRANSFORMS, ids=lambda t: t.name)
def test_every_transform_is_found_by_its_name(kind):
    assert transform(kind.name) == kind()


def test_parameters_are_given_by_name():
    assert transform("quantile", n_quantiles=10) == Quantile(n_quantiles=10)
    assert transform("quantile", n_quantiles=10) != Quantile()


def test_unknown_names_and_parameters_are_answered_with_the_known_ones():
    with pytest.raises(UsageError, match="query-minmax, standard, log1p, quantile, impute"):
        transform("zscore")
    with pytest.raises(UsageError, match="n_quantiles"):
        transform("quantile", quantiles=3)


STANDARD = FittedStandard(np.array([1.0, 2.0]), np.array([0.5, 0.0])).to_dict()
QUANTILE = (
    Quantile(n_quantiles=3)
    .fit_features(np.array([[0.0, 1.0], [1.0, 1.0], [4.0, 2.0]], np.float32), np.array([0, 3]))
    .to_dict()
)
CHAIN = chain(Log1p(), Standard()).to_dict()


def changed(data, *path, value):
    """Copy plain data with one entry replaced."""
    result = copy.deepcopy(data)
    place = result
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return result


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (None, "dictionary"),
        ([], "dictionary"),
        ({"transform": "standard"}, "version"),
        (changed(STANDARD, "version", value=2), "version 2"),
        (changed(STANDARD, "version", value=True), "version True"),
        (changed(STANDARD, "transform", value="eval"), "eval"),
        (changed(STANDARD, "transform", value=["standard"]), "unknown transform"),
        (changed(STANDARD, "parameters", value={}), "either"),
        (changed(STANDARD, "fitted", value=[1]), "fitted must be"),
        (changed(STANDARD, "fitted", "extra", value=1), "extra"),
        (changed(STANDARD, "fitted", "mean", value=[1.0]), "1 means but 2"),
        (changed(STANDARD, "fitted", "mean", value=[1.0, float("nan")]), "finite"),
        (changed(STANDARD, "fitted", "mean", value=[1.0, "2"]), "str"),
        (changed(STANDARD, "fitted", "mean", value=[1.0, True]), "bool"),
        (changed(STANDARD, "fitted", "mean", value=[1.0, 10**400]), "64 bits"),
        (changed(STANDARD, "fitted", "mean", value="1 2"), "list of numbers"),
        (changed(STANDARD, "fitted", "mean", value=[[1.0], [2.0]]), "list"),
        (changed(STANDARD, "fitted", "deviation", value=[1.0, -1.0]), "negative"),
        (changed(QUANTILE, "fitted", "sizes", value=[3]), "knots"),
        (changed(QUANTILE, "fitted", "sizes", value=[3.0, 3]), "integers"),
        (changed(QUANTILE, "fitted", "sizes", value=[7, -1]), "integers"),
        (changed(QUANTILE, "fitted", "knots", 1, value=0.0), "rise"),
        (changed(QUANTILE, "fitted", "levels", 2, value=1.5), "0 to 1"),
        (changed(Log1p().to_dict(), "parameters", "clip", value=-1), "clip"),
        (changed(Quantile().to_dict(), "parameters", "n_quantiles", value=0), "n_quantiles"),
        (changed(Impute().to_dict(), "parameters", "strategy", value=[]), "strategy"),
        (changed(CHAIN, "parameters", "transforms", value={}), "list"),
        (changed(CHAIN, "parameters", "transforms", 0, value=CHAIN), "unknown transform 'chain'"),
        (changed(CHAIN, "parameters", "transforms", 0, value=STANDARD), "not fitted"),
    ],
)
def test_data_that_cannot_be_right_is_refused(data, says):
    with pytest.raises(DataError, match=says):
        transform_from_dict(data)


def test_fill_values_beyond_float32_are_refused():
    data = Impute().fit_features(np.ones((2, 1), np.float32), np.array([0, 2])).to_dict()
    with pytest.raises(DataError, match="float32"):
        transform_from_dict(changed(data, "fitted", "fill", value=[1e300]))
