"""Forecasts are made from sizes alone, at once, and have the right order of magnitude."""

from __future__ import annotations

import time

import pytest

import plackett as pk
from plackett.cli.console import describe_forecast
from plackett.experiments.plan import Forecast, estimate_seconds


@pytest.mark.parametrize(
    "ranker",
    [
        pk.TreeRanker("xendcg", trees=50, patience=50, threads=1),
        pk.LinearRanker("listnet", C=(0.1, 1.0, 10.0), threads=1),
        pk.StumpRanker(rounds=50, patience=50, threads=1),
    ],
)
def test_the_estimate_has_the_right_order_of_magnitude(ranker) -> None:
    data = pk.synthetic("letor", n_lists=100, seed=0)
    train, validation = data.lists(0, 80), data.lists(80, 100)
    ranker.clone().fit(train, validation)  # compiles
    start = time.process_time()
    ranker.fit(train, validation)
    seconds = time.process_time() - start
    estimate = estimate_seconds(ranker, train.n_docs, train.n_features, threads=1)
    assert seconds / 20 < estimate < 20 * seconds


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
