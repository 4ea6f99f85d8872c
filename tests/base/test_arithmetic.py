from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from plackett.base.arithmetic import exp, exp_float32, extremes, largest, log

pytestmark = pytest.mark.kernels


def _over(function):
    @njit(error_model="numpy")
    def loop(values):
        out = np.empty_like(values)
        for i in range(len(values)):
            out[i] = function(values[i])
        return out

    return loop


def test_exp_agrees_with_the_library_to_two_units_in_the_last_place() -> None:
    x = np.concatenate([np.linspace(-708, 709, 200_001), np.linspace(-1, 1, 100_001)])
    assert np.max(np.abs(_over(exp)(x) / np.exp(x) - 1)) <= 2 * np.finfo(float).eps


def test_exp_saturates_instead_of_overflowing() -> None:
    actual = _over(exp)(np.array([-1e9, -709.0, 709.5, 1e300]))
    assert np.all(np.isfinite(actual))
    assert np.all(actual > 0)


def test_single_exp_agrees_to_2e_7() -> None:
    x = np.linspace(-87, 88, 200_001).astype(np.float32)
    assert np.max(np.abs(_over(exp_float32)(x) / np.exp(x.astype(float)) - 1)) < 2e-7


def test_log_agrees_with_the_library_to_two_units_in_the_last_place() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([np.exp(rng.uniform(-700, 700, 100_000)), rng.random(100_000), 1 + rng.normal(size=99) * 1e-9])
    assert np.max(np.abs(_over(log)(x) / np.log(x) - 1)) <= 2 * np.finfo(float).eps


@pytest.mark.parametrize("n", [1, 2, 7, 64, 1001])
@pytest.mark.parametrize("scale", [1e-310, 1.0, 1e300])
def test_extremes_are_those_of_numpy(n, scale) -> None:
    values = scale * np.random.default_rng(n).normal(size=n)
    for shifted in (values, np.abs(values), -np.abs(values)):
        assert largest(shifted) == shifted.max()
        assert extremes(shifted) == (shifted.min(), shifted.max())


def test_infinities_and_both_zeros_have_their_place() -> None:
    assert extremes(np.array([-np.inf, 0.0, np.inf])) == (-np.inf, np.inf)
    assert largest(np.array([-np.inf, -np.inf])) == -np.inf
    assert extremes(np.array([-0.0, 0.0])) == (0.0, 0.0)


def test_nan_is_found() -> None:
    assert np.isnan(largest(np.array([1.0, np.nan, np.inf])))
