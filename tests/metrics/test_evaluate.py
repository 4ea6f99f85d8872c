"""Means over lists."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from plackett.base.errors import DataError, UsageError
from plackett.metrics import evaluate, metric, per_list

pytestmark = pytest.mark.kernels

SPELLINGS = [
    "ndcg@1",
    "ndcg@10",
    "ndcg@10:ties=expected",
    "ndcg@40",
    "err@3",
    "map",
    "map@5:lightgbm",
    "auc",
    "ndcg@5:trec_eval",
    "mrr:ties=random:seed=3",
    "precision@3:catboost",
]


def test_metrics_computed_together_are_those_computed_alone(lists):
    together = per_list(lists.scores, lists, SPELLINGS)
    assert list(together) == SPELLINGS
    for spelling, values in together.items():
        alone = metric(spelling)(lists.scores, lists.labels, lists.offsets, lists.document_ids, lists.keys)
        assert np.array_equal(values, alone, equal_nan=True)


def test_the_mean_is_over_the_lists_that_count(lists):
    values = per_list(lists.scores, lists, "ndcg@3")["ndcg@3"]
    assert np.isnan(values).any()
    assert evaluate(lists.scores, lists, "ndcg@3")["ndcg@3"] == pytest.approx(np.nanmean(values))


def test_a_dropped_list_has_no_weight(lists):
    weights = np.random.default_rng(0).random(len(lists.sizes))
    values = per_list(lists.scores, lists, "ndcg@3")["ndcg@3"]
    kept = ~np.isnan(values)
    assert 0 < kept.sum() < len(kept)
    mean = evaluate(lists.scores, replace(lists, weights=weights), "ndcg@3")["ndcg@3"]
    assert mean == pytest.approx(np.average(values[kept], weights=weights[kept]), rel=1e-14)


def test_a_list_without_a_relevant_document_has_its_own_weight_where_it_counts():
    def mean(weights):
        data = SimpleNamespace(
            labels=np.array([0, 1, 0, 0]),
            offsets=np.array([0, 2, 4]),
            weights=np.array(weights),
            document_ids=None,
            keys=None,
        )
        return evaluate([2.0, 1.0, 2.0, 1.0], data, "ndcg:lightgbm")["ndcg:lightgbm"]

    bad = 1 / np.log2(3)
    assert mean([1.0, 3.0]) == pytest.approx((bad + 3) / 4)
    assert mean([3.0, 1.0]) == pytest.approx((3 * bad + 1) / 4)


def test_the_mean_over_no_list_is_not_a_number(lists):
    empty = replace(lists, labels=np.zeros_like(lists.labels))
    assert np.isnan(evaluate(lists.scores, empty, "ndcg")["ndcg"])
    nothing = replace(lists, weights=np.zeros(len(lists.sizes)))
    assert np.isnan(evaluate(lists.scores, nothing, "ndcg")["ndcg"])


def test_keys_are_spellings_of_strings_and_of_metrics(lists):
    result = evaluate(lists.scores, lists, [metric("err@10", grade=4), "ndcg@10:papers"])
    assert list(result) == ["err@10:grade=4", "ndcg@10"]
    assert all(type(value) is float for value in result.values())
    assert list(evaluate(lists.scores, lists, "ndcg@1,map")) == ["ndcg@1", "map"]


@pytest.mark.parametrize("bad", [5, None, [5], [None], ["ndcg", 1.5]])
def test_what_is_no_text_is_no_metric(lists, bad):
    with pytest.raises(UsageError, match="a metric is written as text"):
        evaluate(lists.scores, lists, bad)


@pytest.mark.parametrize("bad", [[1.0], [-1.0] * 60, [np.nan] * 60])
def test_weights_that_cannot_be_right_are_refused(lists, bad):
    with pytest.raises(DataError, match="one for each of the 60 lists"):
        evaluate(lists.scores, replace(lists, weights=np.array(bad)), "ndcg")
