"""What cannot be right is refused with a message that names it."""

from __future__ import annotations

import numpy as np
import pytest

from plackett.base.errors import DataError
from plackett.metrics import metric, ranking
from plackett.metrics.evaluate import values_per_list

pytestmark = pytest.mark.kernels

NDCG = metric("ndcg@3")


@pytest.mark.parametrize(
    ("scores", "labels", "offsets", "message"),
    [
        ([1, 2], [1, 0, 0], [0, 3], "2 scores for 3 labels"),
        ([1, np.nan, 0], [1, 0, 0], [0, 1, 3], r"score of document 1 \(list 1\) is nan"),
        ([1, np.inf, 0], [1, 0, 0], [0, 3], r"document 1 \(list 0\) is inf"),
        ([1, 2, 0], [1, -1, 0], [0, 3], r"label of document 1 \(list 0\) is -1.0"),
        ([1, 2, 0], [1, 0, np.nan], [0, 2, 3], r"label of document 2 \(list 1\) is nan"),
        ([1, 2, 0], [1, 0, 1e300], [0, 3], "label of document 2 .* is inf in float32"),
        ([1, 2, 0], [1, 0, 0], [0, 2], "rise from 0 to n_docs=3"),
        ([1, 2, 0], [1, 0, 0], [0.0, 3.0], "array of integers"),
        ([[1, 2, 0]], [1, 0, 0], [0, 3], "scores must be a one-dimensional array"),
        (["a", "b"], [1, 0], [0, 2], "scores must be a one-dimensional array of numbers"),
    ],
)
def test_input_that_cannot_be_right_is_refused(scores, labels, offsets, message):
    with pytest.raises(DataError, match=message):
        NDCG(scores, labels, offsets)


def test_ids_and_keys_must_fit():
    with pytest.raises(DataError, match="one document id for each of the 2 documents"):
        NDCG([1, 2], [1, 0], [0, 2], document_ids=["a"])
    with pytest.raises(DataError, match="one integer key for each of the 1 lists"):
        NDCG([1, 2], [1, 0], [0, 2], keys=[1, 2])


def test_bad_values_are_found_wherever_they_are():
    n = 100_000
    for at in (0, 16_383, 16_384, n - 1):
        scores = np.zeros(n)
        scores[at] = np.nan
        with pytest.raises(DataError, match=rf"document {at} \(list {at // 100}\)"):
            NDCG(scores, np.zeros(n), np.arange(0, n + 1, 100))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8, bool])
def test_arrays_of_any_number_type_and_layout_are_taken(dtype):
    scores = np.array([0, 1, 0, 1, 1, 0], dtype)[::2]
    labels = np.array([1, 9, 0, 9, 1, 9])[::2]
    scores.flags.writeable = False
    assert NDCG(scores, labels, (0, 3))[0] == NDCG([0.0, 0.0, 1.0], [1, 0, 1], [0, 3])[0]


def test_there_may_be_no_lists_and_no_documents():
    assert len(NDCG([], [], [0])) == 0
    assert np.isnan(NDCG([], [], [0, 0, 0])).all()
    assert len(metric("auc")([], [], [0])) == 0
    assert np.isnan(metric("map:ties=expected")([], [], [0, 0])).all()


@pytest.mark.parametrize("ties", ["stable", "expected", "pessimistic", "optimistic", "random"])
def test_the_first_small_evaluations_rank_in_numpy_with_the_same_result(ties, monkeypatch) -> None:
    rng = np.random.default_rng(1)
    offsets = np.cumsum([0, 40, 0, 1, 33, 26])
    labels = rng.choice([0.0, 1.0, 2.0, 0.5], offsets[-1]).astype(np.float32)
    scores = rng.choice([-np.inf, -1.0, 0.0, -0.0, 0.5, 2.0], offsets[-1])
    names = ("ndcg@5", "ndcg", "ndcg@40", "dcg@10", "map", "precision@3", "auc")
    metrics = [metric(name, ties=ties) for name in names]
    values = []
    for calls in (10**9, 0):
        monkeypatch.setattr(ranking, "FIRST_CALLS", calls)
        lists = ranking.check_lists(scores, labels, offsets)
        assert lists.in_numpy == (calls > 0)
        values.append(values_per_list(metrics, lists))
    np.testing.assert_array_equal(*values)
