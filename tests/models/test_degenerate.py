"""Data that no model can learn from: the same words in every kind of model, and nothing else."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import plackett as pk

RANKERS = {
    "linear": lambda: pk.LinearRanker(C=1.0),
    "hinge": lambda: pk.LinearRanker(objective="ranksvm"),
    "trees": lambda: pk.TreeRanker(trees=3, leaves=4, min_documents=2),
    "stumps": lambda: pk.StumpRanker(rounds=3),
    "net": lambda: pk.NeuralRanker(layers=(3,), epochs=1),
    "cross-fitted": lambda: pk.CrossFit(pk.LinearRanker(C=1.0), folds=2),
}
QUERIES = np.repeat(np.arange(6), 10)
FEATURES = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
LABELS = np.arange(60) % 3


@pytest.fixture(params=RANKERS)
def ranker(request):
    if request.param == "net":
        pytest.importorskip("torch")
    return RANKERS[request.param]()


@pytest.mark.parametrize(
    ("features", "labels", "queries", "message"),
    [
        (FEATURES, LABELS, np.arange(60), "no list has two levels of labels"),
        (FEATURES, np.ones(60), QUERIES, "no list has two levels of labels"),
        (FEATURES, np.zeros(60), QUERIES, "no list has two levels of labels"),
        (FEATURES * 0, LABELS, QUERIES, "no feature differs between the documents of a list"),
        (FEATURES * 0 + 3, LABELS, QUERIES, "no feature differs between the documents of a list"),
        (FEATURES[QUERIES], LABELS, QUERIES, "no feature differs between the documents of a list"),
    ],
    ids=["single documents", "one label", "zero labels", "zeros", "constants", "duplicates"],
)
def test_nothing_to_learn_is_refused(ranker, features, labels, queries, message, capfd) -> None:
    data = pk.Dataset.from_arrays(features, labels, queries)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(pk.DataError, match=message):
            ranker.fit(data)
    assert capfd.readouterr() == ("", "")


def test_labels_too_small_to_count_are_trained_with_a_warning(ranker) -> None:
    labels = LABELS * np.float32(1e-44)
    with pytest.warns(pk.DataWarning, match="largest label is .* may learn no order"):
        ranker.fit(pk.Dataset.from_arrays(FEATURES, labels, QUERIES))


def test_a_tree_that_cannot_split_says_so_and_lightgbm_nothing(capfd) -> None:
    data = pk.Dataset.from_arrays(FEATURES, LABELS, QUERIES)
    with pytest.raises(pk.DataError, match="lower min_documents"):
        pk.TreeRanker(trees=3, min_documents=50).fit(data)
    assert capfd.readouterr() == ("", "")
