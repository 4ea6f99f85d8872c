from __future__ import annotations

import numpy as np
import pytest
from numba import float64, njit

from plackett.base.kernels import FLOATS, compiled, list_function

pytestmark = pytest.mark.kernels


@compiled
def swallowed(a, b):
    return (a + b) - a


@njit(fastmath=True)
def careless(a, b):
    return swallowed(a, b)


def test_a_function_keeps_its_arithmetic_whoever_compiles_it_first() -> None:
    careless(1e20, 1.0)
    assert swallowed(1e20, 1.0) == 0.0  # reordered, it would be 1


@list_function(float64(FLOATS))
def first(values):
    return values[0] / 0.0


def test_list_functions_take_read_only_arrays_and_divide_as_numpy_does() -> None:
    values = np.ones(3)
    values.flags.writeable = False
    assert first.compiled(values) == np.inf
