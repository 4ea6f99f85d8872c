"""Tests beyond the randomization and t-tests, against SciPy and by hand."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest
from scipy import stats

from plackett.base.errors import DataError
from plackett.experiments.significance import (
    _signed_sums,
    _tables,
    benjamini_hochberg,
    bootstrap_intervals,
    cohens_d,
    compare_paired,
    mean_interval,
    randomization_test,
    resampled_t_test,
    t_test,
    wilcoxon_test,
)

pytestmark = pytest.mark.kernels

_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASK = 2**64 - 1


def _mix(word: int) -> int:
    word = ((word ^ (word >> 30)) * _FIRST) & _MASK
    word = ((word ^ (word >> 27)) * _SECOND) & _MASK
    return word ^ (word >> 31)


def _combine(state: int, word: int) -> int:
    return _mix(((state ^ _mix((word + _GOLDEN) & _MASK)) * _FIRST + _GOLDEN) & _MASK)


@pytest.mark.parametrize("n", [1, 7, 8, 63, 64, 65, 200])
def test_signed_sums_are_those_of_the_random_bits_taken_one_by_one(n: int) -> None:
    d = np.random.default_rng(n).normal(size=n)
    sums = np.zeros(30)
    _signed_sums(_tables(d), np.uint64(5), sums)
    for p, actual in enumerate(sums):
        state = _combine(5, p)
        signs = [1 - 2 * (_combine(state, i // 64 * 64) >> (i % 64) & 1) for i in range(n)]
        assert actual == pytest.approx(float(np.dot(d, signs)), abs=1e-12)


def test_p_value_does_not_depend_on_threads() -> None:
    d = np.random.default_rng(0).normal(0.05, 1, size=700)
    many = randomization_test(d, permutations=5_000)
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        assert randomization_test(d, permutations=5_000) == many
    finally:
        numba.set_num_threads(before)


@pytest.mark.parametrize("n", [6, 40, 51, 400])
def test_wilcoxon_agrees_with_scipy(n: int) -> None:
    d = np.random.default_rng(n).normal(0.1, 1, size=n)
    assert wilcoxon_test(np.append(d, [0.0, 0.0])) == pytest.approx(stats.wilcoxon(d).pvalue)


def test_wilcoxon_takes_ties() -> None:
    d = np.array([0.1, 0.1, -0.1, 0.2, 0.2, 0.3, -0.2, 0.0])
    expected = stats.wilcoxon(d[:-1], method="asymptotic").pvalue
    assert wilcoxon_test(d) == pytest.approx(expected)


def test_bootstrap_interval_of_many_lists_is_the_normal_one() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(0.4, 0.2, size=(2000, 2))
    values[:, 1] += 0.1
    half = 1.96 * values.std(axis=0, ddof=1) / math.sqrt(2000)
    actual = bootstrap_intervals(values, seed=1)
    assert actual[:, 0] == pytest.approx(values.mean(axis=0) - half, abs=5e-4)
    assert actual[:, 1] == pytest.approx(values.mean(axis=0) + half, abs=5e-4)


def test_bootstrap_resamples_are_shared_by_systems_and_drop_lists_that_do_not_count() -> None:
    values = np.random.default_rng(4).random(100)
    table = np.column_stack([values, values, np.ones(100)])
    table[7] = np.nan
    actual = bootstrap_intervals(table, resamples=500)
    assert actual[0].tolist() == actual[1].tolist()
    assert actual[2] == pytest.approx([1.0, 1.0])
    assert np.array_equal(actual[0], bootstrap_intervals(np.delete(table, 7, 0), resamples=500)[0])


def test_benjamini_hochberg_agrees_with_scipy() -> None:
    p = np.random.default_rng(5).random(20) ** 3
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p))
    assert np.isnan(benjamini_hochberg([0.1, np.nan])).all()  # of a metric with infinite values


def test_interval_of_ten_trials_uses_students_factor() -> None:
    v = np.random.default_rng(6).random(10)
    low, high = mean_interval(v)
    assert (high - low) / 2 == pytest.approx(2.2621571628 * v.std(ddof=1) / math.sqrt(10))


def test_resampled_t_test_widens_the_error_by_the_overlap() -> None:
    d = np.random.default_rng(7).normal(0.3, 1, size=100)
    statistic = d.mean() / (d.std(ddof=1) * math.sqrt(1 / 100 + 0.2 / 0.6))
    expected = 2 * stats.t.sf(statistic, 99)
    assert resampled_t_test(d, test_share=0.2, train_share=0.6) == pytest.approx(expected)
    assert resampled_t_test(d, test_share=0.2, train_share=0.6) > t_test(d)


def test_comparison_counts_wins_and_losses_and_gives_the_effect() -> None:
    a = np.array([0.5, 0.7, 0.2, 0.9, np.nan])
    b = np.array([0.4, 0.7, 0.3, 0.5, 0.5])
    result = compare_paired(a, b)
    d = np.array([0.1, 0.0, -0.1, 0.4])
    assert (result.wins, result.losses, result.n_lists) == (2, 1, 4)
    assert result.effect == pytest.approx(d.mean() / d.std(ddof=1)) == cohens_d(a[:4] - b[:4])
    assert result.wilcoxon == wilcoxon_test(a[:4] - b[:4])


def test_values_without_a_column_per_system_are_refused() -> None:
    with pytest.raises(DataError, match="a row per list and a column per system"):
        bootstrap_intervals(np.zeros(3))
    with pytest.raises(DataError, match="no list counts"):
        bootstrap_intervals(np.full((3, 2), np.nan))
