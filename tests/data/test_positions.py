"""Positions at which documents were shown go wherever the documents go."""

from __future__ import annotations

import numpy as np
import pytest

import plackett as pk
from plackett.base.errors import DataError, DataWarning
from plackett.data.description import fingerprint


@pytest.fixture
def ds():
    rng = np.random.default_rng(0)
    features = rng.integers(1, 50, size=(30, 3)).astype(np.float32)
    # The position of each document is its first feature.
    return pk.Dataset.from_arrays(features, rng.integers(0, 2, 30), np.arange(30) // 5, positions=features[:, 0])


def _follows(ds) -> bool:
    return np.array_equal(ds.positions, ds.features[:, 0].astype(np.int64))


def test_positions_follow_their_documents(ds) -> None:
    assert ds.positions.dtype == np.int64
    assert _follows(ds)
    assert _follows(ds.select([0, 2, 5]))
    assert _follows(ds.canonical())
    assert _follows(ds.documents(ds.labels > 0))
    assert _follows(pk.concat(pk.split(ds, (0.5, 0.5))))
    assert pk.concat([ds.lists(0, 2), ds.lists(2, 4)._replace(positions=None)]).positions is None
    assert fingerprint(ds) != fingerprint(ds._replace(positions=None))


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".pkdata"])
def test_files_keep_them(ds, tmp_path, suffix) -> None:
    pk.write(ds, tmp_path / f"ds{suffix}")
    assert _follows(pk.read(tmp_path / f"ds{suffix}"))
    pk.convert(tmp_path / f"ds{suffix}", tmp_path / "other.pkdata")
    assert _follows(pk.read(tmp_path / "other.pkdata"))


def test_a_feature_of_that_name_stays_a_feature(tmp_path) -> None:
    ds = pk.Dataset.from_arrays([[1.0], [2.0]], [0, 1], [1, 1], feature_names=["position"])
    pk.write(ds, tmp_path / "ds.parquet")
    back = pk.read(tmp_path / "ds.parquet")
    assert back.feature_names == ("position",)
    assert back.positions is None


def test_text_cannot_keep_them_and_says_so(ds, tmp_path) -> None:
    with pytest.warns(DataWarning, match="cannot hold positions"):
        pk.write(ds, tmp_path / "ds.txt")


@pytest.mark.parametrize("positions", [[1, 0], [1, 1.5], [1, np.nan], [1, -2]])
def test_positions_are_whole_numbers_from_one(positions) -> None:
    with pytest.raises(DataError, match=r"row 1 \(counted from 0\): position .*; positions are 1, 2, 3"):
        pk.Dataset.from_arrays([[1.0], [2.0]], [0, 1], [1, 1], positions=positions)


def test_impressions_of_a_click_log_keep_them() -> None:
    documents = pk.Dataset.from_arrays([[0.3], [0.9]], None, ["tea"] * 2, document_ids=["a", "b"])
    log = {"impression": [1, 1], "query": ["tea"] * 2, "document": ["b", "a"], "position": [1, 7], "click": [0, 1]}
    data = pk.Dataset.from_clicks(log, documents)
    assert dict(zip(data.document_ids.tolist(), data.positions.tolist(), strict=True)) == {"b": 1, "a": 7}
    assert pk.Dataset.from_clicks(log, documents, by="query").positions is None
