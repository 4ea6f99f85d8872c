"""Under NUMBA_BOUNDSCHECK=1 (``make test-bounds``): a proof that the checks really run."""

from __future__ import annotations

import os

import numpy as np
import pytest
from numba import float64, njit

from plackett.base.kernels import FLOATS, list_function

pytestmark = [
    pytest.mark.kernels,
    pytest.mark.skipif(os.environ.get("NUMBA_BOUNDSCHECK") != "1", reason="only meaningful with bounds checks on"),
]


def test_an_index_out_of_bounds_fails_in_a_plain_kernel() -> None:
    @njit
    def beyond(values):
        return values[len(values)]

    with pytest.raises(IndexError):
        beyond(np.zeros(3))


def test_an_index_out_of_bounds_fails_in_a_list_function() -> None:
    @list_function(float64(FLOATS))
    def beyond(values):
        return values[len(values)]

    with pytest.raises((IndexError, SystemError)):
        beyond.compiled(np.zeros(3))
