"""Every recipe has a search space that it can be tuned over, and people can spell others."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

import plackett as pk
from plackett.base.errors import UsageError
from plackett.experiments.tuning.plan import parse_dimension
from plackett.models import RECIPES
from plackett.models.recipes.search_spaces import (
    FAMILIES,
    Choice,
    Real,
    Whole,
    family_of,
    get_setting,
    search_space,
    with_settings,
)


def _ends(given):
    return given.options if isinstance(given, Choice) else (given.low, given.high)


@pytest.mark.parametrize("name", RECIPES)
def test_the_ends_of_every_dimension_can_be_set(name) -> None:
    ranker = pk.recipe(name)
    space = search_space(name)
    assert space
    assert set(FAMILIES[family_of(name)]) - {"list_fraction"} <= set(space)
    for key, item in space.items():
        get_setting(ranker, key)
        for value in _ends(item):
            assert get_setting(with_settings(ranker, {key: value}), key) == value
    assert ranker.get_params() == pk.recipe(name).get_params()  # nothing was changed in place


@pytest.mark.parametrize("name", ["lambdamart", "umart", "rankboost", "listnet-linear"])
def test_numbers_of_the_defaults_lie_inside(name) -> None:
    ranker = pk.recipe(name)
    for key, item in search_space(name).items():
        now = get_setting(ranker, key)
        if isinstance(now, (int, float)) and not isinstance(item, Choice):
            assert item.low <= now <= item.high, key


def test_what_a_recipe_cannot_take_is_not_searched() -> None:
    assert "list_fraction" not in search_space("lightgbm-lambdarank")
    assert "list_fraction" not in search_space("lambdamart-ranklib")
    assert "objective.sigma" not in search_space("e-lambdamart")
    assert "objective.beta" in search_space("e-lambdamart")


def test_spellings() -> None:
    assert parse_dimension("x", "0.01..0.3:log") == Real(0.01, 0.3, log=True)
    assert parse_dimension("x", "1e-3..1") == Real(1e-3, 1)
    assert parse_dimension("x", "8..64:log") == Whole(8, 64, log=True)
    assert parse_dimension("x", "8..64", Real(0.0, 1.0)) == Real(8, 64)
    assert parse_dimension("x", "0..1", None, 0.5) == Real(0, 1)
    assert parse_dimension("x", "relu,elu") == Choice(("relu", "elu"))
    assert parse_dimension("x", "1,4,16") == Choice((1, 4, 16))
    assert parse_dimension("x", "[[64,32],[128]]") == Choice(((64, 32), (128,)))


@pytest.mark.parametrize("text", ["1..", "..3", "3..1", "0..1:log", "a..b", "1..2:cube", "a,,b"])
def test_what_is_no_range_is_refused(text) -> None:
    with pytest.raises(UsageError):
        parse_dimension("x", text)


def test_whole_numbers_have_whole_ends() -> None:
    with pytest.raises(UsageError, match="is an integer"):
        parse_dimension("leaves", "0.5..8", Whole(4, 8))


@given(st.floats(1e-6, 1e3), st.floats(1.001, 1e3), st.booleans())
def test_a_range_is_read_as_it_is_written(low, factor, log) -> None:
    high = low * factor
    actual = parse_dimension("x", f"{low!r}..{high!r}{':log' if log else ''}", Real(0.0, 1.0))
    assert actual == Real(low, high, log)
