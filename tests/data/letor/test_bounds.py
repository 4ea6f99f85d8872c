"""Under NUMBA_BOUNDSCHECK=1 the wide loads of the scanner are checked like all others."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from plackett.base.decimals import find_byte, word_at

pytestmark = pytest.mark.skipif(not numba.config.BOUNDSCHECK, reason="needs NUMBA_BOUNDSCHECK=1")


def test_a_load_beyond_the_end_is_caught() -> None:
    text = np.zeros(16, dtype=np.uint8)
    assert word_at(text, 8) == 0
    with pytest.raises(IndexError):
        word_at(text, 9)


def test_a_search_that_runs_off_the_end_is_caught() -> None:
    with pytest.raises(IndexError):
        find_byte(np.zeros(64, dtype=np.uint8), 0, 10)
