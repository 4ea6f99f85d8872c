from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csr_array

from dataset_helpers import Rows, make_rows, row_sets
from plackett.base.ragged import factorize
from plackett.data import canonical
from plackett.data.canonical import CanonicalOrder, PermutedRows, hash_documents, hash_ids, take_rows


def arrange(features, codes, n_lists: int, document_ids=None) -> CanonicalOrder:
    return CanonicalOrder.of(hash_documents(features, document_ids), codes, n_lists)


def _codes(rows: Rows) -> tuple[np.ndarray, int]:
    names, codes = np.unique(rows.query_ids, return_inverse=True)
    return codes, len(names)


@given(row_sets())
def test_the_arrangement_is_a_permutation_that_keeps_lists_together(rows: Rows) -> None:
    codes, n_lists = _codes(rows)
    plan = arrange(rows.features, codes, n_lists, rows.document_ids)
    assert sorted(plan.rows) == list(range(len(codes)))
    assert sorted(plan.lists) == list(range(n_lists))
    for q in range(n_lists):
        inside = codes[plan.rows[plan.offsets[q] : plan.offsets[q + 1]]]
        assert np.all(inside == plan.lists[q])


@given(row_sets())
def test_documents_stand_in_order_of_hash_and_lists_in_order_of_key(rows: Rows) -> None:
    codes, n_lists = _codes(rows)
    hashes = hash_documents(rows.features, rows.document_ids)
    plan = CanonicalOrder.of(hashes, codes, n_lists)
    assert np.all(np.diff(plan.keys.astype(object)) >= 0)
    for q in range(n_lists):
        inside = hashes[plan.rows[plan.offsets[q] : plan.offsets[q + 1]]].astype(object)
        assert np.all(np.diff(inside) >= 0)


def test_equal_documents_keep_the_order_of_the_caller() -> None:
    plan = arrange(np.ones((6, 2), np.float32), np.array([1, 0, 1, 0, 1, 1]), 2)
    lists = np.split(plan.rows, plan.offsets[1:-1])
    assert sorted(map(tuple, lists)) == [(0, 2, 4, 5), (1, 3)]


def test_equal_lists_keep_the_order_of_the_caller() -> None:
    plan = arrange(np.ones((6, 1), np.float32), np.array([0, 1, 2, 2, 1, 0]), 3)
    assert plan.lists.tolist() == [0, 1, 2]


@given(row_sets())
def test_dense_and_sparse_rows_have_the_same_hash(rows: Rows) -> None:
    sparse = csr_array(rows.features)
    assert np.array_equal(hash_documents(rows.features, rows.document_ids), hash_documents(sparse, rows.document_ids))


def test_explicit_zeros_of_a_sparse_row_do_not_change_its_hash() -> None:
    stored = csr_array((np.float32([0, -0.0, 2]), [0, 1, 2], [0, 3]), shape=(1, 3))
    assert hash_documents(stored) == hash_documents(np.float32([[0, 0, 2]]))


def test_a_hash_depends_on_the_column_of_a_value_and_not_on_zeros_behind() -> None:
    one, other, wide = np.float32([[1, 0]]), np.float32([[0, 1]]), np.float32([[1, 0, 0, 0]])
    assert hash_documents(one) != hash_documents(other)
    assert hash_documents(one) == hash_documents(wide)


def test_all_nans_have_one_hash() -> None:
    bits = np.array([[0x7FC00000], [0x7FC00001], [0xFFC00000], [0x7F800001]], np.uint32)
    assert len(set(hash_documents(bits.view(np.float32)))) == 1


def test_numbers_and_their_spelling_have_one_hash() -> None:
    assert np.array_equal(hash_ids(np.array([7, -12, 0])), hash_ids(np.array(["7", "-12", "0"])))


def test_the_hash_of_a_string_does_not_depend_on_the_width_of_its_array() -> None:
    narrow = hash_ids(np.array(["ab", "c"]))
    wide = hash_ids(np.array(["ab", "c", "a much longer string"]))
    assert np.array_equal(narrow, wide[:2])
    assert len(set(wide)) == 3


def test_document_ids_alone_make_the_hash_where_there_are_no_features() -> None:
    none = np.empty((3, 0), np.float32)
    assert len(set(hash_documents(none, np.array(["a", "b", "c"])))) == 3
    assert len(set(hash_documents(none))) == 1


def test_hashes_of_random_documents_do_not_collide() -> None:
    features = np.random.default_rng(0).normal(size=(100_000, 2)).astype(np.float32)
    assert len(np.unique(hash_documents(features))) == 100_000


@given(st.permutations(list(range(12))), st.integers(0, 5))
def test_rows_are_read_in_another_order_as_by_indexing(order: list[int], width: int) -> None:
    features = np.random.default_rng(0).normal(size=(12, width)).astype(np.float32)
    rows = np.array(order)
    expected = features[rows]
    assert np.array_equal(take_rows(features, rows), expected)
    permuted = PermutedRows(features, rows)
    assert np.array_equal(permuted[3:7], expected[3:7])
    assert np.array_equal(permuted[np.array([5, 0])], expected[[5, 0]])
    assert permuted.shape == expected.shape


@given(row_sets(), st.data())
def test_the_order_of_some_lists_is_that_of_all_restricted_to_them(rows: Rows, data) -> None:
    hashes = hash_documents(rows.features, rows.document_ids)
    _, codes, _ = factorize(rows.query_ids)
    n_lists = int(codes.max()) + 1
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=n_lists, max_size=n_lists)))
    if not keep.any():
        return
    order = CanonicalOrder.of(hashes, codes, n_lists).restrict(keep)
    left = keep[codes]
    _, new_codes, _ = factorize(codes[left])
    expected = CanonicalOrder.of(hashes[left], new_codes, int(keep.sum()))
    for name in ("rows", "lists", "offsets", "keys"):
        assert np.array_equal(getattr(order, name), getattr(expected, name))
    values = np.arange(left.sum())
    assert np.array_equal(order.restore(order.sort(values)), values)


@pytest.mark.parametrize("rows", [[2, 0], [1, 1, 1, 0], []])
def test_rows_can_be_taken_in_part_and_more_than_once(rows: list[int]) -> None:
    features = make_rows(3, 2).features
    taken = take_rows(features, np.array(rows, np.int64))
    assert np.array_equal(taken, features[np.array(rows, np.int64)])


def test_small_data_are_hashed_and_sorted_as_large_ones(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    features = rng.choice([0.0, -0.0, np.nan, 1.5, 2.5, -3.0], (300, 7)).astype(np.float32)
    ids = np.array([f"d{i}" * (i % 3) for i in range(300)])
    list_of_row = rng.integers(0, 12, 300)
    small = hash_documents(features, ids), CanonicalOrder.of(hash_documents(features), list_of_row, 13)
    monkeypatch.setattr(canonical, "SMALL", 0)
    large = hash_documents(features, ids), CanonicalOrder.of(hash_documents(features), list_of_row, 13)
    np.testing.assert_array_equal(small[0], large[0])
    for name in ("rows", "lists", "offsets", "keys"):
        np.testing.assert_array_equal(getattr(small[1], name), getattr(large[1], name))
    rows = rng.integers(0, 300, 40)
    np.testing.assert_array_equal(take_rows(features, rows), features[rows])
