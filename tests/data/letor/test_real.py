"""Real files, where they are at hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

from plackett.data.letor import read_table, write_table


def test_ohsumed_is_read_whole(real_data: Path) -> None:
    table = read_table(real_data / "OHSUMED" / "Fold1" / "train.txt")
    assert table.features.shape == (9219, 45)
    assert table.full_rows
    assert table.query_ids.dtype == np.int64
    assert table.document_ids is not None
    assert table.document_ids[:2].tolist() == ["244338", "143821"]


def test_the_example_of_lightgbm_is_not_full(real_data: Path) -> None:
    table = read_table(real_data / "LightGBM_lambdarank" / "Fold1" / "train.txt")
    assert table.features.shape == (3005, 300)
    assert not table.full_rows
    assert table.document_ids is None


def test_values_are_those_scikit_learn_reads(real_data: Path) -> None:
    for name in ("OHSUMED/Fold1/vali.txt", "LightGBM_lambdarank/Fold1/test.txt", "MSLR_5k/Fold1/test.txt"):
        table = read_table(real_data / name)
        features, labels, queries = load_svmlight_file(str(real_data / name), query_id=True)
        np.testing.assert_array_equal(table.features, features.toarray().astype(np.float32))
        np.testing.assert_array_equal(table.labels, labels)
        np.testing.assert_array_equal(table.query_ids, queries)


def test_real_rows_are_written_and_read_back(real_data: Path, tmp_path: Path) -> None:
    table = read_table(real_data / "MSLR_5k" / "Fold1" / "train.txt")
    write_table(tmp_path / "a.txt", table.features, table.labels, table.query_ids)
    again = read_table(tmp_path / "a.txt")
    np.testing.assert_array_equal(again.features, table.features)
    np.testing.assert_array_equal(again.labels, table.labels)
    np.testing.assert_array_equal(again.query_ids, table.query_ids)
