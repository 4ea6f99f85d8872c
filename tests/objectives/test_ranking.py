from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from plackett.base.ragged import offsets_from_sizes
from plackett.objectives.ranking import label_order

pytestmark = pytest.mark.kernels

# Small whole numbers are sorted by counting; others, and lists with one of them, by comparing.
LABELS = st.one_of(st.integers(0, 4), st.integers(60, 70), st.sampled_from([0.5, 1.5]))


@given(st.lists(st.lists(LABELS, max_size=12), max_size=4))
@settings(deadline=None)
def test_labels_fall_and_equal_ones_keep_their_order(lists) -> None:
    labels = np.array([y for item in lists for y in item], dtype=np.float32)
    offsets = offsets_from_sizes([len(item) for item in lists])
    order = label_order(labels, offsets)
    for low, high in pairwise(offsets):
        expected = np.argsort(-labels[low:high], kind="stable")
        assert order.values[low:high].tolist() == expected.tolist()
    assert order.offsets is offsets
