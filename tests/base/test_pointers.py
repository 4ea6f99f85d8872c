from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from plackett.base.kernels import ListFunction
from plackett.objectives import XENDCG, ListMLE, custom
from plackett.objectives.driver import LIST_FUNCTION

pytestmark = pytest.mark.kernels


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
    made = custom(_untouched)
    for _ in range(3):  # memory that was used before is not zero by itself
        dirty = [np.full(50, 9.0) for _ in range(4)]
        del dirty
        d = made.evaluate(np.arange(50.0), np.arange(50) % 3, [0, 1, 20, 50])
        assert not any(map(np.any, d))
