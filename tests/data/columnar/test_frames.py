"""Tables with named columns: data frames of every library, and CSV files."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import plackett as pk
from dataset_helpers import difference, make_rows
from plackett.base.errors import DataError, DataWarning, UsageError

COLORS = ["red", "blue", "red", "green", "blue", "red"]


@pytest.fixture
def df() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "qid": ["a", "a", "b", "b", "a", "b"],
            "grade": [0, 2, 1, 0, 1, 2],
            "bm25": [1.5, 9.0, 4.0, 2.0, 3.0, 8.0],
            "clicks30": pd.array([1, None, 3, 4, 5, 6], "Int64"),
        }
    )


@pytest.mark.parametrize("convert", [lambda df: df, pl.from_pandas, pa.Table.from_pandas, dict])
def test_frames_of_every_library_give_the_same_data_set(df, convert) -> None:
    ds = pk.Dataset(convert(df), label="grade", query="qid", drop=["clicks30"])
    assert ds.labels.tolist() == df["grade"].tolist()
    assert ds.query_ids.tolist() == df["qid"].tolist()
    assert ds.features[:, 0].tolist() == df["bm25"].tolist()
    assert ds.feature_names == ("bm25",)


def test_usual_names_are_found_and_features_may_be_named(df) -> None:
    ds = pk.Dataset(df, features=["bm25"])
    assert ds.feature_names == ("bm25",)
    assert ds.labels.tolist() == [0, 2, 1, 0, 1, 2]


def test_missing_values_need_a_word(df) -> None:
    with pytest.raises(DataError, match="feature 'clicks30' is nan; pass missing=\"nan\""):
        pk.Dataset(df)
    ds = pk.Dataset(df, missing="nan")
    assert np.isnan(ds.features[:, 1]).tolist() == [False, True, False, False, False, False]


@pytest.mark.parametrize("name", ["doc_rank", "user_id", "Unnamed: 0", "url"])
def test_columns_that_are_rarely_features_are_named_in_a_warning(df, name) -> None:
    df[name] = range(6)
    with pytest.warns(DataWarning, match=f"'{name}' is taken as a feature.*drop="):
        pk.Dataset(df, missing="nan")
    pk.Dataset(df, missing="nan", features=["bm25", name])  # named, so meant


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"label": "nope"}, DataError, "there is no column 'nope'"),
        ({"drop": ["nope"]}, DataError, "there is no column 'nope' to drop"),
        ({"features": ["bm25", "x"]}, DataError, "there is no feature column 'x'"),
        ({"query": "qid", "features": ["qid"]}, UsageError, "cannot be both a feature and query"),
    ],
)
def test_columns_that_are_not_there_are_named(df, options, error, message) -> None:
    with pytest.raises(error, match=message):
        pk.Dataset(df, missing="nan", **options)


def test_arrays_are_sent_to_from_arrays() -> None:
    with pytest.raises(UsageError, match=r"Dataset\.from_arrays"):
        pk.Dataset(np.ones((2, 2)))


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".tsv.gz"])
def test_csv_is_written_and_read_back(tmp_path, suffix) -> None:
    ds = make_rows(documents=True).dataset(feature_names=["a", "b", "c"])
    path = tmp_path / f"set{suffix}"
    pk.write(ds, path)
    text = path.read_bytes()
    text = gzip.decompress(text) if suffix.endswith(".gz") else text
    assert text.decode().splitlines()[0].count("\t" if ".tsv" in suffix else ",") == 5
    assert difference(pk.read(path), ds) is None


def test_csv_that_cannot_be_read_names_the_file_and_the_column(tmp_path) -> None:
    path = tmp_path / "set.csv"
    path.write_text("qid,label,x\n1,0,0.5\n1,1,high\n")
    with pytest.raises(DataError, match=r"set\.csv: column 'x' holds string"):
        pk.read(path)
    path.write_text("qid,label,x\n1,0\n")
    with pytest.raises(DataError, match=r"set\.csv.*Expected 3 columns, got 2"):
        pk.read(path)
    path.write_text("")
    with pytest.raises(DataError, match=r"set\.csv.*[Ee]mpty"):
        pk.read(path)


def test_csv_is_not_streamed(tmp_path) -> None:
    pk.write(make_rows().dataset(), tmp_path / "set.csv")
    with pytest.raises(UsageError, match="convert it to Parquet first"):
        pk.stream(tmp_path / "set.csv")


def test_sizes_of_lists_stand_for_query_ids() -> None:
    ds = pk.Dataset.from_arrays(np.eye(5), [0, 1, 0, 1, 2], group=[2, 3])
    assert ds.query_ids.tolist() == [0, 0, 1, 1, 1]
    with pytest.raises(DataError, match="add up to 4, for 5 rows"):
        pk.Dataset.from_arrays(np.eye(5), [0, 1, 0, 1, 2], group=[2, 2])
    with pytest.raises(UsageError, match=r"query_ids=.*group="):
        pk.Dataset.from_arrays(np.eye(5), [0, 1, 0, 1, 2])


@pytest.mark.parametrize("ids", [np.array([2**64 - 1, 5], np.uint64), [10**30, 5]])
def test_ids_of_any_size_are_kept(ids) -> None:
    ds = pk.Dataset.from_arrays(np.eye(2), [0, 1], ids)
    assert [int(i) for i in ds.query_ids] == [int(i) for i in ids]


def _with_colors(df: pd.DataFrame) -> pd.DataFrame:
    return df.assign(color=pd.Categorical(COLORS), clicks30=1.0)


@pytest.mark.parametrize("kind", ["pandas", "polars", "parquet", "pkdata"])
def test_categories_are_numbered_in_alphabetical_order_whatever_the_rows(df, kind, tmp_path) -> None:
    frame = _with_colors(df)
    order = np.random.default_rng(0).permutation(6)
    for rows in (np.arange(6), order):
        part = frame.iloc[rows].assign(qid="a")
        data = part if kind != "polars" else pl.from_pandas(part)
        ds = pk.Dataset(data)
        if kind in ("parquet", "pkdata"):
            pk.write(ds, tmp_path / f"set.{kind}")
            ds = pk.read(tmp_path / f"set.{kind}")
        assert ds.categories == {"color": ("blue", "green", "red")}
        column = ds.features[:, ds.feature_names.index("color")]
        assert [ds.categories["color"][int(c)] for c in column] == [COLORS[i] for i in rows]


def test_a_category_that_was_not_there_is_a_missing_value(df) -> None:
    ds = pk.Dataset(_with_colors(df))
    other = pk.Dataset(_with_colors(df).assign(color=pd.Categorical(["pink", *COLORS[1:]])))
    result = other.with_categories(ds.categories)
    column = result.features[:, result.feature_names.index("color")]
    assert np.isnan(column[0])
    assert column[1:].tolist() == ds.features[1:, ds.feature_names.index("color")].tolist()


def test_text_cannot_hold_categories(df, tmp_path) -> None:
    for name in ("set.csv", "set.txt"):
        with pytest.raises(DataError, match="text cannot hold categories, and 'color' has some"):
            pk.write(pk.Dataset(_with_colors(df)), tmp_path / name)
