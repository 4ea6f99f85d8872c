"""Permuting rows or renaming queries changes neither models nor metrics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from plackett.data.dataset import Dataset
from plackett.metrics import evaluate, per_list
from plackett.models import LinearRanker, TreeRanker

METRICS = ("ndcg@3", "ndcg", "err@5", "map", "mrr", "auc", "precision@2", "recall@4", "rbp", "dcg@3")


def _rows(seed: int):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, size=30)
    query_ids = np.repeat(np.arange(30), sizes)
    features = rng.normal(size=(len(query_ids), 4)).round(2).astype(np.float32)
    labels = rng.integers(0, 4, size=len(query_ids))
    return features, labels, query_ids


def _shuffled(features, labels, query_ids, seed: int):
    """The same rows in another order, under other query ids; and the order."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    names = np.array([f"query {x}" for x in rng.permutation(1000)[:30]])
    return features[order], labels[order], names[query_ids[order]], order


def _same_content(a: Dataset, b: Dataset) -> bool:
    return (
        np.array_equal(a.features, b.features)
        and np.array_equal(a.labels, b.labels)
        and np.array_equal(a.offsets, b.offsets)
        and np.array_equal(a.keys, b.keys)
    )


@given(data=st.integers(0, 50), shuffle=st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_data_sets_and_metrics_are_the_same_bits(data: int, shuffle: int) -> None:
    rows = _rows(data)
    *others, order = _shuffled(*rows, shuffle)
    one, two = Dataset.from_arrays(*rows), Dataset.from_arrays(*others)
    assert _same_content(one.canonical(), two.canonical())
    scores = one.features[:, 0].round(1).astype(np.float64)  # with ties
    assert evaluate(scores, one, METRICS) == evaluate(scores[order], two, METRICS)
    per_query, other = per_list(scores, one, METRICS), per_list(scores[order], two, METRICS)
    first_rows = order[[two.query_ids.tolist().index(q) for q in two.list_ids.tolist()]]
    places = one.list_of_row[first_rows]
    for name in per_query:
        assert np.array_equal(per_query[name][places], other[name], equal_nan=True)


@pytest.mark.parametrize(
    "ranker",
    [
        LinearRanker(objective="xendcg"),
        TreeRanker(objective="xendcg", trees=5, leaves=4, min_documents=3, threads=1),
        TreeRanker(objective="lightgbm-lambdarank", trees=5, leaves=4, min_documents=3, threads=1),
    ],
    ids=lambda r: f"{type(r).__name__}-{r.objective}",
)
@given(shuffle=st.integers(0, 1000))
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_models_are_the_same_bits(ranker, shuffle: int) -> None:
    rows = _rows(7)
    *others, order = _shuffled(*rows, shuffle)
    one, two = Dataset.from_arrays(*rows), Dataset.from_arrays(*others)
    ours = ranker.fit(one, one).predict(one)
    theirs = ranker.fit(two, two).predict(two)
    assert np.array_equal(ours[order], theirs)


@pytest.mark.parametrize("ranker", [LinearRanker(), TreeRanker(trees=3, leaves=4)])
def test_arrays_are_scored_in_the_callers_order(ranker) -> None:
    features, labels, query_ids = _rows(3)
    dataset = Dataset.from_arrays(features, labels, query_ids)
    by_dataset = ranker.fit(dataset).predict(dataset)
    assert np.array_equal(ranker.predict(features, query_ids=query_ids), by_dataset)
    assert np.array_equal(ranker.predict(features), by_dataset)
