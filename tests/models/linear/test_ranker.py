from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from scipy.special import log_softmax, softmax

from plackett.data.dataset import Dataset
from plackett.models import LinearRanker
from plackett.models.linear.loss import matvec, rmatvec


def _data(n_lists: int = 40) -> Dataset:
    rng = np.random.default_rng(5)
    query_ids = np.repeat(np.arange(n_lists), 6)
    features = rng.normal(size=(len(query_ids), 3))
    labels = np.clip(np.round(features[:, 0] + rng.normal(size=len(query_ids))), 0, 2)
    return Dataset.from_arrays(features, labels, query_ids)


def test_the_solution_is_the_minimum_of_the_penalized_sum_over_lists() -> None:
    data = _data()
    X = data.features.astype(np.float64).reshape(-1, 6, 3)
    Y = data.labels.reshape(-1, 6)
    keep = Y.max(axis=1) > Y.min(axis=1)

    def loss(w):
        return -np.sum(softmax(Y, axis=1)[keep] * log_softmax(X @ w, axis=1)[keep]) + w @ w / 10

    expected = minimize(loss, np.zeros(3), tol=1e-10).x
    ranker = LinearRanker(objective="listnet", C=10.0, transforms=(), tolerance=1e-9).fit(data)
    assert ranker.coefficients_ == pytest.approx(expected, rel=1e-4)


def test_sparse_features_give_the_same_scores_as_dense_ones() -> None:
    data = _data()
    rows = np.arange(data.n_docs)
    X, y = data.features[rows], data.labels[rows]
    ids = data.query_ids
    sparse = Dataset.from_arrays(csr_matrix(X), y, ids)
    ranker = LinearRanker(transforms=(), tolerance=1e-13)
    dense_scores = ranker.fit(data).predict(data)
    sparse_scores = ranker.fit(sparse).predict(sparse)
    assert sparse_scores == pytest.approx(dense_scores, rel=1e-4, abs=1e-6)


def test_products_equal_numpys_in_double_precision() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 7)).astype(np.float32)
    w, g = rng.normal(size=7), rng.normal(size=5000)
    assert matvec(X, w) == pytest.approx(X.astype(float) @ w, rel=1e-12, abs=1e-12)
    assert rmatvec(X, g) == pytest.approx(X.astype(float).T @ g, rel=1e-12, abs=1e-10)


def test_weights_of_lists_count_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    ids = np.repeat(np.arange(10), 5)
    X, y = rng.normal(size=(50, 2)), rng.integers(0, 3, 50)
    weighted = Dataset.from_arrays(X, y, ids, weights={q: 1.0 + (q < 5) for q in range(10)})
    first = ids < 5
    twice = Dataset.from_arrays(
        np.concatenate([X, X[first]]), np.concatenate([y, y[first]]), np.concatenate([ids, ids[first] + 100])
    )
    a = LinearRanker(transforms=(), tolerance=1e-9).fit(weighted).coefficients_
    b = LinearRanker(transforms=(), tolerance=1e-9).fit(twice).coefficients_
    assert a == pytest.approx(b, rel=1e-4)
