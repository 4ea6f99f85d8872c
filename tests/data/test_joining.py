from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from plackett.base.errors import DataError
from plackett.data.dataset import Dataset
from plackett.data.folds import concat, split
from plackett.data.synthetic import synthetic


def test_parts_joined_again_are_the_whole() -> None:
    whole = synthetic("letor", n_lists=40, seed=2)
    again = concat(split(whole, (0.5, 0.25, 0.25), seed=3))
    assert np.array_equal(again.features, whole.features)
    assert np.array_equal(again.labels, whole.labels)
    assert np.array_equal(again.offsets, whole.offsets)
    assert np.array_equal(again.query_ids, whole.query_ids)
    assert np.array_equal(again.keys, whole.keys)


def test_parts_do_not_overlap_and_depend_on_the_seed() -> None:
    whole = synthetic("letor", n_lists=40, seed=2)
    a, b = split(whole, (0.5, 0.5), seed=1)
    assert set(a.query_ids).isdisjoint(b.query_ids)
    assert a.n_lists + b.n_lists == 40
    other, _ = split(whole, (0.5, 0.5), seed=2)
    assert not np.array_equal(a.query_ids, other.query_ids)


def test_lists_of_different_parts_with_the_same_id_stay_apart() -> None:
    a = Dataset.from_arrays([[1.0], [2.0]], [0, 1], [7, 7])
    b = Dataset.from_arrays([[3.0], [4.0]], [0, 1], [7, 7])
    joined = concat([a, b])
    assert joined.n_lists == 2
    assert sorted(joined.rows.tolist()) == [0, 1, 2, 3]


def test_dense_and_sparse_parts_join() -> None:
    a = Dataset.from_arrays([[1.0, 0.0], [2.0, 0.0]], [0, 1], [1, 1])
    b = Dataset.from_arrays(csr_matrix([[0.0, 3.0], [4.0, 0.0]]), [0, 1], [2, 2])
    assert sorted(concat([a, b]).features.toarray().sum(axis=1)) == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("shares", [(), (0.5, 0.6), (0.5, -0.1), (0.999, 0.0001), (0.5, np.nan)])
def test_shares_that_make_no_sense_are_refused(shares) -> None:
    with pytest.raises(DataError, match="shares"):
        split(synthetic("letor", n_lists=10), shares)


def test_different_features_do_not_join() -> None:
    a = Dataset.from_arrays([[1.0]], [0], [1])
    b = Dataset.from_arrays([[1.0, 2.0]], [0], [1])
    with pytest.raises(DataError, match="different features: 1 and 2"):
        concat([a, b])
    with pytest.raises(DataError, match="no data sets"):
        concat([])
