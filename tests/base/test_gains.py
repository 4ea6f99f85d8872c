from __future__ import annotations

import numpy as np
import pytest

from plackett.base.gains import discounts, exp2_gain


def test_discounts_follow_their_definitions() -> None:
    log = np.log2
    assert discounts(3, "log2") == pytest.approx([1 / log(2), 1 / log(3), 1 / log(4)])
    assert discounts(4, "letor") == pytest.approx([1, 1 / log(2), 1 / log(3), 1 / log(4)])
    assert discounts(3, "reciprocal") == pytest.approx([1, 1 / 2, 1 / 3])


def test_gains_follow_their_definitions() -> None:
    assert [exp2_gain(y, 4.0) for y in (0.0, 0.5, 3.0)] == pytest.approx([0, 2**0.5 - 1, 7])
    assert exp2_gain(70.0, 70.0) == pytest.approx(1.0)  # in units of 2^top, which would overflow
