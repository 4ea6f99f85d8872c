from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from plackett.base.errors import DataError
from plackett.data.inputs import as_features, as_ids, as_labels, as_weights, check_features, check_names

VALUES = np.array([[1.5, 0.0], [-2.0, 3.0], [0.0, 7.0]])


@pytest.mark.parametrize(
    "table",
    [
        VALUES,
        VALUES.tolist(),
        VALUES.astype(np.float16),
        np.asfortranarray(VALUES),
        np.repeat(VALUES, 2, axis=0)[::2],
        VALUES.astype(object),
        [[Decimal(x) for x in row] for row in VALUES.tolist()],
        pd.DataFrame(VALUES),
        pd.DataFrame({"a": VALUES[:, 0], "b": VALUES[:, 1].astype(int)}),
        pd.DataFrame({"a": VALUES[:, 0], "b": pd.array([0, 3, 7], dtype="Int64")}),
        pl.DataFrame({"a": VALUES[:, 0], "b": [0, 3, 7]}),
        pa.table({"a": VALUES[:, 0], "b": [0, 3, 7]}),
        pa.record_batch({"a": VALUES[:, 0], "b": [0, 3, 7]}),
    ],
    ids=lambda table: f"{type(table).__module__.split('.')[0]}.{type(table).__name__}",
)
def test_every_kind_of_table_gives_the_same_contiguous_float32(table: Any) -> None:
    features, _, _ = as_features(table)
    assert features.dtype == np.float32
    assert features.flags.c_contiguous
    assert np.array_equal(features, VALUES)


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_sparse_matrices_become_csr_without_duplicates(make: Any) -> None:
    features, names, _ = as_features(make(VALUES))
    assert isinstance(features, sparse.csr_array)
    assert features.dtype == np.float32
    assert features.has_canonical_format
    assert names is None
    assert np.array_equal(features.toarray(), VALUES)


def test_a_sparse_matrix_in_disorder_is_read_and_left_as_it_was() -> None:
    data, columns = np.float32([1, 2, 4]), np.array([1, 0, 1], np.int32)
    inputs = sparse.csr_array((data, columns, [0, 3]), shape=(1, 2))
    features, _, _ = as_features(inputs)
    assert features.toarray().tolist() == [[2, 5]]
    assert inputs.data.tolist() == [1, 2, 4]
    assert inputs.indices.tolist() == [1, 0, 1]


def test_tables_give_their_column_names() -> None:
    for table in (pd.DataFrame, pl.DataFrame, pa.table):
        assert as_features(table({"x": [1.0], "y": [2.0]}))[1] == ("x", "y")
    assert as_features(pd.DataFrame(VALUES))[1] == ("0", "1")
    assert as_features(VALUES)[1] is None


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": [1.0, None]}),
        pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}),
        pd.DataFrame({"a": pd.array([True, None], dtype="boolean")}),
        pl.DataFrame({"a": [1, None]}),
        pa.table({"a": pa.array([1, None])}),
        pa.table({"a": pa.array([True, None])}),
        [[1.0], [None]],
    ],
)
def test_nulls_of_every_kind_become_nan(table: Any) -> None:
    features, _, _ = as_features(table)
    assert features[0, 0] == 1
    assert np.isnan(features[1, 0])


@pytest.mark.parametrize(
    "table",
    [
        [["1.5"]],
        [["a"]],
        np.array([["1"]]),
        np.array([[b"1"]]),
        np.array([[1.0, "2"]], dtype=object),
        np.array([["2020-01-01"]], dtype="M8[D]"),
        np.array([[1 + 2j]]),
        pd.DataFrame({"a": ["1.5"]}),
        pd.DataFrame({"a": [datetime.datetime(2020, 1, 1)]}),
        pl.DataFrame({"a": ["1"]}),
        pa.table({"a": ["1"]}),
    ],
)
def test_what_is_not_a_number_is_refused_even_where_it_looks_like_one(table: Any) -> None:
    with pytest.raises(DataError, match="must be numbers"):
        as_features(table)


def test_rows_of_different_lengths_are_refused_as_such() -> None:
    with pytest.raises(DataError, match=r"as many values in each row as in the others\.$"):
        as_features([[1.0], [1.0, 2.0]])


def test_the_refusal_names_the_column() -> None:
    with pytest.raises(DataError, match="feature 'title' must be numbers: found text"):
        as_features(pa.table({"price": [1.0], "title": ["x"]}))


@pytest.mark.parametrize("shape", [(3,), (), (2, 2, 2)])
def test_features_have_two_dimensions(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="two dimensions"):
        as_features(np.zeros(shape))
    with pytest.raises(DataError, match="two dimensions"):
        as_features(sparse.coo_array(np.ones(3)))


def test_a_table_without_columns_has_as_many_rows_as_it_says() -> None:
    assert as_features(np.empty((4, 0)))[0].shape == (4, 0)
    assert as_features(pd.DataFrame(index=range(4)))[0].shape == (4, 0)


@pytest.mark.parametrize("make", [np.array, pd.DataFrame, sparse.csr_array])
def test_numbers_beyond_float32_are_refused_as_infinite(make: Any) -> None:
    features, _, _ = as_features(make([[0.0, 1.0], [2.0, 1e39]]))
    with pytest.raises(DataError, match=r"row 1 \(counted from 0\): feature 2 .* is inf; .*finite"):
        check_features(features, None)


@pytest.mark.parametrize("make", [np.float32, lambda x: sparse.csr_array(np.float32(x))])
def test_nan_is_refused_unless_it_stands_for_missing(make: Any) -> None:
    features = make([[1, 2, 3], [0, np.nan, 0]])
    check_features(features, "nan")
    with pytest.raises(DataError, match=r'row 1 .*: feature 2 .* is nan; pass missing="nan"'):
        check_features(features, None)
    with pytest.raises(DataError, match="feature 'b' is nan"):
        check_features(features, None, ("a", "b", "c"))


def test_infinities_of_both_signs_are_refused_without_a_warning() -> None:
    with pytest.raises(DataError, match=r"row 0 .*: feature 2 .* is inf"):
        check_features(np.float32([[1, np.inf], [-np.inf, 2]]), None)


def test_infinity_is_refused_also_beside_missing_values() -> None:
    features = np.float32([[np.nan, np.nan], [np.nan, -np.inf]])
    with pytest.raises(DataError, match=r"row 1 .*: feature 2 .* is -inf"):
        check_features(features, "nan")


def test_an_unknown_rule_for_missing_values_is_refused() -> None:
    with pytest.raises(DataError, match="missing must be None or"):
        check_features(np.zeros((1, 1), np.float32), "zero")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "labels",
    [
        [0, 1, 2.5],
        np.array([0, 1, 2.5]),
        pd.Series([0, 1, 2.5]),
        pl.Series([0.0, 1.0, 2.5]),
        pa.array([0, 1, 2.5]),
        pa.chunked_array([[0.0], [1, 2.5]]),
        (Decimal(0), 1, Decimal("2.5")),
    ],
)
def test_labels_of_every_kind_become_float32(labels: Any) -> None:
    result = as_labels(labels, 3)
    assert result.dtype == np.float32
    assert result.tolist() == [0, 1, 2.5]


def test_a_label_of_minus_zero_is_zero_and_large_labels_stay() -> None:
    result = as_labels([-0.0, 1e30], 2)
    assert not np.signbit(result).any()
    assert result[1] == np.float32(1e30)


@pytest.mark.parametrize("bad", [-1, np.nan, np.inf, None, 1e39])
def test_a_label_that_is_not_a_number_from_0_up_is_refused_with_its_row(bad: Any) -> None:
    with pytest.raises(DataError, match=r"row 2 \(counted from 0\): label .*zero or"):
        as_labels([1, 0, bad], 3)


@pytest.mark.parametrize("bad", [["1"], ["a"], np.array(["2020-01-01"], "M8[D]"), [b"1"]])
def test_labels_that_are_not_numbers_are_refused(bad: Any) -> None:
    with pytest.raises(DataError, match="labels must be numbers"):
        as_labels(bad, 1)


def test_labels_are_one_per_row() -> None:
    with pytest.raises(DataError, match=r"labels must be 3 numbers, one per row, got shape \(2,\)"):
        as_labels([0, 1], 3)


@pytest.mark.parametrize(
    "ids",
    [
        [3, 1],
        np.array([3, 1], np.uint8),
        pd.Series([3, 1]),
        pl.Series([3, 1]),
        pa.array([3, 1]),
        np.array([3, 1], np.uint64),
        pd.Series(pd.array([3, 1], dtype="Int64")),
    ],
)
def test_integers_of_every_kind_become_int64_ids(ids: Any) -> None:
    result = as_ids(ids, 2, what="query_ids")
    assert result.dtype == np.int64
    assert result.tolist() == [3, 1]


@pytest.mark.parametrize(
    "ids",
    [
        ["x", "ünï"],
        np.array(["x", "ünï"], object),
        pd.Series(["x", "ünï"]),
        pl.Series(["x", "ünï"]),
        pa.array(["x", "ünï"]),
        pd.Series(pd.Categorical(["x", "ünï"])),
        pa.array(["x", "ünï"]).dictionary_encode(),
        np.array([b"x", "ünï".encode()]),
        [b"x", "ünï".encode()],
        np.array(["x", "ünï"], dtype=">U3"),
        np.array(["x", "ünï"], np.dtypes.StringDType()),
    ],
)
def test_strings_of_every_kind_become_text_ids(ids: Any) -> None:
    result = as_ids(ids, 2, what="query_ids")
    assert result.dtype.kind == "U"
    assert result.tolist() == ["x", "ünï"]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1.5, 2.0], "integers or strings, got float64"),
        ([True, False], "integers or strings, got bool"),
        (np.array([1, "a"], object), "all integers or all strings, got int, str"),
        (pd.Series([1, None]), "integers or strings, got float64"),
        (pd.Series(["a", None]), "all integers or all strings"),
        (np.array([True, 1], object), "all integers or all strings, got bool, int"),
        ([1, "1"], "all integers or all strings, got int, str"),
        (("a", b"a"), "all integers or all strings, got bytes, str"),
        ([b"a", b"\xff"], "text in UTF-8"),
        (np.array([b"a", b"\xff"]), "text in UTF-8"),
        (["a", "a\0"], "without NUL .* in row 1"),
        (np.array(["a", "a\0b"]), "without NUL .* in row 1"),
        (np.array(["a", "a\0b"], dtype=">U3"), "without NUL .* in row 1"),
        (np.array([b"a", b"a\0b"]), "without NUL .* in row 1"),
        (pd.Series(["a", "a\0"], dtype=object), "without NUL .* in row 1"),
        (["a", "\ud800"], "lone surrogates, got .* in row 1"),
        ([1, 2, 3], "2 values, one per row, got shape"),
        ([[1], [2]], "2 values, one per row, got shape"),
    ],
)
def test_other_ids_are_refused_by_their_kind(ids: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"^query_ids must .*{message}"):
        as_ids(ids, 2, what="query_ids")


NAMES, CODES = np.array(["b", "a"]), np.array([0, 1, 1])


@pytest.mark.parametrize(
    "weights", [{"a": 2, "b": 0.5, "z": 9}, [0.5, 2], [0.5, 2, 2], pd.Series([0.5, 2, 2]), pa.array([0.5, 2])]
)
def test_weights_come_by_query_by_list_or_by_row(weights: Any) -> None:
    result = as_weights(weights, NAMES, CODES)
    assert result.dtype == np.float64
    assert result.tolist() == [0.5, 2]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"a": 1}, r"weights lack query 'b' \(and 0 more\)"),
        ([1, 2, 3], "rows of query 'a' have different weights"),
        ([1, 2, 3, 4], r"2 \(one per list.*3 \(one per row\).*got shape \(4,\)"),
        ([1, -1], "weight of query 'a' is -1.0; weights are finite and not negative"),
        ([np.nan, 1], "weight of query 'b' is nan"),
        ({"a": 1, "b": np.inf}, "weight of query 'b' is inf"),
        (["x", "y"], "weights must be numbers"),
        ({"a": "x", "b": 1}, "weights must be numbers"),
    ],
)
def test_other_weights_are_refused(weights: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        as_weights(weights, NAMES, CODES)


def test_feature_names_are_one_per_feature_and_all_different() -> None:
    assert check_names(None, 3) is None
    assert check_names(["a", "b"], 2) == ("a", "b")
    with pytest.raises(DataError, match="2 feature names for 3 features"):
        check_names(["a", "b"], 3)
    with pytest.raises(DataError, match="feature name 'a' occurs more than once"):
        check_names(["a", "b", "a"], 3)
