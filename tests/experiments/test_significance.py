from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from plackett.base.errors import DataError
from plackett.experiments import leaderboard, randomisation_test
from plackett.experiments.significance import compare_paired, holm, randomization_test


def test_randomization_test_agrees_with_the_enumeration_of_all_sign_patterns() -> None:
    d = np.array([0.3, -0.1, 0.25, 0.02, -0.05, 0.4, 0.11, 0.09])
    sums = np.array([np.dot(d, signs) for signs in product((-1, 1), repeat=len(d))])
    exact = np.mean(np.abs(sums) >= abs(d.sum()) - 1e-12)
    assert randomization_test(d, permutations=200_000) == pytest.approx(exact, abs=0.004)


def test_randomization_test_agrees_with_scipy_on_many_lists() -> None:
    rng = np.random.default_rng(0)
    d = rng.normal(0.02, 0.2, size=300)
    expected = stats.permutation_test(
        (d, np.zeros_like(d)), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=5_000, rng=rng
    ).pvalue
    assert randomization_test(d) == pytest.approx(expected, abs=0.03)


def test_p_values_are_uniform_under_the_null_hypothesis() -> None:
    rng = np.random.default_rng(1)
    p = [randomization_test(rng.normal(size=40), permutations=999, seed=i) for i in range(400)]
    assert stats.kstest(p, "uniform").pvalue > 0.001


def test_comparison_agrees_with_scipys_t_test_and_interval() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.random(50), rng.random(50)
    a[3] = np.nan
    keep = ~np.isnan(a)
    expected = stats.ttest_rel(a[keep], b[keep])
    result = compare_paired(a, b)
    low, high = expected.confidence_interval(0.95)
    assert result.n_lists == 49
    assert result.t_test == pytest.approx(expected.pvalue)
    assert (result.low, result.high) == pytest.approx((low, high))


def test_equal_systems_are_not_different() -> None:
    values = np.array([0.1, 0.5, 0.9])
    result = compare_paired(values, values.copy())
    assert (result.difference, result.t_test, result.randomization) == (0.0, 1.0, 1.0)


def test_values_of_different_lists_are_refused() -> None:
    with pytest.raises(DataError, match="same lists, got 2 and 3"):
        compare_paired(np.zeros(2), np.zeros(3))
    with pytest.raises(DataError, match="no list counts"):
        compare_paired(np.array([np.nan]), np.array([0.5]))


def test_holm_multiplies_the_smallest_by_the_number_and_never_falls() -> None:
    assert holm([0.01, 0.02, 0.03, 0.5]) == pytest.approx([0.04, 0.06, 0.06, 0.5])
    assert holm([0.9, 0.9]) == pytest.approx([1.0, 1.0])


def test_the_old_spelling_warns_and_gives_the_same() -> None:
    d = np.array([0.3, -0.1, 0.25, 0.02])
    comparison = compare_paired(d, np.zeros(4))
    with pytest.warns(DeprecationWarning, match="'randomisation' is deprecated; use 'randomization'"):
        assert comparison.randomisation == comparison.randomization
    with pytest.warns(DeprecationWarning, match="use 'randomization_test'"):
        assert randomisation_test(d) == randomization_test(d)
    values = {"a": {"ndcg@10": d}, "b": {"ndcg@10": d + 0.1}}
    with pytest.warns(DeprecationWarning, match="use 'randomization'"):
        board = leaderboard(values, baseline="a", test="randomisation")
    assert board.test == "randomization"
    (compared,) = [entry["comparisons"] for entry in board.to_dict()["entries"] if entry["comparisons"]]
    assert compared["ndcg@10"]["randomisation"] == compared["ndcg@10"]["randomization"]
