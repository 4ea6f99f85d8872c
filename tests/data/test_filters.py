"""Cleaning rules against small hand-made lists, a slow reference and OHSUMED."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.sparse import csr_array

from plackett.base.errors import DataError, UsageError
from plackett.data.dataset import Dataset
from plackett.data.filters import Cleaning, Removed, binarize, clean, drop_blank, drop_conflicting, drop_uniform


def make(rows, **more):
    """Data set of (query, feature, label) rows."""
    query, feature, label = zip(*rows, strict=True)
    return Dataset.from_arrays(np.array(feature, float)[:, None], label, query, **more)


def rows_of(ds):
    return sorted(ds.rows.tolist())


def test_every_copy_of_a_document_with_conflicting_labels_goes():
    ds = make([("a", 1, 0), ("a", 1, 2), ("a", 1, 0), ("a", 5, 1), ("b", 1, 1)])
    assert rows_of(drop_conflicting(ds)) == [3, 4]


def test_copies_with_equal_labels_stay():
    ds = make([("a", 1, 1), ("a", 1, 1), ("a", 2, 0)])
    assert drop_conflicting(ds) is ds


def test_the_same_document_in_two_lists_is_no_conflict():
    ds = make([("a", 1, 1), ("b", 1, 0)])
    assert drop_conflicting(ds) is ds


def test_document_ids_decide_where_they_are_given():
    rows = [("a", 1, 0), ("a", 1, 2), ("a", 3, 1), ("a", 4, 0)]
    ds = make(rows, document_ids=["x", "y", "z", "z"])
    assert rows_of(drop_conflicting(ds)) == [0, 1]
    assert rows_of(clean(ds, ("conflicting-features",))[0]) == [2, 3]


def test_sparse_features_are_compared_like_dense_ones():
    matrix = np.array([[0, 1], [0, 1], [2, 0]], np.float32)
    ds = Dataset.from_arrays(csr_array(matrix), [0, 1, 1], [7, 7, 7])
    assert rows_of(drop_conflicting(ds)) == [2]


@given(rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=40))
@settings(max_examples=100, deadline=None)
def test_conflicts_equal_those_of_a_slow_reference(rows):
    labels = defaultdict(set)
    for query, feature, label in rows:
        labels[query, feature].add(label)
    expected = [i for i, (q, f, _) in enumerate(rows) if len(labels[q, f]) == 1]
    if expected:
        assert rows_of(drop_conflicting(make(rows))) == expected
    else:
        with pytest.raises(DataError, match="conflicting"):
            drop_conflicting(make(rows))


def test_blank_and_uniform_lists_go_with_all_their_documents():
    ds = make([("blank", 1, 0), ("blank", 2, 0), ("even", 3, 2), ("even", 4, 2), ("good", 5, 1), ("good", 6, 0)])
    assert sorted(drop_blank(ds).list_ids) == ["even", "good"]
    assert sorted(drop_uniform(ds).list_ids) == ["good"]


def test_binarize_asks_for_labels_above_the_threshold():
    ds = make([("a", 1, 0), ("a", 2, 1), ("a", 3, 2)])
    assert binarize(ds).labels.tolist() == [0, 1, 1]
    assert binarize(ds, 1.0).labels.tolist() == [0, 0, 1]


def test_weights_and_names_follow_their_lists():
    rows = [("a", 1, 1), ("a", 1, 0), ("a", 2, 1), ("b", 3, 0), ("c", 4, 1)]
    ds = make(rows, weights={"a": 1.0, "b": 2.0, "c": 3.0}, feature_names=["x"])
    cleaned, _ = clean(ds)
    assert dict(zip(cleaned.list_ids.tolist(), cleaned.weights, strict=True)) == {"a": 1, "c": 3}
    assert cleaned.feature_names == ("x",)


def test_the_report_counts_rule_by_rule_in_the_order_given():
    # Without its conflicting documents, list a is blank: the order of the rules counts.
    ds = make([("a", 1, 1), ("a", 1, 0), ("a", 2, 0), ("b", 3, 0), ("c", 4, 1), ("c", 5, 0)])
    cleaned, report = clean(ds)
    assert report == Cleaning(6, 3, (Removed("conflicting", 2, 0), Removed("blank", 2, 2)))
    assert cleaned.list_ids.tolist() == ["c"]
    _, other = clean(ds, ("blank", "conflicting"))
    assert other.removed == (Removed("blank", 1, 1), Removed("conflicting", 2, 0))
    assert "conflicting: 2 documents, 0 lists" in str(report)


def test_unknown_rules_and_emptied_sets_are_refused():
    ds = make([("a", 1, 0)])
    with pytest.raises(UsageError, match="conflicting, conflicting-features, blank, uniform"):
        clean(ds, ("nonsense",))
    with pytest.raises(DataError, match="blank"):
        clean(ds, ("blank",))


def read_text(path):
    """Rows of LETOR text: labels, queries, features, document ids."""
    labels, queries, features, documents = [], [], [], []
    for line in path.read_text().splitlines():
        numbers, _, comment = line.partition("#")
        label, query, *pairs = numbers.split()
        labels.append(float(label))
        queries.append(query.removeprefix("qid:"))
        features.append([float(p.partition(":")[2]) for p in pairs])
        documents.append(comment.split()[2])
    return labels, queries, features, documents


def test_ohsumed_has_one_blank_list_and_many_conflicts_among_equal_features(real_data):
    parts = [read_text(real_data / "OHSUMED" / f"Fold{k}" / "test.txt") for k in range(1, 6)]
    labels, queries, features, documents = ([v for p in parts for v in p[i]] for i in range(4))
    ds = Dataset.from_arrays(features, labels, queries)
    assert ds.n_lists == 106
    assert ds.n_lists - drop_blank(ds).n_lists == 1
    assert ds.n_docs - drop_conflicting(ds).n_docs == 1820
    with_ids = Dataset.from_arrays(features, labels, queries, document_ids=documents)
    assert with_ids.n_docs - drop_conflicting(with_ids).n_docs == 0
