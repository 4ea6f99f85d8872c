"""Features of the whole list, added to those of a document."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import plackett as pk
from plackett.base.errors import UsageError
from plackett.base.ragged import offsets_from_sizes
from plackett.data.transforms import ListContext, ListMeans, Standard, chain, transform_from_dict


@given(seed=st.integers(0, 1000), sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6), missing=st.booleans())
@settings(max_examples=50, deadline=None)
def test_values_are_those_of_numpy(seed, sizes, missing):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(sum(sizes), 3)).astype(np.float32)
    matrix[:, 1] = 2.5  # constant
    if missing:
        matrix[rng.random(matrix.shape) < 0.3] = np.nan
    offsets = offsets_from_sizes(sizes)
    out = ListContext().apply(matrix, offsets)
    for a, b in itertools.pairwise(offsets):
        part = matrix[a:b].astype(np.float64)
        known = np.where(np.isnan(part), 0.0, part)
        count = (~np.isnan(part)).sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = known.sum(axis=0) / count
            deviation = np.sqrt(np.where(np.isnan(part), 0.0, (part - mean) ** 2).sum(axis=0) / count)
            score = np.where(deviation > 1e-12, (part - mean) / deviation, part - part)
        expected = np.hstack([part, np.tile(mean, (b - a, 1)), np.tile(deviation, (b - a, 1)), score])
        np.testing.assert_allclose(out[a:b, :-1], expected, rtol=1e-5, atol=1e-6)
        assert np.all(out[a:b, -1] == b - a)
    means = ListMeans().apply(matrix, offsets)
    np.testing.assert_array_equal(means[:, :6], out[:, :6])
    np.testing.assert_array_equal(means[:, -1], out[:, -1])


def test_names_and_sources_go_through_a_chain():
    fitted = chain(Standard(), ListContext()).fit_features(np.ones((2, 2), np.float32), np.array([0, 2]))
    names = fitted.names(("a", "b"))
    assert names[:3] == ("a", "b", "a (mean of the list)")
    assert names[-2:] == ("b (standard score of the list)", "documents")
    assert fitted.width(2) == len(names) == len(list(fitted.source(2))) == 9
    assert list(fitted.source(2)) == [0, 1, 0, 1, 0, 1, 0, 1, -1]
    assert transform_from_dict(ListContext().to_dict()) == ListContext()


@pytest.fixture(scope="module")
def data():
    return pk.synthetic("letor", n_lists=40, seed=3)


@pytest.fixture(scope="module")
def crossfit(data):
    trees = pk.TreeRanker("xendcg", trees=10, learning_rate=0.2, leaves=8)
    return pk.CrossFit(trees, folds=3, transforms=("list-context",)).fit(data)


def test_a_crossfit_with_list_features_is_saved_and_loaded_to_the_bit(crossfit, data, tmp_path):
    crossfit.save(tmp_path / "model")
    loaded = pk.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(data), crossfit.predict(data))
    assert loaded.members_[0].n_features_ == 4 * data.n_features + 1


def test_validation_lists_get_the_features_too(crossfit, data):
    ranker = crossfit.clone().fit(data.lists(0, 20), data.lists(20, 40))
    assert ranker.n_features_ == data.n_features
    assert ranker.members_[0].n_features_ == 4 * data.n_features + 1


def test_the_order_of_rows_changes_nothing(crossfit, data):
    order = np.random.default_rng(0).permutation(data.n_docs)
    shuffled = pk.Dataset.from_arrays(
        np.asarray(data.features)[order], data.labels[order], data.query_ids[order], feature_names=data.feature_names
    )
    again = crossfit.clone().fit(shuffled)
    np.testing.assert_array_equal(again.predict(shuffled), crossfit.predict(data)[order])


def test_importance_counts_for_the_feature_that_an_added_one_is_made_of(crossfit, data):
    shares = crossfit.importance()
    assert set(shares) == set(data.feature_names)
    assert 0 < sum(shares.values()) <= 1 + 1e-9


def test_what_cannot_add_features_or_see_lists_says_what_to_do_instead(crossfit, data, tmp_path):
    with pytest.raises(UsageError, match=r"CrossFit\(TreeRanker"):
        pk.TreeRanker("xendcg", trees=2, transforms=("list-means",)).fit(data)
    with pytest.raises(UsageError, match="distill"):
        pk.export(crossfit, tmp_path / "model.xml", "ranklib")


def test_a_feature_may_have_the_name_of_an_added_one(tmp_path):
    data = pk.synthetic("letor", n_lists=20, seed=3)
    names = ("documents", "documents (mean of the list)", *(f"f{j}" for j in range(2, data.n_features)))
    data = pk.Dataset.from_arrays(data.features, data.labels, data.query_ids, feature_names=names)
    ranker = pk.CrossFit(pk.TreeRanker("xendcg", trees=2), folds=2, transforms=("list-means",)).fit(data)
    added = ranker.members_[0].feature_names_
    assert len(set(added)) == len(added) == 2 * data.n_features + 1
    ranker.save(tmp_path / "model")
    np.testing.assert_array_equal(pk.load(tmp_path / "model").predict(data), ranker.predict(data))


def test_out_of_fold_scores_of_scattered_rows_are_in_their_order(crossfit, data):
    order = np.random.default_rng(1).permutation(data.n_docs)
    scattered = pk.Dataset.from_arrays(
        np.asarray(data.features)[order], data.labels[order], data.query_ids[order], feature_names=data.feature_names
    )
    np.testing.assert_array_equal(crossfit.out_of_fold(scattered), crossfit.out_of_fold(data)[order])
