from __future__ import annotations

import numpy as np
import pytest

from plackett.base.arithmetic import stable_order

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize("n", [0, 1, 2, 15, 16, 17, 33, 64, 100, 1000])
def test_orders_are_those_of_numpy(n: int) -> None:
    rng = np.random.default_rng(n)
    for keys in (rng.integers(0, 5, n).astype(np.float64), rng.normal(size=n), np.zeros(n)):
        assert np.array_equal(stable_order(keys, False), np.argsort(keys, kind="stable"))
        assert np.array_equal(stable_order(keys, True), np.argsort(-keys, kind="stable"))


def test_nan_goes_last_and_keeps_its_order() -> None:
    keys = np.array([np.nan, 1.0, -np.inf, np.nan, np.inf, -0.0, 0.0] * 7)
    for falling in (False, True):
        expected = np.argsort(-keys if falling else keys, kind="stable")
        assert np.array_equal(stable_order(keys, falling), expected)


def test_unsigned_words_sort_by_size() -> None:
    keys = np.random.default_rng(0).integers(0, 2**64, 200, dtype=np.uint64)
    assert np.array_equal(stable_order(keys, False), np.argsort(keys, kind="stable"))
