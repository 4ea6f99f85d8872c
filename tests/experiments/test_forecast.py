"""Forecasts are made from sizes alone, at once, and plausible."""

from __future__ import annotations

import pytest

import plackett as pk
from plackett.cli.console import describe_forecast
from plackett.experiments.plan import Forecast, estimate_seconds


@pytest.mark.parametrize("ranker", [pk.TreeRanker("xendcg"), pk.LinearRanker("listnet"), pk.StumpRanker()])
def test_the_estimate_is_plausible_for_small_data(ranker) -> None:
    """Measured times are not compared: a busy machine would make the outcome random."""
    assert 1e-3 < estimate_seconds(ranker, 1_000, 20, threads=1) < 100


def test_time_grows_with_every_size_and_shrinks_with_threads() -> None:
    trees = pk.TreeRanker(trees=100)
    base = estimate_seconds(trees, 10_000, 50, threads=1)
    assert estimate_seconds(trees, 20_000, 50, threads=1) > base
    assert estimate_seconds(trees, 10_000, 100, threads=1) > base
    assert estimate_seconds(trees, 10_000, 50, threads=4) < base
    assert estimate_seconds(pk.TreeRanker(trees=200), 10_000, 50, threads=1) == 2 * base
    crossfit = pk.CrossFit(trees, folds=5, repeats=2)
    assert estimate_seconds(crossfit, 10_000, 50, threads=1) == 10 * base


def test_the_forecast_in_words() -> None:
    assert describe_forecast(Forecast(4, 4, 0.0)) == "; 4 are finished already"
    words = describe_forecast(Forecast(4, 1, 9.0))
    assert words.startswith("; 1 are finished already; expected time: about 9 s")
