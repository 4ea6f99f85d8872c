from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from columnar_files import COLUMNS, EXPECTED, renamed as _renamed, write_file as _write
from dataset_helpers import difference, make_rows
from plackett.base.errors import DataError, UsageError
from plackett.data.dataset import Dataset
from plackett.data.reader import read
from plackett.data.writer import write


@pytest.mark.parametrize("label", ["relevance", "rel", "grade", "target", "y"])
@pytest.mark.parametrize("query", ["qid", "query"])
def test_usual_names_are_found(tmp_path: Path, label: str, query: str) -> None:
    path = _write(tmp_path / "a.parquet", _renamed(label=label, query_id=query))
    assert difference(read(path), EXPECTED) is None


def test_columns_can_have_any_names(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.parquet", _renamed(label="stars", query_id="session.id"))
    assert difference(read(path, label="stars", query="session.id"), EXPECTED) is None


def test_features_can_be_chosen_and_put_in_order(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.parquet", COLUMNS | {"title": ["x", "y", "z"]})
    data = read(path, features=["clicks", "price"])
    assert data.feature_names == ("clicks", "price")
    assert data.features.tolist() == [[10, 1.5], [0, 2.5], [7, 3.5]]
    assert read(path, features="price").n_features == 1


@pytest.mark.parametrize("name", ["document_id", "docid", "doc_id", "url"])
def test_document_ids_are_found_or_named(tmp_path: Path, name: str) -> None:
    path = _write(tmp_path / "a.parquet", COLUMNS | {name: [9, 8, 7]})
    result = read(path, document="url") if name == "url" else read(path)
    assert result.document_ids.tolist() == [9, 8, 7]
    assert result.feature_names == ("price", "clicks")


def test_a_column_of_a_usual_name_can_be_a_feature(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.parquet", COLUMNS | {"weight": [1.0, 2.0, 3.0], "docid": [1, 2, 3]})
    data = read(path, features=["price", "weight", "docid"])
    assert data.weights is None
    assert data.document_ids is None
    assert data.feature_names == ("price", "weight", "docid")


@pytest.mark.parametrize("name", ["weight", "importance"])
def test_weights_are_found_or_named(tmp_path: Path, name: str) -> None:
    path = _write(tmp_path / "a.parquet", COLUMNS | {name: [0.5, 0.5, 2.0]})
    result = read(path) if name == "weight" else read(path, weight=name)
    assert dict(zip(result.list_ids.tolist(), result.weights.tolist(), strict=True)) == {"a": 0.5, "b": 2.0}


def test_data_without_labels_do_not_take_the_label_for_a_feature(tmp_path: Path) -> None:
    data = read(_write(tmp_path / "a.parquet", COLUMNS), label=None)
    assert not data.labels.any()
    assert data.feature_names == ("price", "clicks")


@pytest.mark.parametrize(
    ("drop", "options", "message"),
    [
        ("label", {}, r"no column 'label' \(nor 'relevance', .*columns are 'query_id', 'price'"),
        ("query_id", {}, r"no column 'query_id' \(nor 'qid', 'query'\); the columns are 'label'"),
        ("", {"label": "stars"}, r"no column 'stars'; the columns are .*; choose with label="),
        ("", {"document": "url"}, "no column 'url'; .*; choose with document="),
        ("", {"weight": "w"}, "no column 'w'; .*; choose with weight="),
        ("", {"features": ["price", "x"]}, "no feature column 'x'; the columns are"),
    ],
)
def test_a_column_that_is_not_there_is_named_with_those_that_are(
    tmp_path: Path, drop: str, options: dict[str, Any], message: str
) -> None:
    path = _write(tmp_path / "a.parquet", {k: v for k, v in COLUMNS.items() if k != drop})
    with pytest.raises(DataError, match=rf"a\.parquet: there is {message}"):
        read(path, **options)


def test_two_usual_names_are_not_guessed_between(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.parquet", _renamed(label="relevance") | {"y": [1, 2, 3]})
    with pytest.raises(DataError, match="2 that could be it: 'relevance', 'y'; choose with label="):
        read(path)
    assert read(path, label="y").feature_names == ("relevance", "price", "clicks")


def test_a_column_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1])] * 4, ["label", "qid", "x", "x"])
    with pytest.raises(DataError, match="column 'x' occurs more than once"):
        read(_write(tmp_path / "a.arrow", table))


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize(
    "names",
    [
        ["weight", "docid", "doc_id"],
        ["document_id", "qid", "query"],
        ["relevance", "grade", "y"],
        ["__index_level_0__", "features", "target"],
        ["f1", "f2", "f3"],
    ],
    ids=lambda names: names[0],
)
def test_a_feature_of_any_name_is_read_back_as_a_feature(tmp_path: Path, suffix: str, names: list[str]) -> None:
    ds = make_rows().dataset(feature_names=names)
    write(ds, tmp_path / f"a{suffix}")
    assert difference(read(tmp_path / f"a{suffix}"), ds) is None
    # The label is known to be another column.
    assert read(tmp_path / f"a{suffix}", label=None).feature_names == tuple(names)


def test_a_choice_of_columns_wins_over_what_the_file_notes(tmp_path: Path) -> None:
    rows = make_rows()
    rows.features[:, 0] = 2
    write(rows.dataset(feature_names=["weight", "docid", "x"]), tmp_path / "a.parquet")
    data = read(tmp_path / "a.parquet", weight="weight")
    assert data.weights.tolist() == [2.0] * data.n_lists
    assert data.feature_names == ("docid", "x")
    data = read(tmp_path / "a.parquet", label="weight", features=["docid"])
    assert data.feature_names == ("docid",)
    assert data.labels.tolist() == [2.0] * data.n_docs
    assert data.weights is None


def test_columns_added_to_a_file_of_ours_are_found_by_their_names(tmp_path: Path) -> None:
    write(make_rows().dataset(feature_names=["docid", "b", "c"]), tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet").drop_columns(["c"])
    table = table.append_column("weight", pa.array([1.0] * 40)).append_column("d", table["b"])
    data = read(_write(tmp_path / "b.parquet", table))
    assert data.feature_names == ("docid", "b", "d")
    assert data.weights.tolist() == [1.0] * data.n_lists


@pytest.mark.parametrize("note", [b"{", b"[]", b'{"features": [1], "named": true}', b"\xff"])
def test_a_damaged_note_of_the_features_is_refused(tmp_path: Path, note: bytes) -> None:
    table = pa.table(COLUMNS).replace_schema_metadata({b"plackett": note})
    with pytest.raises(DataError, match=r"a\.parquet: "):
        read(_write(tmp_path / "a.parquet", table))


def test_shards_that_differ_in_what_is_a_feature_are_refused(tmp_path: Path) -> None:
    write(make_rows().dataset(feature_names=["weight", "b", "c"]), tmp_path / "1.parquet")
    ds = make_rows().dataset(feature_names=["a", "b", "c"], weights=np.ones(6))
    write(ds, tmp_path / "2.parquet")
    with pytest.raises(DataError, match=r"2\.parquet: column 'weight' is no feature here, and a feature in the"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["relevance", "rel", "grade", "target", "y"])
def test_labels_of_any_usual_name_are_no_feature_of_data_read_without(tmp_path: Path, name: str) -> None:
    path = _write(tmp_path / "a.parquet", _renamed(label=name))
    assert read(path, label=None).feature_names == ("price", "clicks")
    assert read(path, label=None, features=[name]).feature_names == (name,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "query_id"}, "column 'query_id' cannot be both label and query"),
        ({"document": "query_id"}, "column 'query_id' cannot be both query and document"),
        ({"weight": "label"}, "column 'label' cannot be both label and weight"),
        ({"features": ["price", "label"]}, "column 'label' cannot be both a feature and label"),
        ({"features": ["price", "price"]}, "features= names column 'price' more than once"),
        ({"features": []}, "features= names no column"),
    ],
)
def test_a_column_has_one_role(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    path = _write(tmp_path / "a.parquet", COLUMNS)
    with pytest.raises(UsageError, match=message):
        read(path, **options)


def test_a_set_without_features_survives_as_the_file_notes_it(tmp_path: Path) -> None:
    ds = Dataset.from_arrays(np.empty((3, 0)), [0, 1, 2], [1, 1, 2], document_ids=[7, 8, 9])
    write(ds, tmp_path / "a.parquet")
    assert difference(read(tmp_path / "a.parquet"), ds) is None
