from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plackett.objectives.lambdarank import SWAP_METRICS, fill_swaps, prepare_swaps
from plackett.objectives.ranking import normalized_gains
from references.lambdarank import swap_change

pytestmark = pytest.mark.kernels


def changes(metric, labels_by_rank, a):
    y = np.array(labels_by_rank, dtype=np.float64)
    state, out = np.empty((3, len(y))), np.zeros(len(y))
    gains = normalized_gains(y.astype(np.float32), np.array([0, len(y)])).values
    code = SWAP_METRICS.index(metric)
    prepare_swaps(code, y, gains, state)
    fill_swaps(code, state, a, out)
    return out


@pytest.mark.parametrize("metric", SWAP_METRICS)
@given(labels=st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0]), min_size=2, max_size=9).filter(any))
@settings(deadline=None, max_examples=60)
def test_each_change_equals_that_of_a_real_swap(metric, labels) -> None:
    for a in range(len(labels) - 1):
        found = changes(metric, labels, a)
        for b in range(a + 1, len(labels)):
            assert abs(found[b]) == pytest.approx(swap_change(metric, labels, a, b), abs=1e-13)


@pytest.mark.parametrize("metric", SWAP_METRICS)
def test_the_sign_says_which_document_has_the_higher_label(metric) -> None:
    assert changes(metric, [2, 0, 1], 0)[1] > 0
    assert changes(metric, [0, 2, 1], 0)[1] < 0


def test_err_of_labels_that_overflow_powers_of_two_is_finite() -> None:
    assert changes("err", [0.0, 1e30, 5e29], 0)[1:] == pytest.approx([-0.5, 0.0])
