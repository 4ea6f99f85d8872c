"""Weights of documents go wherever the documents go."""

from __future__ import annotations

import numpy as np
import pytest

import plackett as pk
from plackett.base.errors import DataError, DataWarning
from plackett.data.description import fingerprint


@pytest.fixture
def ds():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(30, 3)).astype(np.float32)
    # The weight of each document can be told from its first feature.
    return pk.Dataset.from_arrays(
        features, rng.integers(0, 3, 30), np.arange(30) // 5, document_weights=_expected(features)
    )


def _expected(features):
    return np.abs(features[:, 0]).astype(np.float64)


def _follows(ds) -> bool:
    return np.array_equal(ds.document_weights, _expected(ds.features))


def test_weights_follow_their_documents(ds) -> None:
    assert _follows(ds)
    assert not ds.document_weights.flags.writeable
    assert _follows(ds.lists(1, 4))
    assert _follows(ds.select([0, 2, 5]))
    assert _follows(ds.documents(ds.labels > 0))
    assert all(_follows(part) for part in pk.split(ds, (0.5, 0.5)))
    assert _follows(pk.concat(pk.split(ds, (0.5, 0.5))))
    assert _follows(ds.with_labels(np.zeros(30)))


def test_documents_of_a_part_without_weights_weigh_one(ds) -> None:
    plain = ds.lists(0, 2)._replace(document_weights=None)
    joined = pk.concat([plain, ds.lists(2, 6)])
    from_plain = np.isin(joined.features[:, 0], plain.features[:, 0])
    assert np.all(joined.document_weights[from_plain] == 1.0)
    kept = joined.document_weights[~from_plain]
    assert np.array_equal(kept, _expected(joined.features[~from_plain]))
    assert pk.concat([plain, plain]).document_weights is None


def test_the_fingerprint_knows_them(ds) -> None:
    assert fingerprint(ds) != fingerprint(ds._replace(document_weights=None))
    assert fingerprint(ds) != fingerprint(ds._replace(document_weights=2 * ds.document_weights))


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".pkdata"])
def test_files_keep_them(ds, tmp_path, suffix) -> None:
    path = tmp_path / f"ds{suffix}"
    pk.write(ds, path)
    assert _follows(pk.read(path))
    pk.convert(path, tmp_path / "other.pkdata")
    assert _follows(pk.read(tmp_path / "other.pkdata"))


def test_text_cannot_keep_them_and_says_so(ds, tmp_path) -> None:
    with pytest.warns(DataWarning, match="cannot hold weights of documents"):
        pk.write(ds, tmp_path / "ds.txt")


def test_a_feature_of_that_name_stays_a_feature(tmp_path) -> None:
    ds = pk.Dataset.from_arrays([[1.0], [2.0]], [0, 1], [1, 1], feature_names=["document_weight"])
    pk.write(ds, tmp_path / "ds.parquet")
    back = pk.read(tmp_path / "ds.parquet")
    assert back.feature_names == ("document_weight",)
    assert back.document_weights is None


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "must be 2 numbers"),
        ([1.0, -2.0], r"row 1 .*document weight -2.0"),
        ([np.nan, 1.0], r"row 0 .*document weight nan"),
        (["a", "b"], "must be numbers"),
    ],
)
def test_wrong_weights_are_refused(weights, message) -> None:
    with pytest.raises(DataError, match=message):
        pk.Dataset.from_arrays([[1.0], [2.0]], [0, 1], [1, 1], document_weights=weights)
