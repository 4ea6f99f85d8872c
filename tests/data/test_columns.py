from __future__ import annotations

import tracemalloc
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dataset_helpers import difference, make_rows
from plackett.base.errors import DataError, UsageError
from plackett.data.dataset import Dataset
from plackett.data.reader import read
from plackett.data.writer import write

COLUMNS: dict[str, Any] = {
    "query_id": ["a", "a", "b"],
    "label": [2, 0, 1],
    "price": [1.5, 2.5, 3.5],
    "clicks": [10, 0, 7],
}
EXPECTED = Dataset.from_arrays(
    [[1.5, 10], [2.5, 0], [3.5, 7]],
    [2, 0, 1],
    ["a", "a", "b"],
    feature_names=["price", "clicks"],
)


def _write(path: Path, columns: dict[str, Any] | pa.Table) -> Path:
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=2)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    return path


def _renamed(**names: str) -> dict[str, Any]:
    return {names.get(name, name): column for name, column in COLUMNS.items()}


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".feather"])
def test_columns_that_are_left_are_features_in_the_order_of_the_file(
    tmp_path: Path, suffix: str
) -> None:
    assert difference(read(_write(tmp_path / f"a{suffix}", COLUMNS)), EXPECTED) is None


def test_an_arrow_stream_is_read_like_a_file(tmp_path: Path) -> None:
    table = pa.table(COLUMNS)
    with pa.ipc.new_stream(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=1)
    assert difference(read(tmp_path / "a.arrow"), EXPECTED) is None


def test_compressed_feather_is_read(tmp_path: Path) -> None:
    import pyarrow.feather

    pyarrow.feather.write_feather(pa.table(COLUMNS), tmp_path / "a.feather", compression="zstd")
    assert difference(read(tmp_path / "a.feather"), EXPECTED) is None


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_files_of_other_libraries_are_read(tmp_path: Path, library: str) -> None:
    path = tmp_path / "a.parquet"
    if library == "pandas":
        # An index that is not a plain range is stored as a column, which is no feature.
        pd.DataFrame(COLUMNS, index=[5, 9, 1]).to_parquet(path)
    else:
        pl.DataFrame(COLUMNS).write_parquet(path)
    assert difference(read(path), EXPECTED) is None


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.float32()),
        pa.list_(pa.float64(), 2),
        pa.large_list(pa.int32()),
        pa.list_(pa.float16()),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["features", "embedding"])
def test_features_can_be_one_column_of_lists(tmp_path: Path, kind: pa.DataType, name: str) -> None:
    values = pa.array([[1, 10], [2, 0], [3, 7]], kind)
    columns = {"query_id": ["a", "a", "b"], "label": [2, 0, 1], name: values, "other": [9, 9, 9]}
    path = _write(tmp_path / "a.parquet", columns)
    found = read(path) if name == "features" else read(path, features=name)
    expected = Dataset.from_arrays([[1, 10], [2, 0], [3, 7]], [2, 0, 1], ["a", "a", "b"])
    assert difference(found, expected) is None


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
    found = read(path, features=["clicks", "price"])
    assert found.feature_names == ("clicks", "price")
    assert found.to_rows(found.features).tolist() == [[10, 1.5], [0, 2.5], [7, 3.5]]
    assert read(path, features="price").n_features == 1


@pytest.mark.parametrize("name", ["document_id", "docid", "doc_id", "url"])
def test_document_ids_are_found_or_named(tmp_path: Path, name: str) -> None:
    path = _write(tmp_path / "a.parquet", COLUMNS | {name: [9, 8, 7]})
    found = read(path, document="url") if name == "url" else read(path)
    assert found.to_rows(found.document_ids).tolist() == [9, 8, 7]
    assert found.feature_names == ("price", "clicks")


def test_a_column_of_a_usual_name_can_be_a_feature(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.parquet", COLUMNS | {"weight": [1.0, 2.0, 3.0], "docid": [1, 2, 3]})
    found = read(path, features=["price", "weight", "docid"])
    assert found.weights is None
    assert found.document_ids is None
    assert found.feature_names == ("price", "weight", "docid")


@pytest.mark.parametrize("name", ["weight", "importance"])
def test_weights_are_found_or_named(tmp_path: Path, name: str) -> None:
    path = _write(tmp_path / "a.parquet", COLUMNS | {name: [0.5, 0.5, 2.0]})
    found = read(path) if name == "weight" else read(path, weight=name)
    assert dict(zip(found.query_ids.tolist(), found.weights.tolist(), strict=True)) == {
        "a": 0.5,
        "b": 2.0,
    }


def test_data_without_labels_do_not_take_the_label_for_a_feature(tmp_path: Path) -> None:
    found = read(_write(tmp_path / "a.parquet", COLUMNS), label=None)
    assert not found.labels.any()
    assert found.feature_names == ("price", "clicks")


@pytest.mark.parametrize(
    "values",
    [
        pa.array([True, False, True]),
        pa.array([1, 0, 1], pa.uint8()),
        pa.array([1, 0, 1], pa.decimal128(5, 2)),
        pa.array([1.0, 0.0, 1.0]).dictionary_encode(),
    ],
    ids=lambda v: str(v.type),
)
def test_every_kind_of_number_is_a_feature(tmp_path: Path, values: pa.Array) -> None:
    for suffix in (".parquet", ".arrow"):
        found = read(_write(tmp_path / f"a{suffix}", COLUMNS | {"extra": values}))
        assert found.to_rows(found.features)[:, 2].tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.0, None, np.nan]),
        pa.array([1, None, None]),
        pa.array([True, None, None]),
        pa.array([1, None, None], pa.decimal128(5, 2)),
    ],
    ids=lambda v: str(v.type),
)
def test_nulls_of_features_are_missing_values(tmp_path: Path, values: pa.Array) -> None:
    path = _write(tmp_path / "a.parquet", COLUMNS | {"extra": values})
    with pytest.raises(
        DataError,
        match=r'a\.parquet: row 1 \(counted from 0\): feature .extra. is nan.*missing="nan"',
    ):
        read(path)
    found = read(path, missing="nan")
    assert np.isnan(found.to_rows(found.features)[:, 2]).tolist() == [False, True, True]


def test_a_column_of_nothing_but_nulls_is_a_feature_with_missing_values(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.parquet", COLUMNS | {"extra": pa.nulls(3)})
    assert np.isnan(read(path, missing="nan").features[:, 2]).all()


def test_nulls_inside_lists_are_missing_values(tmp_path: Path) -> None:
    values = pa.array([[1.0, 2.0], [None, 3.0]])
    path = _write(tmp_path / "a.parquet", {"label": [0, 1], "qid": [1, 1], "features": values})
    with pytest.raises(DataError, match=r"row 1 .*: feature 1 \(counted from 1\) is nan"):
        read(path)
    found = read(path, missing="nan")
    assert np.isnan(found.to_rows(found.features)).tolist() == [[False, False], [True, False]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": [2, None, 1]}, r"row 1 \(counted from 0\): column 'label' is null"),
        ({"query_id": ["a", "a", None]}, r"row 2 \(counted from 0\): column 'query_id' is null"),
        ({"document_id": [1, None, 2]}, r"row 1 .*column 'document_id' is null"),
        ({"weight": [1.0, 1.0, None]}, r"row 2 .*column 'weight' is null"),
        ({"label": [2, -1, 1]}, r"row 1 \(counted from 0\): label -1"),
        ({"label": [2.0, np.nan, 1]}, r"row 1 .*: label nan"),
        ({"label": ["2", "0", "1"]}, "column 'label' must be numbers, got string"),
        ({"query_id": [1.5, 1.5, 2.5]}, "column 'query_id' must be integers .* got float64"),
        ({"price": ["1", "2", "3"]}, "column 'price' holds string, and features are numbers"),
        ({"price": [[1], [2], [3]]}, "column 'price' holds list<.*>, and features are numbers"),
        ({"price": [1e39, 2, 3]}, "row 0 .*: feature 'price' is inf; features must be finite"),
        ({"weight": [1.0, 2.0, 3.0]}, "rows of query 'a' have different weights"),
        ({"docid": [1, 2, 3], "doc_id": [1, 2, 3]}, "2 that could be it: 'docid', 'doc_id'"),
    ],
)
def test_a_column_that_cannot_be_right_is_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = _write(tmp_path / "a.parquet", COLUMNS | change)
    with pytest.raises(DataError, match=message):
        read(path)


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


@pytest.mark.parametrize("features", [[[1, 2], [3]], [[1, 2], None], [[1, 2], [3, 4, 5]]])
def test_lists_of_different_lengths_are_refused_with_the_row(
    tmp_path: Path, features: list[Any]
) -> None:
    columns = {"label": [0] * 4, "qid": [1] * 4, "features": [[0, 0], [0, 0], *features]}
    path = _write(tmp_path / "a.parquet", columns)
    with pytest.raises(DataError, match=r"row 3 \(counted from 0\): "):
        read(path)


def test_a_directory_of_parquet_files_is_one_set(tmp_path: Path) -> None:
    rows = make_rows(90, n_lists=9, documents=True, strings=True)
    whole = rows.dataset()
    shards = tmp_path / "shards"
    for number, part in enumerate(np.array_split(np.arange(90), 4)):
        write(rows.take(part).dataset(), shards / f"part-{number}.parquet")
    (shards / "_SUCCESS").write_text("")
    calls: list[tuple[int, int]] = []
    found = read(shards, progress=lambda done, total: calls.append((done, total)))
    assert difference(found, whole) is None
    size = sum(file.stat().st_size for file in shards.glob("*.parquet"))
    assert calls[-1] == (size, size)


def test_a_shard_that_lacks_a_column_is_named(tmp_path: Path) -> None:
    _write(tmp_path / "1.parquet", COLUMNS)
    _write(tmp_path / "2.parquet", _renamed(price="cost"))
    with pytest.raises(
        DataError, match=r"2\.parquet: there is no column 'price', which other files"
    ):
        read(tmp_path)


def test_shards_with_ids_of_different_kinds_are_refused(tmp_path: Path) -> None:
    _write(tmp_path / "1.parquet", COLUMNS)
    _write(tmp_path / "2.parquet", COLUMNS | {"query_id": [1, 2, 3]})
    with pytest.raises(DataError, match="integers in some files and strings in others"):
        read(tmp_path)


def test_a_directory_with_a_train_and_a_test_set_is_not_read_as_one(tmp_path: Path) -> None:
    _write(tmp_path / "train.parquet", COLUMNS)
    _write(tmp_path / "test.parquet", COLUMNS)
    with pytest.raises(DataError, match="this directory is a fold; read it with read_folds"):
        read(tmp_path)


def test_an_empty_table_is_refused(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.parquet", pa.table(COLUMNS).slice(0, 0))
    with pytest.raises(DataError, match=r"a\.parquet: there are no documents"):
        read(path)


def test_an_empty_table_of_lists_is_refused(tmp_path: Path) -> None:
    table = pa.table({"label": [0], "qid": [1], "features": [[1.0]]}).slice(0, 0)
    with pytest.raises(DataError, match=r"a\.parquet: there are no documents"):
        read(_write(tmp_path / "a.parquet", table))


def test_a_column_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1])] * 4, ["label", "qid", "x", "x"])
    with pytest.raises(DataError, match="column 'x' occurs more than once"):
        read(_write(tmp_path / "a.arrow", table))


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("cut", [0, 3, 50, 0.5, 0.99])
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, suffix: str, cut: float) -> None:
    path = _write(tmp_path / f"a{suffix}", COLUMNS)
    content = path.read_bytes()
    path.write_bytes(content[: int(cut if cut > 1 else cut * len(content))])
    with pytest.raises(DataError, match=rf"a\{suffix}"):
        read(path)


def test_a_feature_with_the_name_of_another_column_is_not_written(tmp_path: Path) -> None:
    ds = make_rows().dataset(feature_names=["a", "label", "c"])
    with pytest.raises(DataError, match="feature name 'label' is also the name of the column"):
        write(ds, tmp_path / "a.parquet")
    assert not (tmp_path / "a.parquet").exists()


def test_written_columns_have_the_names_of_their_features(tmp_path: Path) -> None:
    write(make_rows(documents=True).dataset(), tmp_path / "unnamed.parquet")
    names = pq.read_schema(tmp_path / "unnamed.parquet").names
    assert names == ["label", "query_id", "document_id", "f1", "f2", "f3"]
    ds = make_rows().dataset(feature_names=["x", "y.z", "ü"], weights=np.ones(6))
    write(ds, tmp_path / "named.parquet")
    names = pq.read_schema(tmp_path / "named.parquet").names
    assert names == ["label", "query_id", "weight", "x", "y.z", "ü"]
    assert difference(read(tmp_path / "named.parquet"), ds) is None


def test_the_features_are_in_memory_only_once_while_reading(tmp_path: Path) -> None:
    rows = make_rows(100_000, 40, 900)
    write(rows.dataset(), tmp_path / "a.parquet")
    read(tmp_path / "a.parquet")  # compiles
    tracemalloc.start()
    pool = pa.total_allocated_bytes()
    try:
        found = read(tmp_path / "a.parquet")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Beside the matrix: labels, ids, hashes and order (a few words per document), and one batch.
    assert peak < 1.6 * found.features.nbytes
    assert pa.total_allocated_bytes() <= pool


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
def test_a_feature_of_any_name_is_read_back_as_a_feature(
    tmp_path: Path, suffix: str, names: list[str]
) -> None:
    ds = make_rows().dataset(feature_names=names)
    write(ds, tmp_path / f"a{suffix}")
    assert difference(read(tmp_path / f"a{suffix}"), ds) is None
    # The label is known to be another column.
    assert read(tmp_path / f"a{suffix}", label=None).feature_names == tuple(names)


def test_a_choice_of_columns_wins_over_what_the_file_notes(tmp_path: Path) -> None:
    rows = make_rows()
    rows.features[:, 0] = 2
    write(rows.dataset(feature_names=["weight", "docid", "x"]), tmp_path / "a.parquet")
    found = read(tmp_path / "a.parquet", weight="weight")
    assert found.weights.tolist() == [2.0] * found.n_lists
    assert found.feature_names == ("docid", "x")
    found = read(tmp_path / "a.parquet", label="weight", features=["docid"])
    assert found.feature_names == ("docid",)
    assert found.labels.tolist() == [2.0] * found.n_docs
    assert found.weights is None


def test_columns_added_to_a_file_of_ours_are_found_by_their_names(tmp_path: Path) -> None:
    write(make_rows().dataset(feature_names=["docid", "b", "c"]), tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet").drop_columns(["c"])
    table = table.append_column("weight", pa.array([1.0] * 40)).append_column("d", table["b"])
    found = read(_write(tmp_path / "b.parquet", table))
    assert found.feature_names == ("docid", "b", "d")
    assert found.weights.tolist() == [1.0] * found.n_lists


@pytest.mark.parametrize("note", [b"{", b"[]", b'{"features": [1], "named": true}', b"\xff"])
def test_a_damaged_note_of_the_features_is_refused(tmp_path: Path, note: bytes) -> None:
    table = pa.table(COLUMNS).replace_schema_metadata({b"plackett": note})
    with pytest.raises(DataError, match=r"a\.parquet: "):
        read(_write(tmp_path / "a.parquet", table))


def test_shards_that_differ_in_what_is_a_feature_are_refused(tmp_path: Path) -> None:
    write(make_rows().dataset(feature_names=["weight", "b", "c"]), tmp_path / "1.parquet")
    ds = make_rows().dataset(feature_names=["a", "b", "c"], weights=np.ones(6))
    write(ds, tmp_path / "2.parquet")
    with pytest.raises(
        DataError, match=r"2\.parquet: column 'weight' is no feature here, and a feature in the"
    ):
        read(tmp_path)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("price", ["5", "6", "7"], "column 'price' holds string, and features are numbers"),
        ("price", [datetime(2020, 1, 1)] * 3, "column 'price' holds timestamp"),
        ("price", [[1.0]] * 3, "column 'price' holds list<"),
        ("label", ["5", "6", "7"], "column 'label' must be numbers, got string"),
        ("weight", ["1", "1", "1"], "column 'weight' must be numbers, got string"),
    ],
)
def test_types_are_checked_in_every_shard(
    tmp_path: Path, column: str, values: list[Any], message: str
) -> None:
    columns = COLUMNS | {"weight": [1.0, 1.0, 1.0]}
    _write(tmp_path / "1.parquet", columns)
    _write(tmp_path / "2.parquet", columns | {column: values})
    with pytest.raises(DataError, match=rf"2\.parquet: {message}"):
        read(tmp_path)


def test_lists_are_checked_in_every_shard(tmp_path: Path) -> None:
    columns = {"qid": [1, 1], "label": [0, 1]}
    _write(tmp_path / "1.parquet", columns | {"features": [[1.0], [2.0]]})
    _write(tmp_path / "2.parquet", columns | {"features": [["1"], ["2"]]})
    with pytest.raises(
        DataError, match=r"2\.parquet: column 'features' must be lists of numbers, got list<"
    ):
        read(tmp_path)


@pytest.mark.parametrize("name", ["relevance", "rel", "grade", "target", "y"])
def test_labels_of_any_usual_name_are_no_feature_of_data_read_without(
    tmp_path: Path, name: str
) -> None:
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


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_ids_and_names_that_are_no_text_are_an_error_that_names_the_file(
    tmp_path: Path, suffix: str
) -> None:
    path = _write(tmp_path / f"a{suffix}", COLUMNS | {"query_id": ["qqqq", "qqqq", "bbbb"]})
    content = path.read_bytes()
    for text in (b"qqqq", b"price"):
        path.write_bytes(content.replace(text, b"\xff" * len(text)))
        with pytest.raises(DataError, match=rf"a\{suffix}: not a readable Parquet or Arrow file"):
            read(path)


@pytest.mark.parametrize("features", [{}, {"features": [[], [], []]}])
def test_a_table_without_features_is_refused(tmp_path: Path, features: dict[str, Any]) -> None:
    columns = {"query_id": ["a", "a", "b"], "label": [2, 0, 1]}
    path = _write(tmp_path / "a.parquet", columns | features)
    with pytest.raises(DataError, match=r"a\.parquet: has no features"):
        read(path)


def test_a_set_without_features_survives_as_the_file_notes_it(tmp_path: Path) -> None:
    ds = Dataset.from_arrays(np.empty((3, 0)), [0, 1, 2], [1, 1, 2], document_ids=[7, 8, 9])
    write(ds, tmp_path / "a.parquet")
    assert difference(read(tmp_path / "a.parquet"), ds) is None


def test_wrong_weights_are_reported_with_the_file(tmp_path: Path) -> None:
    for weights in ([1.0, 2.0, 3.0], [-1.0, -1.0, 1.0]):
        path = _write(tmp_path / "a.parquet", COLUMNS | {"weight": weights})
        with pytest.raises(DataError, match=r"a\.parquet: the .* of query 'a' .*weight"):
            read(path)


def test_strict_reading_names_the_first_query_that_comes_back(tmp_path: Path) -> None:
    columns = {"label": [0] * 6, "qid": ["a", "b", "c", "c", "b", "a"], "x": [1.0] * 6}
    path = _write(tmp_path / "a.parquet", columns)
    with pytest.raises(
        DataError, match=r"a\.parquet: row 4 \(counted from 0\): query id 'b' occurs again"
    ):
        read(path, strict=True)
