from __future__ import annotations

import numpy as np
import pytest

import plackett as pk
from plackett.base.errors import ConvergenceWarning, DataError, UsageError
from plackett.data.clicks import (
    ClickLog,
    PositionModel,
    Propensities,
    estimate_by_em,
    estimate_by_swaps,
    read_propensities,
    simulate,
    write_propensities,
)

TRUTH = 1.0 / np.arange(1, 7)


@pytest.fixture(scope="module")
def web():
    return pk.synthetic("web", n_lists=150, seed=0)


@pytest.fixture(scope="module")
def varied(web):
    """A ranker whose order changes a little from impression to impression."""
    scores = web.features[:, 3].astype(np.float64)
    scores /= scores.std()
    return simulate(web, "ai2018", impressions=200, top=6, scores=scores, temperature=0.7)


@pytest.fixture(scope="module")
def swapped(web):
    scores = web.features[:, 3].astype(np.float64)
    return simulate(web, "ai2018", impressions=300, top=6, scores=scores, swap=True)


def test_em_finds_the_positions(varied) -> None:
    np.testing.assert_allclose(estimate_by_em(varied).values, TRUTH, rtol=0.12)


def test_em_is_right_on_average_with_few_impressions_of_each_document(web) -> None:
    scores = web.features[:, 3].astype(np.float64) / web.features[:, 3].std()
    actual = [
        estimate_by_em(simulate(web, impressions=8, top=4, scores=scores, temperature=0.7, seed=seed)).values
        for seed in range(12)
    ]
    np.testing.assert_allclose(np.mean(actual, axis=0), TRUTH[:4], rtol=0.2)


def test_swaps_find_the_positions(swapped, varied) -> None:
    np.testing.assert_allclose(estimate_by_swaps(swapped).values, TRUTH, rtol=0.2)
    np.testing.assert_allclose(estimate_by_swaps(varied).values, TRUTH, rtol=0.12)


def test_estimates_do_not_depend_on_the_order_of_rows(varied) -> None:
    shuffled = varied.take(np.random.default_rng(0).permutation(len(varied)))
    for estimate in (estimate_by_em, estimate_by_swaps):
        one, other = estimate(varied).values, estimate(shuffled).values
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_ranker_that_is_no_better_than_chance_is_found_unbiased(web) -> None:
    log = simulate(web, PositionModel(eta=0.0), impressions=200, top=5)
    np.testing.assert_allclose(estimate_by_em(log).values, 1.0, atol=0.15)


@pytest.mark.parametrize("estimate", [estimate_by_em, estimate_by_swaps])
def test_what_is_not_identifiable_is_said(web, estimate) -> None:
    fixed = simulate(web, impressions=20, top=5, scores=web.features[:, 3])
    with pytest.raises(DataError, match=r"(not identifiable|no intervention)"):
        estimate(fixed)
    with pytest.raises(DataError, match="no click"):
        estimate(simulate(web, PositionModel((0.0,) * 5), impressions=2))


def test_positions_in_two_groups_are_named() -> None:
    rows = [(1, "a", 1), (1, "b", 2), (2, "a", 2), (2, "b", 1), (3, "c", 3), (4, "c", 4)]
    log = ClickLog.from_table(
        {
            "impression": [r[0] for r in rows],
            "query": ["q"] * 6,
            "document": [r[1] for r in rows],
            "position": [r[2] for r in rows],
            "click": [1] * 6,
        }
    )
    for estimate in (estimate_by_em, estimate_by_swaps):
        with pytest.raises(DataError, match="positions 1, 2 and 3, 4 cannot be compared"):
            estimate(log)


def test_deep_positions_can_be_taken_together(varied) -> None:
    result = estimate_by_em(varied, deepest=4)
    assert len(result.values) == 4
    assert result.pooled
    assert result.at(np.array([9]))[0] == result.values[3]
    np.testing.assert_allclose(result.values[:3], TRUTH[:3], rtol=0.12)
    with pytest.raises(UsageError, match="deepest must be"):
        estimate_by_em(varied, deepest=0)


def test_a_search_that_is_cut_short_warns(varied) -> None:
    with pytest.warns(ConvergenceWarning, match="has not converged after 1"):
        estimate_by_em(varied, iterations=1)
    with pytest.raises(UsageError, match="iterations >= 1"):
        estimate_by_em(varied, iterations=0)


def test_propensities_are_given_in_any_form() -> None:
    assert Propensities.of([1.0, 0.5]).values.tolist() == [1.0, 0.5]
    assert Propensities.of({2: 0.5, 1: 1.0}).values.tolist() == [1.0, 0.5]
    np.testing.assert_allclose(Propensities.power(0.5, 3).values, np.arange(1, 4) ** -0.5)
    for bad, message in (
        ({0: 1.0}, "from 1 on, got 0"),
        ([], "one number per position"),
        ([1.0, -0.1], "position 2 is -0.1"),
        (["x"], "must be numbers"),
        ({}, "no position"),
    ):
        with pytest.raises(DataError, match=message):
            Propensities.of(bad)
    with pytest.raises(UsageError, match="clip must lie between 0 and 1"):
        Propensities.of([1.0]).at(np.array([1]), clip=1.5)
    actual = Propensities.of([1.0, 0.1]).at(np.array([1, 2, 3]), clip=0.3)
    assert actual[:2].tolist() == [1.0, 0.3]
    assert np.isnan(actual[2])


@pytest.mark.parametrize("suffix", [".json", ".csv"])
def test_propensities_come_back_from_a_file(tmp_path, suffix) -> None:
    inputs = Propensities.of({1: 1.0, 2: 1 / 3, 4: 0.2})
    path = tmp_path / f"p{suffix}"
    write_propensities(inputs, path)
    assert np.array_equal(read_propensities(path).values, inputs.values, equal_nan=True)


def test_wrong_files_of_propensities_are_named(tmp_path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("position,propensity\n1,1\n2,x\n")
    with pytest.raises(DataError, match=r"p.csv:3: expected a position"):
        read_propensities(path)
    path = tmp_path / "p.json"
    path.write_text("{")
    with pytest.raises(DataError, match="not readable propensities"):
        read_propensities(path)
    path.write_text("[1, 0.5]")
    assert read_propensities(path).values.tolist() == [1.0, 0.5]
    path.write_text('"x"')
    with pytest.raises(DataError, match="a list, or a mapping"):
        read_propensities(path)
    with pytest.raises(DataError, match="there is no such file"):
        read_propensities(tmp_path / "other.json")
    with pytest.raises(UsageError, match=r"are \.json or \.csv files"):
        read_propensities(tmp_path / "p.txt")
