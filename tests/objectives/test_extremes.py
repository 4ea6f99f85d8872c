from __future__ import annotations

import numpy as np
import pytest

from plackett.base.arithmetic import extremes, largest

pytestmark = pytest.mark.kernels


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
