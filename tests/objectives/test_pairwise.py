from __future__ import annotations

import numpy as np
import pytest

from plackett.objectives.pairwise import WIDEST, fill_exponentials, fill_ratios, twice_artanh

pytestmark = pytest.mark.kernels


def ratios(x, i):
    exponentials, out = np.empty((2, len(x))), np.empty(len(x))
    narrow = fill_exponentials(x, exponentials)
    fill_ratios(x, exponentials, narrow, i, 0, len(x), out)
    return narrow, out


def test_the_series_is_the_logarithm_of_one_plus_t_to_the_last_bits() -> None:
    t = np.concatenate([np.linspace(0, 1, 1001), np.logspace(-300, 0, 301)])
    actual = np.array([twice_artanh(item / (2 + item)) for item in t])
    np.testing.assert_allclose(actual, np.log1p(t), rtol=1e-15)


@pytest.mark.parametrize(("width", "narrow"), [(1.0, True), (599.0, True), (601.0, False)])
def test_ratios_are_exponentials_of_distances_on_both_paths(width, narrow) -> None:
    x = width * np.array([0.0, 1.0, 0.25, 0.25, 0.9])
    assert (width < WIDEST) == narrow
    for i in range(len(x)):
        path, actual = ratios(x, i)
        assert path == narrow
        np.testing.assert_allclose(actual, np.exp(-np.abs(x - x[i])), rtol=1e-12)
        assert np.all(actual <= 1.0)
