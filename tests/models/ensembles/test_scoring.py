from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings, strategies as st

from plackett.base.errors import DataError, FeatureMismatch, UsageError
from plackett.models.ensembles.scoring import FEW, MIN_PER_THREAD, round_down
from reference_trees import N_FEATURES, awkward_features, plain_scores, random_ensemble

pytestmark = pytest.mark.kernels

LIBRARIES = ["lightgbm", "xgboost"]


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(1, 40), max_size=8),
    n_docs=st.sampled_from([0, 1, FEW, FEW + 1, 63, 64, 65, 130]),
    library=st.sampled_from(LIBRARIES),
)
def test_scores_are_those_of_the_rules_to_the_bit(seed: int, sizes: list[int], n_docs: int, library: str) -> None:
    ensemble = random_ensemble(seed, sizes, library=library)
    features = awkward_features(ensemble, n_docs, seed)
    np.testing.assert_array_equal(ensemble.predict(features), plain_scores(ensemble, features))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("n_docs", [255, 257, 512, 700, 1100])
def test_every_way_to_cut_documents_into_blocks_gives_the_same(library: str, n_docs: int) -> None:
    ensemble = random_ensemble(n_docs, [1, 2, 17, 64, 65], library=library)
    features = awkward_features(ensemble, n_docs, n_docs)
    expected = plain_scores(ensemble, features)
    np.testing.assert_array_equal(ensemble.predict(features, n_threads=1), expected)


@pytest.mark.parametrize("n_leaves", [255, 256, 257, 400, 3000])
def test_trees_of_many_leaves_are_scored_right(n_leaves: int) -> None:
    ensemble = random_ensemble(n_leaves, [n_leaves, 3, n_leaves])
    features = awkward_features(ensemble, 150, n_leaves)
    np.testing.assert_array_equal(ensemble.predict(features), plain_scores(ensemble, features))


def test_a_tree_with_more_leaves_than_the_fast_path_numbers_is_scored_right() -> None:
    ensemble = random_ensemble(0, [2**16 + 1])
    assert ensemble.layout.trees is None
    features = awkward_features(ensemble, 50, 0)
    np.testing.assert_array_equal(ensemble.predict(features), plain_scores(ensemble, features))


@pytest.mark.parametrize("library", LIBRARIES)
def test_any_number_of_threads_gives_the_same_bits(library: str) -> None:
    ensemble = random_ensemble(5, [30] * 10, library=library)
    features = awkward_features(ensemble, 5 * MIN_PER_THREAD + 77, 5)
    alone = ensemble.predict(features, n_threads=1)
    for n_threads in (2, 3, 16, None):
        np.testing.assert_array_equal(ensemble.predict(features, n_threads=n_threads), alone)


def test_several_callers_at_once_get_the_same_bits() -> None:
    ensemble = random_ensemble(12, [30] * 10)
    features = awkward_features(ensemble, 3 * MIN_PER_THREAD, 12)
    expected = ensemble.predict(features, n_threads=1)
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(ensemble.predict, features, n_threads=2) for _ in range(8)]
        for future in futures:
            np.testing.assert_array_equal(future.result(), expected)


def test_a_document_does_not_see_the_others() -> None:
    ensemble = random_ensemble(6, [30] * 10)
    features = awkward_features(ensemble, 600, 6)
    together = ensemble.predict(features)
    for part in (slice(0, 1), slice(3, 100), slice(599, 600), slice(100, 500)):
        np.testing.assert_array_equal(ensemble.predict(features[part]), together[part])


def test_an_ensemble_without_trees_gives_its_base_score() -> None:
    ensemble = random_ensemble(0, [], library="xgboost")
    np.testing.assert_array_equal(ensemble.predict(np.zeros((9, N_FEATURES), np.float32)), 0.25)


def test_features_of_float64_are_compared_as_they_are() -> None:
    ensemble = random_ensemble(7, [40] * 6)
    rng = np.random.default_rng(7)
    finite = ensemble.threshold[np.abs(ensemble.threshold) < 1e30]
    features = rng.choice(finite, (200, N_FEATURES))
    features = np.nextafter(features, rng.choice([-9.0, 9.0], features.shape))
    assert not np.array_equal(features.astype(np.float32), features)
    np.testing.assert_array_equal(ensemble.predict(features), plain_scores(ensemble, features))


def test_xgboost_rounds_features_of_float64_first() -> None:
    ensemble = random_ensemble(8, [40] * 6, library="xgboost")
    features = np.random.default_rng(8).normal(size=(200, N_FEATURES))
    rounded = plain_scores(ensemble, features.astype(np.float32))
    np.testing.assert_array_equal(ensemble.predict(features), rounded)


def _readonly(features: Any) -> Any:
    copy = features.copy()
    copy.flags.writeable = False
    return copy


def _unaligned(features: Any) -> Any:
    raw = np.empty(features.nbytes + 1, np.uint8)[1:]
    view = raw.view(np.float32).reshape(features.shape)
    view[:] = features
    return view


@pytest.mark.parametrize(
    "form",
    [
        np.asfortranarray,
        _readonly,
        _unaligned,
        np.float64,
        lambda x: np.repeat(x, 2, axis=0)[::2],
        lambda x: x.astype(">f4"),
    ],
    ids=["fortran", "readonly", "unaligned", "float64", "strided", "big-endian"],
)
def test_the_form_of_the_array_does_not_matter(form: Any) -> None:
    ensemble = random_ensemble(9, [20] * 5)
    features = awkward_features(ensemble, 100, 9)
    np.testing.assert_array_equal(ensemble.predict(form(features)), ensemble.predict(features))


@pytest.mark.parametrize(("library", "absent"), [("lightgbm", 0.0), ("xgboost", np.nan)])
def test_sparse_rows_are_dense_rows_with_absent_entries_filled_in(library: str, absent: float) -> None:
    ensemble = random_ensemble(10, [20] * 5, library=library)
    features = awkward_features(ensemble, 9000, 10)
    matrix = scipy.sparse.csr_array(np.where(np.isnan(features), 0.0, features), dtype=np.float32)
    dense = np.full(features.shape, absent, np.float32)
    stored = matrix.toarray() != 0
    dense[stored] = matrix.toarray()[stored]
    for form in (matrix, matrix.tocsc(), scipy.sparse.csr_matrix(matrix)):
        np.testing.assert_array_equal(ensemble.predict(form), ensemble.predict(dense))


def test_entries_of_a_sparse_row_that_stand_twice_are_added() -> None:
    ensemble = random_ensemble(11, [20] * 5)
    matrix = scipy.sparse.csr_array((np.array([1.0, 2.0, 3.0]), np.array([1, 1, 0]), np.array([0, 3])), (1, N_FEATURES))
    expected = ensemble.predict(np.array([[3.0, 3.0, 0.0, 0.0]]))
    np.testing.assert_array_equal(ensemble.predict(matrix), expected)
    assert matrix.nnz == 3


def test_features_of_another_number_are_refused() -> None:
    ensemble = random_ensemble(0, [3])
    with pytest.raises(FeatureMismatch, match="4 features, got 5"):
        ensemble.predict(np.zeros((2, 5), np.float32))
    with pytest.raises(FeatureMismatch, match="4 features, got 3"):
        ensemble.predict(scipy.sparse.csr_array((2, 3)))
    with pytest.raises(DataError, match="2 dimensions"):
        ensemble.predict(np.zeros(4, np.float32))
    with pytest.raises(DataError, match="must be numbers"):
        ensemble.predict(np.array([["a", "b", "c", "d"]]))


def test_fewer_threads_than_one_are_refused() -> None:
    with pytest.raises(UsageError, match="at least 1, got 0"):
        random_ensemble(0, [3]).predict(np.zeros((2, 4), np.float32), n_threads=0)


def test_extreme_thresholds_are_rounded_without_a_warning() -> None:
    largest = float(np.finfo(np.float32).max)
    numbers = np.array([-1e300, -largest, np.nextafter(-largest, -np.inf), 1e-50, -1e-50, 1e300, np.inf])
    rounded = round_down(numbers)
    assert np.all(rounded <= numbers)
    assert rounded[0] == -np.inf
    assert rounded[5] == np.float32(largest)
