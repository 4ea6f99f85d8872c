from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from plackett.data.dataset import Dataset
from plackett.data.description import describe
from plackett.data.folds import concat, read_folds


def test_counts_of_a_small_set_by_hand() -> None:
    X = np.array([[0.0, 5.0], [1.0, 5.0], [0.0, 5.0], [2.0, 5.0], [3.0, 5.0]])
    data = Dataset.from_arrays(X, [0, 2, 0, 0, 1], ["a", "a", "b", "b", "c"])
    for created in (data, Dataset.from_arrays(csr_matrix(X), [0, 2, 0, 0, 1], [1, 1, 2, 2, 3])):
        d = describe(created)
        assert (d.n_lists, d.n_docs, d.n_features, d.n_levels) == (3, 5, 2, 3)
        assert d.lowest_share == pytest.approx(3 / 5)
        assert d.mean_lowest_share == pytest.approx((1 / 2 + 1 + 0) / 3)
        assert (d.longest, d.shortest, d.blank_lists, d.single_label_lists) == (2, 1, 1, 2)
        assert d.zero_share == pytest.approx(2 / 10)
        assert d.constant_features == 1
        assert d.labels == {"0": 3, "1": 1, "2": 1}
        assert d.lengths == {"1": 1, "2-3": 2}


def test_missing_values_and_many_labels_are_counted() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    X[:50, 0] = np.nan
    d = describe(Dataset.from_arrays(X, rng.random(100), np.arange(100) // 10, missing="nan"))
    assert d.missing_share == pytest.approx(50 / 300)
    assert sum(d.labels.values()) == 100
    assert len(d.labels) == 12


@pytest.mark.parametrize("make", [np.asarray, csr_matrix])
def test_missing_values_do_not_make_a_feature_vary(make) -> None:
    nan = np.nan
    X = [[nan, nan, nan, 0, nan, 1], [5, nan, 0, 0, 5, 2], [5, nan, 0, 0, 0, 3]]
    d = describe(Dataset.from_arrays(make(X), [0, 1, 0], [1, 1, 1], missing="nan"))
    assert d.constant_features == 4  # the first four
    assert d.missing_share == pytest.approx(6 / 18)
    assert d.zero_share == pytest.approx(6 / 18)


def test_ohsumed_has_the_counts_of_the_papers_table(real_data) -> None:
    folds = read_folds(real_data / "OHSUMED")
    d = describe(concat([fold.test for fold in folds]))
    assert (d.n_lists, d.n_docs, d.n_features, d.n_levels) == (106, 16_140, 45, 3)
    assert d.longest == 320
    assert d.mean_lowest_share == pytest.approx(0.7187, abs=5e-5)
    # The paper prints 68.12 % of lowest labels, which is one fold's share, not the set's.
    assert d.lowest_share == pytest.approx(11_303 / 16_140)
    assert describe(folds[1].test).lowest_share == pytest.approx(0.6812, abs=2e-4)
