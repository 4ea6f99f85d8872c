"""The convention ``catboost`` against CatBoost's own evaluation."""

from __future__ import annotations

import numpy as np
import pytest

from plackett.base.ragged import list_of_document
from plackett.metrics import evaluate, metric

eval_metric = pytest.importorskip("catboost.utils").eval_metric

CUTOFFS = [1, 2, 3, 5, 10, 30]
THEIR_NAME = {
    "ndcg": "NDCG",
    "dcg": "DCG",
    "map": "MAP",
    "mrr": "MRR",
    "err": "ERR",
    "precision": "PrecisionAt",
    "recall": "RecallAt",
}
GRADED = ["ndcg", "dcg", "map", "mrr", "precision", "recall"]


def catboost_value(scores, labels, groups, name, cutoff=None, extra=()):
    options = [*([] if cutoff is None else [f"top={cutoff}"]), *extra]
    wanted = THEIR_NAME.get(name, name) + (":" + ";".join(options) if options else "")
    return eval_metric(list(labels), list(scores), wanted, group_id=list(groups))[0]


def spelled(name, cutoff):
    return name if cutoff is None else f"{name}@{cutoff}"


@pytest.mark.parametrize("cutoff", [None, *CUTOFFS])
@pytest.mark.parametrize("name", GRADED)
def test_means_over_lists_are_those_of_catboost(lists, name, cutoff):
    groups = list_of_document(lists.offsets)
    theirs = catboost_value(lists.scores, lists.labels, groups, name, cutoff)
    ours = evaluate(lists.scores, lists, metric(spelled(name, cutoff), "catboost"))
    assert list(ours.values()) == pytest.approx([theirs], abs=1e-9)


@pytest.mark.parametrize("cutoff", [None, 1, 3, 10])
@pytest.mark.parametrize("name", GRADED)
def test_each_list_has_the_value_that_catboost_gives_it(lists, name, cutoff):
    ours = metric(spelled(name, cutoff), "catboost")(lists.scores, lists.labels, lists.offsets)
    theirs = [
        catboost_value(scores, labels, np.zeros(len(labels), int), name, cutoff) for scores, labels in lists.each()
    ]
    assert ours == pytest.approx(np.array(theirs), abs=1e-9)


@pytest.mark.parametrize("cutoff", [None, 1, 3, 10])
def test_err_of_labels_that_are_probabilities_is_that_of_catboost(lists, cutoff):
    labels = lists.labels / 8  # exact in binary, below 1
    theirs = catboost_value(lists.scores, labels, list_of_document(lists.offsets), "err", cutoff)
    ours = metric(spelled("err", cutoff), "catboost")(lists.scores, labels, lists.offsets)
    assert ours.mean() == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("cutoff", [None, 1, 3, 10])
@pytest.mark.parametrize("name", ["ndcg", "dcg"])
@pytest.mark.parametrize(
    ("theirs", "options"), [("type=Exp", {"gain": "exp2"}), ("denominator=Position", {"discount": "reciprocal"})]
)
def test_other_gains_and_discounts_of_catboost_are_options(lists, name, cutoff, theirs, options):
    groups = list_of_document(lists.offsets)
    value = catboost_value(lists.scores, lists.labels, groups, name, cutoff, [theirs])
    ours = metric(spelled(name, cutoff), "catboost", **options)
    assert ours(lists.scores, lists.labels, lists.offsets).mean() == pytest.approx(value, abs=1e-9)


def test_auc_is_the_mean_of_catboost_query_auc(lists, binary_lists):
    for data in (lists, binary_lists):
        groups = list_of_document(data.offsets)
        theirs = catboost_value(data.scores, data.labels, groups, "QueryAUC", None, ["type=Ranking"])
        ours = metric("auc:catboost")(data.scores, data.labels, data.offsets)
        assert ours.mean() == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize(
    ("scores", "labels", "published"),
    [([1, 0, -2, 5], [0, 0, 0.4, 0.8], 0.82), ([5, 5, 5, 5], [0.1, 0.3, 0.5, 0.7], 0.395125)],
)
def test_err_has_the_values_of_catboosts_own_tests(scores, labels, published):
    value = metric("err:catboost")(scores, labels, [0, len(labels)])[0]
    assert value == pytest.approx(published, abs=1e-7)  # labels are float32
