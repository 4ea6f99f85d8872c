"""Fitted values and results against NumPy, and the awkward cases of each transform."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from numba import get_num_threads, set_num_threads
from scipy.sparse import csr_array

from plackett.base.errors import DataError, FeatureMismatch, UsageError
from plackett.data.transforms import (
    FittedQuantile,
    Impute,
    ListContext,
    ListMeans,
    Log1p,
    Quantile,
    QueryMinMax,
    Standard,
    chain,
)

LARGEST = float(np.finfo(np.float32).max)
VALUES = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, 2.0, LARGEST, -LARGEST, 1e-45, np.nan]), st.floats(-1e6, 1e6, width=32)
)
MATRICES = st.tuples(st.integers(1, 30), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=VALUES)
)
RECIPES = [
    QueryMinMax(),
    ListMeans(),
    ListContext(),
    Standard(),
    Log1p(),
    Log1p(clip=2.5),
    Quantile(),
    Quantile(n_quantiles=5),
    Impute("mean"),
    Impute("median"),
    Impute("constant", value=-1.5),
    chain(Impute("median"), Log1p(), Standard()),
]


def one_list(matrix):
    return np.array([0, len(matrix)])


@pytest.mark.parametrize("recipe", RECIPES, ids=repr)
@given(matrix=MATRICES)
@settings(max_examples=40, deadline=None)
def test_results_are_new_float32_never_infinite_and_missing_stays_missing(recipe, matrix):
    before = matrix.copy()
    matrix.flags.writeable = False
    out = recipe.fit_features(matrix, one_list(matrix)).apply(matrix, one_list(matrix))
    assert out.dtype == np.float32
    assert out.flags.c_contiguous
    assert out.flags.writeable
    assert not np.shares_memory(out, matrix)
    np.testing.assert_array_equal(matrix, before)
    assert not np.isinf(out).any()
    imputes = "mpute" in repr(recipe)
    first = out[:, : matrix.shape[1]]  # others may be added
    np.testing.assert_array_equal(np.isnan(first), np.isnan(matrix) & (not imputes))


@given(matrix=MATRICES)
@settings(max_examples=60, deadline=None)
def test_query_minmax_equals_its_formula(matrix):
    out = QueryMinMax().apply(matrix, one_list(matrix))
    for j in range(matrix.shape[1]):
        x = matrix[:, j].astype(np.float64)
        there = x[~np.isnan(x)]
        if len(there) == 0:
            continue
        width = there.max() - there.min()
        expected = (x - there.min()) / (width if width > 0 else 1.0)
        np.testing.assert_array_equal(out[:, j], expected.astype(np.float32))


def test_a_feature_that_is_constant_in_a_list_becomes_zero():
    matrix = np.array([[7.0], [7.0], [1.0], [9.0]], np.float32)
    assert QueryMinMax().apply(matrix, np.array([0, 2, 4])).ravel().tolist() == [0, 0, 0, 1]


def test_query_minmax_takes_a_list_of_offsets_and_checks_it():
    matrix = np.array([[7.0], [7.0], [1.0], [9.0]], np.float32)
    assert QueryMinMax().apply(matrix, [0, 2, 4]).ravel().tolist() == [0, 0, 0, 1]
    with pytest.raises(DataError, match="offsets must rise from 0 to n_docs=4"):
        QueryMinMax().apply(matrix, [0, 2, 5])


@given(matrix=arrays(np.float32, (40, 3), elements=st.floats(-1e4, 1e4, width=32)))
@settings(max_examples=60, deadline=None)
def test_standard_learns_the_mean_and_deviation_of_numpy(matrix):
    fitted = Standard().fit_features(matrix, one_list(matrix))
    wide = matrix.astype(np.float64)
    scale = np.abs(wide).max() + 1e-300
    np.testing.assert_allclose(fitted.mean, wide.mean(0), rtol=1e-12, atol=1e-13 * scale)
    np.testing.assert_allclose(fitted.deviation, wide.std(0), rtol=1e-9, atol=1e-13 * scale)


def test_standard_ignores_missing_values():
    matrix = np.array([[1.0, np.nan], [np.nan, np.nan], [5.0, np.nan]], np.float32)
    fitted = Standard().fit_features(matrix, one_list(matrix))
    assert fitted.mean.tolist() == [3.0, 0.0]
    assert fitted.deviation.tolist() == [2.0, 0.0]


@pytest.mark.parametrize("value", [0.1, 1e30, -LARGEST, 1e-45])
def test_a_constant_column_has_deviation_exactly_zero_and_becomes_zero(value):
    matrix = np.full((5000, 1), value, np.float32)
    fitted = Standard().fit_features(matrix, one_list(matrix))
    assert fitted.mean[0] == np.float64(np.float32(value))
    assert fitted.deviation[0] == 0.0
    other = np.array([[3.0], [value]], np.float32)
    assert fitted.apply(other, one_list(other)).ravel().tolist() == [0.0, 0.0]


def test_standard_is_the_same_to_the_bit_on_one_thread_and_on_all():
    matrix = np.random.default_rng(0).lognormal(size=(20_000, 7)).astype(np.float32)
    many = Standard().fit_features(matrix, one_list(matrix))
    threads = get_num_threads()
    set_num_threads(1)
    try:
        one = Standard().fit_features(matrix, one_list(matrix))
    finally:
        set_num_threads(threads)
    assert one.mean.tobytes() == many.mean.tobytes()
    assert one.deviation.tobytes() == many.deviation.tobytes()


def test_a_value_far_outside_train_is_held_at_the_largest_float():
    train = np.array([[0.0], [1e-30]], np.float32)
    fitted = Standard().fit_features(train, one_list(train))
    far = np.array([[1e30], [-1e30]], np.float32)
    assert fitted.apply(far, one_list(far)).ravel().tolist() == [LARGEST, -LARGEST]


@given(matrix=MATRICES)
@settings(max_examples=40, deadline=None)
def test_log1p_equals_its_formula(matrix):
    wide = matrix.astype(np.float64)
    expected = np.sign(wide) * np.log1p(np.abs(wide))
    out = Log1p().apply(matrix, one_list(matrix))
    np.testing.assert_array_equal(out, expected.astype(np.float32))
    clipped = Log1p(clip=2.0).apply(matrix, one_list(matrix))
    np.testing.assert_array_equal(clipped, np.clip(expected, -2, 2).astype(np.float32))


def test_log1p_keeps_sparse_features_sparse():
    matrix = np.array([[0.0, 3.0, 0.0], [-2.0, 0.0, 0.0]], np.float32)
    sparse = csr_array(matrix)
    out = Log1p().apply(sparse, one_list(matrix))
    assert isinstance(out, csr_array)
    assert out.dtype == np.float32
    assert out.nnz == 2
    np.testing.assert_array_equal(out.toarray(), Log1p().apply(matrix, one_list(matrix)))
    np.testing.assert_array_equal(sparse.toarray(), matrix)


@pytest.mark.parametrize(
    "recipe", [QueryMinMax(), Standard(), Quantile(), Impute(), chain(Log1p(), Standard())], ids=repr
)
def test_transforms_that_would_fill_zeros_refuse_sparse_features(recipe):
    sparse = csr_array(np.eye(3, dtype=np.float32))
    with pytest.raises(DataError, match=r"log1p.*transforms=\(\)"):
        recipe.fit_features(sparse, np.array([0, 3]))


@given(
    column=arrays(np.float32, st.integers(2, 60), elements=st.floats(-100, 100, width=32)),
    n_quantiles=st.integers(2, 50),
)
@settings(max_examples=80, deadline=None)
def test_quantile_knots_are_the_quantiles_of_numpy(column, n_quantiles):
    matrix = column[:, None]
    fitted = Quantile(n_quantiles=n_quantiles).fit_features(matrix, one_list(matrix))
    if column.min() == column.max():
        assert fitted.sizes == (0,)
        return
    levels = np.linspace(0, 1, n_quantiles)
    expected = np.quantile(column.astype(np.float64), levels)
    assert fitted.knots[0] == column.min()
    assert fitted.knots[-1] == column.max()
    assert (np.abs(expected[:, None] - fitted.knots).min(axis=1) <= 1e-10).all()
    out = fitted.apply(matrix, one_list(matrix)).ravel()
    reference = np.interp(column.astype(np.float64), fitted.knots, fitted.levels)
    np.testing.assert_allclose(out, reference, rtol=1e-6, atol=1e-7)
    order = np.argsort(column, kind="stable")
    assert (np.diff(out[order]) >= 0).all()


def test_equal_quantiles_are_one_knot_at_the_mean_of_their_levels():
    matrix = np.array([0, 0, 0, 1, 2], np.float32)[:, None]
    fitted = Quantile(n_quantiles=5).fit_features(matrix, one_list(matrix))
    assert fitted.knots.tolist() == [0, 1, 2]
    assert fitted.levels.tolist() == [0.25, 0.75, 1.0]
    probe = np.array([-5, 0, 0.5, 1, 99], np.float32)[:, None]
    out = fitted.apply(probe, one_list(probe)).ravel().tolist()
    assert out == [0.25, 0.25, 0.5, 0.75, 1.0]


def test_quantile_gives_zero_for_a_feature_that_was_constant_in_train():
    matrix = np.full((4, 1), 3.0, np.float32)
    fitted = Quantile().fit_features(matrix, one_list(matrix))
    probe = np.array([[1.0], [np.nan], [8.0]], np.float32)
    np.testing.assert_array_equal(fitted.apply(probe, one_list(probe)).ravel(), np.float32([0, np.nan, 0]))


@given(matrix=MATRICES)
@settings(max_examples=60, deadline=None)
def test_impute_fills_with_the_mean_median_or_constant_of_the_values_there(matrix):
    for j in range(matrix.shape[1]):
        column = matrix[:, j].astype(np.float64)
        there = column[~np.isnan(column)]
        mean = Impute("mean", value=4.0).fit_features(matrix, one_list(matrix)).fill[j]
        median = Impute("median", value=4.0).fit_features(matrix, one_list(matrix)).fill[j]
        scale = np.abs(there).max() if len(there) else 0.0
        expected = (np.mean(there), np.median(there)) if len(there) else (4.0, 4.0)
        np.testing.assert_allclose((mean, median), expected, rtol=1e-12, atol=1e-12 * scale)
    out = Impute("constant", value=4.0).fit_features(matrix, one_list(matrix))
    np.testing.assert_array_equal(out.apply(matrix, one_list(matrix)), np.nan_to_num(matrix, nan=4.0))


@pytest.mark.parametrize("recipe", [Standard(), Quantile(), Impute()], ids=repr)
def test_another_number_of_features_is_refused(recipe):
    matrix = np.ones((2, 3), np.float32)
    fitted = recipe.fit_features(matrix, one_list(matrix))
    with pytest.raises(FeatureMismatch, match="3 features, got 2"):
        fitted.apply(matrix[:, :2].copy(), one_list(matrix))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Log1p(clip=0.0),
        lambda: Log1p(clip=float("nan")),
        lambda: Quantile(n_quantiles=1),
        lambda: Quantile(n_quantiles=2.5),
        lambda: Impute("mode"),
        lambda: Impute("constant", value=float("inf")),
        lambda: chain(Standard().fit_features(np.ones((1, 1), np.float32), np.array([0, 1]))),
    ],
)
def test_parameters_that_make_no_sense_are_refused(make):
    with pytest.raises(UsageError):
        make()


def test_a_chain_fits_each_part_on_the_output_of_the_one_before():
    matrix = np.array([[1.0], [np.nan], [100.0], [7.0]], np.float32)
    offsets = one_list(matrix)
    fitted = chain(Impute("median"), Log1p(), Standard()).fit_features(matrix, offsets)
    filled = Impute("median").fit_features(matrix, offsets).apply(matrix, offsets)
    logged = Log1p().apply(filled, offsets)
    expected = Standard().fit_features(logged, offsets)
    assert fitted.transforms[2] == expected
    np.testing.assert_array_equal(fitted.apply(matrix, offsets), expected.apply(logged, offsets))


def test_a_chain_within_a_chain_is_taken_apart():
    nested = chain(Log1p(), chain(Standard(), Impute()))
    assert nested == chain(Log1p(), Standard(), Impute())
    assert hash(nested) == hash(chain(Log1p(), Standard(), Impute()))


def test_an_empty_chain_copies():
    matrix = np.ones((2, 1), np.float32)
    out = chain().fit_features(matrix, one_list(matrix)).apply(matrix, one_list(matrix))
    assert not np.shares_memory(out, matrix)
    np.testing.assert_array_equal(out, matrix)


def test_fitted_numbers_cannot_be_changed():
    fitted = FittedQuantile((2,), np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    with pytest.raises(ValueError, match="read-only"):
        fitted.knots[0] = 5.0
