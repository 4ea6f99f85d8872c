from __future__ import annotations

import gc
import pickle
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
    assert function.address is function.address
    assert function.address != ListMLE().function.address


def test_functions_are_not_kept_alive_by_their_address() -> None:
    function = ListFunction(_nothing, LIST_FUNCTION, cached=False)
    assert function.address
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


@compiled
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


@compiled
def binomial(n, k):
    return factorial(n) // (factorial(k) * factorial(n - k))


def test_functions_may_call_themselves_alone_and_inside_a_kernel() -> None:
    assert binomial(6, 2) == 15
    assert factorial(5) == 120
    with pytest.raises(NotImplementedError, match="arguments of the same types"):
        binomial(np.int32(5), np.int32(1))


@compiled
def half(x):
    return 0.5 * x


@compiled
def quarter(x):
    return half(half(x))


def test_a_function_that_was_part_of_a_kernel_can_be_called() -> None:
    assert quarter(1.0) == 0.25
    assert half(1.0) == 0.5
    assert quarter(np.float32(2.0)) == 0.5


@compiled
def check(values, i):
    if i >= len(values):
        raise IndexError("too far")
    return values[i]


@compiled
def last_of(values):
    return check(values, len(values))


def test_an_error_in_a_part_of_a_kernel_is_raised() -> None:
    with pytest.raises(IndexError, match="too far"):
        last_of(np.zeros(3))


def test_other_functions_of_numba_use_what_kernels_were_made_of() -> None:
    @compiled
    def ordered(values):
        return np.sort(values)[0] + len(str(len(values)))

    @njit
    def user(values):
        return np.sort(values)[0] + len(str(len(values)))

    values = np.array([3.0, 1.0, 2.0])
    assert ordered(values) == user(values) == 2.0


def test_kernels_can_be_sent_to_other_processes() -> None:
    again = pickle.loads(pickle.dumps(quarter))
    assert again(8.0) == 2.0


def test_numba_is_as_before_once_a_kernel_is_compiled() -> None:
    from numba.core.cpu import CPUContext
    from numba.core.ir import Inst
    from numba.core.lowering import Lower
    from numba.core.targetconfig import TargetConfig
    from numba.core.types.functions import BaseFunction

    kinds = BaseFunction, TargetConfig, Inst, CPUContext, Lower
    before = [dict(vars(kind)) for kind in kinds], gc.isenabled()
    assert ListFunction(lambda values: values[0] + values[1], float64(FLOATS)).compiled(np.array([1.0, 2.0])) == 3.0
    with pytest.raises(Exception, match="unknown"):
        ListFunction(lambda values: values.unknown, float64(FLOATS)).compiled  # noqa: B018
    assert ([dict(vars(kind)) for kind in kinds], gc.isenabled()) == before
