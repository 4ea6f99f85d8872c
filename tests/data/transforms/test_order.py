"""What a document gets depends neither on other lists nor on the order of rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from plackett.base.ragged import offsets_from_sizes
from plackett.data.dataset import Dataset
from plackett.data.transforms import Impute, ListContext, ListMeans, Log1p, Quantile, QueryMinMax, Standard, chain

RECIPES = [
    QueryMinMax(),
    ListMeans(),
    ListContext(),
    Standard(),
    Log1p(),
    Quantile(n_quantiles=10),
    Impute("mean"),
    chain(Impute("median"), QueryMinMax(), Standard()),
]


def ragged(seed, sizes):
    rng = np.random.default_rng(seed)
    matrix = np.exp(3 * rng.normal(size=(sum(sizes), 4))).astype(np.float32)
    matrix[rng.random(matrix.shape) < 0.2] = 0.0
    matrix[rng.random(matrix.shape) < 0.1] = np.nan
    return matrix, offsets_from_sizes(sizes)


@pytest.mark.parametrize("recipe", RECIPES, ids=repr)
@given(seed=st.integers(0, 1000), sizes=st.lists(st.integers(0, 9), min_size=1, max_size=8))
@settings(max_examples=30, deadline=None)
def test_lists_do_not_see_each_other(recipe, seed, sizes):
    matrix, offsets = ragged(seed, sizes)
    fitted = recipe.fit_features(matrix, offsets)
    whole = fitted.apply(matrix, offsets)
    parts = [fitted.apply(matrix[a:b], np.array([0, b - a])) for a, b in pairwise(offsets)]
    assert whole.tobytes() == np.concatenate(parts).tobytes()


@pytest.mark.parametrize("recipe", RECIPES, ids=repr)
@given(seed=st.integers(0, 1000), n_docs=st.integers(1, 30))
@settings(max_examples=30, deadline=None)
def test_permuting_documents_permutes_results(recipe, seed, n_docs):
    matrix, offsets = ragged(seed, [n_docs])
    fitted = recipe.fit_features(matrix, offsets)
    order = np.random.default_rng(seed).permutation(n_docs)
    permuted = fitted.apply(matrix[order], offsets)
    assert permuted.tobytes() == fitted.apply(matrix, offsets)[order].tobytes()


@pytest.mark.parametrize("recipe", RECIPES, ids=repr)
def test_the_order_of_the_rows_does_not_change_a_bit_of_what_is_learned(recipe):
    matrix, offsets = ragged(3, [40, 700, 1, 2000, 500])
    ids = np.repeat([5, 3, 9, 1, 2], np.diff(offsets))
    labels = np.zeros(len(matrix))
    order = np.random.default_rng(1).permutation(len(matrix))
    first = Dataset.from_arrays(matrix, labels, ids, missing="nan")
    second = Dataset.from_arrays(matrix[order], labels, ids[order], missing="nan")
    assert recipe.fit(first) == recipe.fit(second)
