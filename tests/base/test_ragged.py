from __future__ import annotations

import numpy as np
import pytest

from plackett.base.errors import DataError
from plackett.base.ragged import as_offsets, factorize, list_of_document, offsets_from_sizes


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0, 3], "offsets must rise from 0 to n_docs=5, got offsets\\[0\\]=0 and offsets\\[-1\\]=3"),
        ([1, 5], "got offsets\\[0\\]=1"),
        ([0, 4, 2, 5], "offsets must not fall, got offsets\\[1\\]=4 and offsets\\[2\\]=2"),
        ([0.0, 5.0], "array of integers, got float64"),
        ([[0, 5]], "of shape \\(1, 2\\)"),
        ([], "one-dimensional array of integers"),
    ],
)
def test_offsets_that_are_no_offsets_are_refused_with_the_reason(offsets, message) -> None:
    with pytest.raises(DataError, match=message):
        as_offsets(offsets, n_docs=5)


def test_offsets_may_have_empty_lists() -> None:
    assert as_offsets([0, 0, 5], n_docs=5).tolist() == [0, 0, 5]


def test_sizes_and_offsets_are_inverse() -> None:
    sizes = np.array([3, 0, 2, 1])
    offsets = offsets_from_sizes(sizes)
    assert np.array_equal(np.diff(offsets), sizes)
    assert list_of_document(offsets).tolist() == [0, 0, 0, 2, 2, 3]


@pytest.mark.parametrize(
    ("ids", "names", "codes", "contiguous"),
    [
        ([5, 5, 2, 2, 9], [5, 2, 9], [0, 0, 1, 1, 2], True),
        ([5, 2, 5], [5, 2], [0, 1, 0], False),
        (["b", "a", "a"], ["b", "a"], [0, 1, 1], True),
        ([], [], [], True),
    ],
)
def test_ids_are_numbered_by_first_appearance(ids, names, codes, contiguous) -> None:
    actual = factorize(np.array(ids))
    assert actual[0].tolist() == names
    assert actual[1].tolist() == codes
    assert actual[2] is contiguous
