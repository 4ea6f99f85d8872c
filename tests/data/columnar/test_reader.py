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

from columnar_files import COLUMNS, EXPECTED, renamed as _renamed, write_file as _write
from dataset_helpers import difference, make_rows
from plackett.base.errors import DataError
from plackett.data.dataset import Dataset
from plackett.data.reader import read
from plackett.data.writer import write


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".feather"])
def test_columns_that_are_left_are_features_in_the_order_of_the_file(tmp_path: Path, suffix: str) -> None:
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
    [pa.list_(pa.float32()), pa.list_(pa.float64(), 2), pa.large_list(pa.int32()), pa.list_(pa.float16())],
    ids=str,
)
@pytest.mark.parametrize("name", ["features", "embedding"])
def test_features_can_be_one_column_of_lists(tmp_path: Path, kind: pa.DataType, name: str) -> None:
    values = pa.array([[1, 10], [2, 0], [3, 7]], kind)
    columns = {"query_id": ["a", "a", "b"], "label": [2, 0, 1], name: values, "other": [9, 9, 9]}
    path = _write(tmp_path / "a.parquet", columns)
    actual = read(path) if name == "features" else read(path, features=name)
    expected = Dataset.from_arrays([[1, 10], [2, 0], [3, 7]], [2, 0, 1], ["a", "a", "b"])
    assert difference(actual, expected) is None


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
        data = read(_write(tmp_path / f"a{suffix}", COLUMNS | {"extra": values}))
        assert data.features[:, 2].tolist() == [1, 0, 1]


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
    with pytest.raises(DataError, match=r'a\.parquet: row 1 \(counted from 0\): feature .extra. is nan.*missing="nan"'):
        read(path)
    data = read(path, missing="nan")
    assert np.isnan(data.features[:, 2]).tolist() == [False, True, True]


def test_a_column_of_nothing_but_nulls_is_a_feature_with_missing_values(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.parquet", COLUMNS | {"extra": pa.nulls(3)})
    assert np.isnan(read(path, missing="nan").features[:, 2]).all()


def test_nulls_inside_lists_are_missing_values(tmp_path: Path) -> None:
    values = pa.array([[1.0, 2.0], [None, 3.0]])
    path = _write(tmp_path / "a.parquet", {"label": [0, 1], "qid": [1, 1], "features": values})
    with pytest.raises(DataError, match=r"row 1 .*: feature 1 \(counted from 1\) is nan"):
        read(path)
    data = read(path, missing="nan")
    assert np.isnan(data.features).tolist() == [[False, False], [True, False]]


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
def test_a_column_that_cannot_be_right_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = _write(tmp_path / "a.parquet", COLUMNS | change)
    with pytest.raises(DataError, match=message):
        read(path)


@pytest.mark.parametrize("features", [[[1, 2], [3]], [[1, 2], None], [[1, 2], [3, 4, 5]]])
def test_lists_of_different_lengths_are_refused_with_the_row(tmp_path: Path, features: list[Any]) -> None:
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
    data = read(shards, progress=lambda done, total: calls.append((done, total)))
    assert difference(data, whole) is None
    size = sum(file.stat().st_size for file in shards.glob("*.parquet"))
    assert calls[-1] == (size, size)


def test_a_shard_that_lacks_a_column_is_named(tmp_path: Path) -> None:
    _write(tmp_path / "1.parquet", COLUMNS)
    _write(tmp_path / "2.parquet", _renamed(price="cost"))
    with pytest.raises(DataError, match=r"2\.parquet: there is no column 'price', which other files"):
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
        data = read(tmp_path / "a.parquet")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Beside the matrix: labels, ids, hashes and order (a few words per document), and one batch.
    assert peak < 1.6 * data.features.nbytes
    assert pa.total_allocated_bytes() <= pool


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
def test_types_are_checked_in_every_shard(tmp_path: Path, column: str, values: list[Any], message: str) -> None:
    columns = COLUMNS | {"weight": [1.0, 1.0, 1.0]}
    _write(tmp_path / "1.parquet", columns)
    _write(tmp_path / "2.parquet", columns | {column: values})
    with pytest.raises(DataError, match=rf"2\.parquet: {message}"):
        read(tmp_path)


def test_lists_are_checked_in_every_shard(tmp_path: Path) -> None:
    columns = {"qid": [1, 1], "label": [0, 1]}
    _write(tmp_path / "1.parquet", columns | {"features": [[1.0], [2.0]]})
    _write(tmp_path / "2.parquet", columns | {"features": [["1"], ["2"]]})
    with pytest.raises(DataError, match=r"2\.parquet: column 'features' must be lists of numbers, got list<"):
        read(tmp_path)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_ids_and_names_that_are_no_text_are_an_error_that_names_the_file(tmp_path: Path, suffix: str) -> None:
    path = _write(tmp_path / f"a{suffix}", COLUMNS | {"query_id": ["qqqq", "qqqq", "bbbb"]})
    content = path.read_bytes()
    for text in (b"qqqq", b"price"):
        path.write_bytes(content.replace(text, b"\xff" * len(text)))
        with pytest.raises(DataError, match=rf"a\{suffix}: not a readable"):
            read(path)


@pytest.mark.parametrize("features", [{}, {"features": [[], [], []]}])
def test_a_table_without_features_is_refused(tmp_path: Path, features: dict[str, Any]) -> None:
    columns = {"query_id": ["a", "a", "b"], "label": [2, 0, 1]}
    path = _write(tmp_path / "a.parquet", columns | features)
    with pytest.raises(DataError, match=r"a\.parquet: has no features"):
        read(path)


def test_wrong_weights_are_reported_with_the_file(tmp_path: Path) -> None:
    for weights in ([1.0, 2.0, 3.0], [-1.0, -1.0, 1.0]):
        path = _write(tmp_path / "a.parquet", COLUMNS | {"weight": weights})
        with pytest.raises(DataError, match=r"a\.parquet: the .* of query 'a' .*weight"):
            read(path)


def test_strict_reading_names_the_first_query_that_occurs_again(tmp_path: Path) -> None:
    columns = {"label": [0] * 6, "qid": ["a", "b", "c", "c", "b", "a"], "x": [1.0] * 6}
    path = _write(tmp_path / "a.parquet", columns)
    with pytest.raises(DataError, match=r"a\.parquet: row 4 \(counted from 0\): query id 'b' occurs again"):
        read(path, strict=True)
