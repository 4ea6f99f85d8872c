from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from numba import float64, njit

from plackett.base.kernels import FLOATS, ListFunction, compiled, list_function
from plackett.objectives import XENDCG, ListMLE, custom
from plackett.objectives.driver import LIST_FUNCTION

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


def _nothing(_scores, _labels, _prepared, _key, _params, _gradient, _curvature):
    return 0.0


def test_a_list_function_is_looked_up_once() -> None:
    function = XENDCG().function
    assert function.addresses is function.addresses
    assert function.addresses != ListMLE().function.addresses


def test_functions_are_not_kept_alive_by_their_addresses() -> None:
    function = ListFunction(_nothing, LIST_FUNCTION, cached=False)
    assert function.addresses
    gone = weakref.ref(function)
    del function
    gc.collect()
    assert gone() is None


def _untouched(_scores, _labels, _params, _gradient, _curvature):
    return 0.0


def test_outputs_are_zero_when_a_list_function_begins() -> None:
    loss = custom(_untouched)
    for _ in range(3):  # memory that was used before is not zero by itself
        dirty = [np.full(50, 9.0) for _ in range(4)]
        del dirty
        d = loss.evaluate(np.arange(50.0), np.arange(50) % 3, [0, 1, 20, 50])
        assert not any(map(np.any, d))
