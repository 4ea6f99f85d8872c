from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csr_array, csr_matrix, issparse

from dataset_helpers import Rows, difference, make_rows, row_sets
from plackett.base.errors import DataError, DataWarning
from plackett.data.dataset import Dataset
from plackett.data.inputs import Table


def _shuffled(rows: Rows, seed: int) -> Rows:
    return rows.take(np.random.default_rng(seed).permutation(len(rows.labels)))


@given(row_sets(), st.integers(0, 2**32))
def test_permuting_rows_changes_nothing_in_canonical_order(rows: Rows, seed: int) -> None:
    one, other = rows.dataset().canonical(), _shuffled(rows, seed).dataset().canonical()
    assert np.array_equal(one.features, other.features)
    assert np.array_equal(one.labels, other.labels)
    assert np.array_equal(one.offsets, other.offsets)
    assert np.array_equal(one.keys, other.keys)


@given(row_sets(), st.integers(0, 2**32), st.booleans())
def test_renaming_queries_changes_nothing_in_canonical_order(rows: Rows, seed: int, strings: bool) -> None:
    names = np.random.default_rng(seed).permutation(100)
    renamed = names[rows.query_ids]
    ids = np.array([f"q{i}" for i in renamed]) if strings else renamed
    one = rows.dataset().canonical()
    other = dataclasses.replace(rows, query_ids=ids).dataset().canonical()
    assert np.array_equal(one.features, other.features)
    assert np.array_equal(one.labels, other.labels)
    assert np.array_equal(one.offsets, other.offsets)
    assert np.array_equal(one.keys, other.keys)


@given(row_sets())
def test_labels_change_neither_order_nor_keys(rows: Rows) -> None:
    one = rows.dataset()
    other = dataclasses.replace(rows, labels=rows.labels[::-1].copy()).dataset()
    assert np.array_equal(one.order.rows, other.order.rows)
    assert np.array_equal(one.keys, other.keys)


@given(row_sets())
def test_everything_is_in_the_order_of_the_callers_rows(rows: Rows) -> None:
    ds = rows.dataset()
    assert np.array_equal(ds.features, rows.features)
    assert np.array_equal(ds.labels, rows.labels)
    assert np.array_equal(ds.query_ids, rows.query_ids)
    assert np.array_equal(ds.list_ids[ds.list_of_row], rows.query_ids)
    assert ds.list_ids.tolist() == list(dict.fromkeys(rows.query_ids.tolist()))
    assert np.array_equal(ds.rows, np.arange(ds.n_docs))
    if rows.document_ids is not None:
        assert np.array_equal(ds.document_ids, rows.document_ids)


@given(row_sets())
def test_the_canonical_order_leads_back_to_the_rows(rows: Rows) -> None:
    ds = rows.dataset()
    canonical, order = ds.canonical(), ds.order
    assert np.array_equal(canonical.features, rows.features[order.rows])
    assert np.array_equal(order.restore(canonical.labels), rows.labels)
    assert np.array_equal(canonical.query_ids, rows.query_ids[order.rows])
    assert np.array_equal(canonical.offsets, order.offsets)
    assert np.array_equal(order.restore_lists(canonical.list_ids), ds.list_ids)
    lazy = ds.canonical(copy=False).features
    assert np.array_equal(lazy[np.arange(ds.n_docs)], canonical.features)
    assert canonical.canonical() is canonical


@given(row_sets())
def test_grouped_rows_have_offsets_and_scattered_ones_say_how_to_get_them(rows: Rows) -> None:
    ds = rows.dataset()
    grouped = ds.grouped()
    by_query = np.split(grouped.rows, grouped.offsets[1:-1])
    for query, actual in zip(ds.list_ids, by_query, strict=True):
        assert np.array_equal(actual, np.flatnonzero(rows.query_ids == query))
    if not ds.is_grouped:
        with pytest.raises(DataError, match=r"ds\.grouped\(\)"):
            _ = ds.offsets
    assert np.array_equal(ds.order.keys, grouped.order.keys)


def test_the_best_rows_of_each_list_come_first_and_ties_in_canonical_order() -> None:
    rows = make_rows()
    ds = rows.dataset()
    scores = np.round(rows.features[:, 0].astype(float))
    shuffled = np.random.default_rng(3).permutation(40)
    other = rows.take(shuffled).dataset()
    best, best_of_other = ds.rank(scores), shuffled[other.rank(scores[shuffled])]
    for query in ds.list_ids:
        ours = best[rows.query_ids[best] == query]
        assert np.all(np.diff(scores[ours]) <= 0)
        assert np.array_equal(ours, best_of_other[rows.query_ids[best_of_other] == query])


@given(row_sets())
def test_dense_and_sparse_features_give_the_same_lists(rows: Rows) -> None:
    dense = rows.dataset()
    sparse = Dataset.from_arrays(csr_array(rows.features), rows.labels, rows.query_ids, document_ids=rows.document_ids)
    assert issparse(sparse.features)
    assert np.array_equal(dense.features, sparse.features.toarray())
    assert difference(dense, sparse._replace(features=dense.features)) is None


@given(row_sets())
def test_the_sign_of_zero_does_not_matter(rows: Rows) -> None:
    other = dataclasses.replace(rows, features=rows.features + np.float32(0))
    one, other_set = rows.dataset(), other.dataset()
    assert np.array_equal(one.keys, other_set.keys)
    assert np.array_equal(one.order.rows, other_set.order.rows)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_tables_of_every_library_give_the_same_data_set(make: Any) -> None:
    rows = make_rows(documents=True)
    names = ("a", "b", "c")
    columns = {name: rows.features[:, j] for j, name in enumerate(names)}
    table = make(columns | {"y": rows.labels, "q": rows.query_ids, "d": rows.document_ids})
    features = table.select(list(names)) if make is not pd.DataFrame else table[list(names)]
    actual = Dataset.from_arrays(features, table["y"], table["q"], document_ids=table["d"])
    assert difference(actual, rows.dataset(feature_names=names)) is None


def test_the_sizes_are_those_of_the_arrays() -> None:
    ds = Dataset.from_arrays([[1, 2], [3, 4], [5, 6]], [0, 1, 2], ["a", "b", "a"])
    assert (ds.n_lists, ds.n_docs, ds.n_features) == (2, 3, 2)
    assert repr(ds) == "Dataset(2 lists, 3 documents, 2 features, labels 0..2)"
    assert ds.features.dtype == np.float32
    assert ds.labels.dtype == np.float32
    assert ds.grouped().offsets.dtype == ds.list_of_row.dtype == np.int64
    assert ds.keys.dtype == np.uint64


def test_lists_of_one_document_and_sets_of_one_list_work() -> None:
    single = Dataset.from_arrays([[3.0]], [1], ["only"])
    assert single.offsets.tolist() == [0, 1]
    assert repr(single) == "Dataset(1 lists, 1 documents, 1 feature, labels 1..1)"
    apart = Dataset.from_arrays([[3.0], [4.0], [5.0]], [1, 2, 3], [7, 8, 9])
    assert np.diff(apart.offsets).tolist() == [1, 1, 1]
    assert apart.labels.tolist() == [1, 2, 3]


def test_a_set_without_features_is_ordered_by_document_ids() -> None:
    ids = np.array(["x", "y", "z", "w"])
    one = Dataset.from_arrays(np.empty((4, 0)), [0, 1, 2, 3], [1, 1, 1, 2], document_ids=ids)
    back = [3, 2, 1, 0]
    other = Dataset.from_arrays(np.empty((4, 0)), [3, 2, 1, 0], [2, 1, 1, 1], document_ids=ids[back])
    assert one.n_features == 0
    one, other = one.canonical(), other.canonical()
    assert np.array_equal(one.labels, other.labels)
    assert np.array_equal(one.keys, other.keys)
    assert one.document_ids.tolist() == other.document_ids.tolist()


def test_data_without_labels_have_zeros() -> None:
    rows = make_rows()
    ds = Dataset.from_arrays(rows.features, None, rows.query_ids)
    assert not ds.labels.any()


def test_labels_of_any_size_are_kept() -> None:
    labels = [0, 0.5, 31, 1e6, 3e38]
    ds = Dataset.from_arrays(np.eye(5), labels, [1] * 5)
    assert ds.labels.tolist() == np.float32(labels).tolist()


@pytest.mark.parametrize("weights", [{3: 0.5, 8: 2.0}, [2.0, 0.5], [2.0, 0.5, 0.5], np.float32([2, 0.5])])
def test_weights_follow_their_lists(weights: Any) -> None:
    ds = Dataset.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 2], [8, 3, 3], weights=weights)
    assert dict(zip(ds.list_ids.tolist(), ds.weights.tolist(), strict=True)) == {3: 0.5, 8: 2.0}


def test_all_arrays_are_read_only_and_the_callers_stay_as_they_were() -> None:
    rows = make_rows(documents=True)
    before = [a.copy() for a in (rows.features, rows.labels, rows.query_ids, rows.document_ids)]
    ds = rows.dataset(weights=np.ones(len(np.unique(rows.query_ids))))
    for field in dataclasses.fields(ds):
        value = getattr(ds, field.name)
        if isinstance(value, np.ndarray):
            assert not value.flags.writeable, field.name
    given_arrays = [rows.features, rows.labels, rows.query_ids, rows.document_ids]
    for array, copy in zip(given_arrays, before, strict=True):
        assert array.flags.writeable
        assert np.array_equal(array, copy)


@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
def test_sparse_features_are_read_only_and_the_callers_stay_writeable(part: str) -> None:
    inputs = csr_array(np.float32([[1, 0], [0, 2], [3, 0]]))
    ds = Dataset.from_arrays(inputs, [0, 1, 2], [1, 2, 1])
    changed = ds.with_features(inputs)
    for one in (ds, changed, ds.lists(0, 1), ds.select([1]), ds.documents([True, True, False])):
        with pytest.raises(ValueError, match="read-only"):
            getattr(one.features, part)[0] = 0
    assert getattr(inputs, part).flags.writeable
    assert np.array_equal(changed.features.toarray(), inputs.toarray())


def test_an_array_already_in_order_stays_writeable() -> None:
    features = np.float32([[1.0]])
    Dataset.from_arrays(features, [0], [1])
    features[0, 0] = 2.0
    assert features[0, 0] == 2.0


def test_neighbouring_lists_share_memory_and_others_are_copied() -> None:
    ds = make_rows(60, n_lists=8).dataset()
    assert np.shares_memory(ds.lists(1, 4).features, ds.features)
    assert np.shares_memory(ds.select([3, 1, 2]).features, ds.features)
    assert not np.shares_memory(ds.select([0, 2]).features, ds.features)


@given(row_sets(), st.data())
def test_selected_lists_are_the_lists_of_the_whole(rows: Rows, data: st.DataObject) -> None:
    ds = rows.dataset(weights=np.arange(len(np.unique(rows.query_ids)), dtype=float))
    chosen = data.draw(st.lists(st.integers(0, ds.n_lists - 1), min_size=1))
    if data.draw(st.booleans()):
        _ = ds.order  # known before, or not
    part = ds.select(chosen)
    kept = sorted(set(chosen))
    assert part.list_ids.tolist() == ds.list_ids[kept].tolist()
    assert part.keys.tolist() == ds.keys[kept].tolist()
    assert part.weights.tolist() == ds.weights[kept].tolist()
    inside = np.isin(ds.list_of_row, kept)
    for name in ("features", "labels", "rows", "query_ids", "document_ids"):
        array = getattr(part, name)
        if array is not None:
            assert np.array_equal(array, getattr(ds, name)[inside]), name
    assert np.array_equal(part.order.rows, part._replace(order=None).order.rows)


@given(row_sets(), st.data())
def test_a_range_of_lists_is_that_selection(rows: Rows, data: st.DataObject) -> None:
    ds = rows.dataset()
    start = data.draw(st.integers(0, ds.n_lists - 1))
    stop = data.draw(st.integers(start + 1, ds.n_lists))
    assert difference(ds.lists(start, stop), ds.select(np.arange(start, stop))) is None


def test_selection_of_sparse_features_gives_the_same_documents() -> None:
    rows = make_rows()
    dense, sparse = (rows.dataset(), Dataset.from_arrays(csr_array(rows.features), rows.labels, rows.query_ids))
    assert np.array_equal(dense.select([0, 2]).features, sparse.select([0, 2]).features.toarray())


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([], "at least one list; none was selected"),
        ([6], "there is no list 6: positions go from 0 to 5"),
        ([-1], "there is no list -1"),
        ([True, False, True, False, False, False], "positions of lists are integers, got bool"),
        ([0.5], "positions of lists are integers, got float64"),
    ],
)
def test_positions_that_do_not_exist_are_refused(lists: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        make_rows().dataset().select(lists)


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (2, 1), (-1, 2), (0, 7)])
def test_a_range_without_lists_is_refused(start: int, stop: int) -> None:
    with pytest.raises(DataError, match="0 <= start < stop <= 6"):
        make_rows().dataset().lists(start, stop)


@given(row_sets(), st.integers(0, 2**32))
def test_documents_left_out_leave_the_set_of_the_others(rows: Rows, seed: int) -> None:
    ds = rows.dataset()
    keep = np.random.default_rng(seed).random(ds.n_docs) < 0.6
    keep[0] = True
    result = ds.documents(keep)
    expected = rows.take(np.flatnonzero(keep)).dataset()
    assert np.array_equal(result.rows, np.flatnonzero(keep))
    assert difference(result._replace(rows=expected.rows), expected) is None
    assert np.array_equal(result.keys, expected.keys)


def test_all_documents_are_the_same_set() -> None:
    ds = make_rows(documents=True, strings=True).dataset()
    assert difference(ds.documents(np.ones(ds.n_docs, bool)), ds) is None


@pytest.mark.parametrize("keep", [np.zeros(40, bool), np.ones(39, bool), [0, 1, 2], np.ones(40, int), np.arange(40)])
def test_documents_need_one_truth_value_each_and_one_that_is_true(keep: Any) -> None:
    with pytest.raises(DataError, match="keep must be 40 booleans, at least one of them true"):
        make_rows().dataset().documents(keep)


def test_other_features_keep_order_keys_and_the_callers_array() -> None:
    ds = make_rows().dataset(feature_names=["a", "b", "c"])
    same_width, wider = np.ones((40, 3), np.float32), np.ones((40, 5), np.float32)
    assert ds.with_features(same_width).feature_names == ("a", "b", "c")
    assert ds.with_features(wider).feature_names is None
    assert np.array_equal(ds.with_features(wider).keys, ds.keys)
    assert wider.flags.writeable
    with pytest.raises(DataError, match="expected 40 rows of features, got 39"):
        ds.with_features(wider[:39])


@pytest.mark.parametrize("make", [np.asfortranarray, np.ndarray.tolist, csr_matrix, pd.DataFrame])
def test_other_features_of_any_kind_become_float32(make: Any) -> None:
    values = np.arange(6.0).reshape(2, 3)
    values[0, 1] = np.nan
    ds = Dataset.from_arrays([[1.0], [2.0]], [0, 1], [1, 1]).with_features(make(values))
    assert ds.features.dtype == np.float32
    assert isinstance(ds.features, csr_array) or ds.features.flags.c_contiguous
    dense = ds.features.toarray() if issparse(ds.features) else ds.features
    assert np.array_equal(dense, values, equal_nan=True)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([[1.0], [np.inf]], "row 1 .*: feature 'a' is inf"),
        ([["x"], ["y"]], "features must be numbers"),
        ([1.0, 2.0], "two dimensions"),
        ([], "expected 2 rows of features, got 0"),
    ],
)
def test_other_features_are_checked(features: Any, message: str) -> None:
    ds = Dataset.from_arrays([[1.0], [2.0]], [0, 1], [1, 1], feature_names=["a"])
    with pytest.raises(DataError, match=message):
        ds.with_features(features)


def test_other_labels_keep_order_and_keys_and_are_checked() -> None:
    ds = make_rows().dataset()
    changed = ds.with_labels(np.arange(40))
    assert changed.labels.tolist() == list(range(40))
    assert np.array_equal(changed.keys, ds.keys)
    with pytest.raises(DataError, match="label -1"):
        ds.with_labels(-np.ones(40))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": np.empty((0, 2)), "labels": [], "query_ids": np.empty(0, int)}, "no documents"),
        ({"features": [], "labels": [], "query_ids": []}, "^the data has no documents"),
        ({"features": np.empty((0, 2)), "labels": [], "query_ids": []}, "^the data has no doc"),
        ({"features": pd.DataFrame({"bm25": [1.0, np.nan]})}, "feature 'bm25' is nan"),
        ({"features": [[np.inf]] * 2}, "feature 1 .* is inf"),
        ({"features": [[np.nan]] * 2}, 'is nan; pass missing="nan"'),
        ({"features": [1.0, 2.0]}, "two dimensions"),
        ({"features": [["a"], ["b"]]}, "features must be numbers"),
        ({"labels": [1, -1]}, "label -1"),
        ({"labels": [1, np.nan]}, "label nan"),
        ({"labels": [1]}, "labels must be 2 numbers"),
        ({"query_ids": [1.5, 2.0]}, "query_ids must be integers"),
        ({"query_ids": np.array([1, "a"], object)}, "query_ids must be all integers or all str"),
        ({"query_ids": [1]}, "query_ids must be 2 values"),
        ({"document_ids": [1.5, 2.5]}, "document_ids must be integers"),
        ({"feature_names": ["a", "b"]}, "2 feature names for 1 features"),
        ({"weights": [1, 2, 3]}, "weights must be"),
        ({"missing": "zero"}, "missing must be"),
    ],
)
def test_what_cannot_be_right_is_refused(arguments: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"features": [[1.0], [2.0]], "labels": [0, 1], "query_ids": [1, 1]}
    Dataset.from_arrays(**good)
    with pytest.raises(DataError, match=message):
        Dataset.from_arrays(**(good | arguments))


def test_missing_values_are_kept_as_nan_and_do_not_break_the_order() -> None:
    features = np.float32([[np.nan, 1], [2, np.nan], [3, 3]])
    one = Dataset.from_arrays(features, [0, 1, 2], [1, 1, 1], missing="nan").canonical()
    other = Dataset.from_arrays(features[::-1], [2, 1, 0], [1, 1, 1], missing="nan").canonical()
    assert np.array_equal(one.features, other.features, equal_nan=True)
    assert np.array_equal(one.labels, other.labels)


def _scattered() -> Table:
    return Table(np.float32([[1], [2], [3]]), np.float32([0, 1, 2]), np.array([1, 2, 1]), source="rows.txt")


def test_scattered_rows_of_a_file_are_merged_with_a_warning() -> None:
    with pytest.warns(DataWarning, match="rows.txt: the rows of some queries are not next to each"):
        ds = Dataset.from_table(_scattered())
    assert ds.list_sizes.tolist() == [2, 1]


def test_scattered_rows_of_a_file_are_refused_by_strict_reading() -> None:
    with pytest.raises(DataError, match="read them without strict=True"):
        Dataset.from_table(_scattered(), strict=True)


@given(row_sets())
def test_a_table_gives_the_same_set_as_its_arrays(rows: Rows) -> None:
    order = np.argsort(rows.query_ids, kind="stable")
    together = rows.take(order)
    table = Table(together.features.copy(), together.labels, together.query_ids, together.document_ids)
    assert difference(Dataset.from_table(table), together.dataset()) is None
