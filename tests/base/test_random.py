from __future__ import annotations

import numpy as np
import pytest

from plackett.base.random import combine, combine_all, combine_arrays, mix, to_uniform

pytestmark = pytest.mark.kernels


def test_mix_agrees_with_the_published_generator() -> None:
    # First outputs of SplitMix64 with seed 0: mix of multiples of the golden constant.
    golden = 0x9E3779B97F4A7C15
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    actual = [int(mix(np.uint64(golden * (i + 1) % 2**64))) for i in range(3)]
    assert actual == expected


def test_unit_never_reaches_zero_or_one() -> None:
    for word in (0, 1, 2**63, 2**64 - 1):
        assert 0.0 < to_uniform(np.uint64(word)) < 1.0


def test_unit_of_combined_words_is_uniform() -> None:
    draws = np.array([to_uniform(np.uint64(combine(np.uint64(7), np.uint64(i)))) for i in range(20_000)])
    counts, _ = np.histogram(draws, bins=20, range=(0, 1))
    # Chi-square with 19 degrees of freedom: 43.8 is its 0.1 % point.
    assert np.sum((counts - 1000.0) ** 2 / 1000.0) < 43.8


def test_the_order_of_words_counts() -> None:
    def both(first: int, second: int) -> int:
        return int(combine(np.uint64(combine(np.uint64(0), np.uint64(first))), np.uint64(second)))

    assert both(1, 2) != both(2, 1)


def test_a_hash_of_many_words_is_the_same_in_python_and_numpy() -> None:
    words = np.random.default_rng(1).integers(0, 2**64, 30, dtype=np.uint64)
    state = np.zeros(1, np.uint64)
    for word in words:
        state = combine_arrays(state, np.array([word]))
    assert combine_all(words) == int(state[0])
    assert combine_all(words[:0]) == 0
