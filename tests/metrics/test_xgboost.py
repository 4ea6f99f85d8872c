"""The convention ``xgboost`` against XGBoost's own evaluation."""

from __future__ import annotations

import numpy as np
import pytest

from plackett.base.errors import UsageError
from plackett.metrics import evaluate, metric

xgboost = pytest.importorskip("xgboost")

CUTOFFS = [1, 2, 3, 5, 10, 30]
THEIR_NAME = {"ndcg": "ndcg", "map": "map", "precision": "pre", "auc": "auc"}
GRADED = ["ndcg", *(f"ndcg@{k}" for k in CUTOFFS)]
BINARY = ["map", "precision", *(f"{name}@{k}" for name in ("map", "precision") for k in CUTOFFS)]


def xgboost_values(scores, labels, sizes, wanted):
    """XGBoost's metrics of given scores: they are the margin of a booster without trees."""
    theirs = [name.replace(stem := name.partition("@")[0], THEIR_NAME[stem]) for name in wanted]
    data = xgboost.DMatrix(np.zeros((len(labels), 1), np.float32), label=labels, group=sizes, base_margin=scores)
    booster = xgboost.Booster({"objective": "rank:ndcg", "eval_metric": theirs}, [data])
    line = booster.eval_set([(data, "x")], 0)
    return dict(zip(wanted, (float(p.split(":")[1]) for p in line.split("\t")[1:]), strict=True))


def check(lists, wanted):
    theirs = xgboost_values(lists.scores, lists.labels, lists.sizes, wanted)
    ours = evaluate(lists.scores, lists, [metric(name, "xgboost") for name in wanted])
    assert list(ours.values()) == pytest.approx(list(theirs.values()), abs=1e-12)


def test_means_over_lists_of_graded_labels_are_those_of_xgboost(lists):
    check(lists, GRADED)


def test_means_over_lists_of_binary_labels_are_those_of_xgboost(binary_lists):
    check(binary_lists, BINARY)


@pytest.mark.parametrize(("fixture", "wanted"), [("lists", GRADED), ("binary_lists", BINARY)])
def test_each_list_has_the_value_that_xgboost_gives_it(request, fixture, wanted):
    lists = request.getfixturevalue(fixture)
    ours = {w: metric(w, "xgboost")(lists.scores, lists.labels, lists.offsets) for w in wanted}
    for q, (scores, labels) in enumerate(lists.each()):
        theirs = xgboost_values(scores, labels, [len(labels)], wanted)
        assert {w: ours[w][q] for w in wanted} == pytest.approx(theirs, abs=1e-12)


def test_scores_are_compared_in_single_precision_as_xgboost_stores_them():
    scores, labels = np.array([1.0, 1.0 + 1e-12]), np.array([0.0, 1.0])
    theirs = xgboost_values(scores, labels, [2], ["ndcg@1"])
    assert theirs == {"ndcg@1": 0.0}
    assert metric("ndcg@1:xgboost")(scores, labels, [0, 2])[0] == 0.0
    assert metric("ndcg@1:xgboost:rounding=none")(scores, labels, [0, 2])[0] == 1.0


def test_xgboosts_auc_depends_on_the_order_of_rows_so_the_convention_has_none():
    labels = np.array([1.0, 0.0, 0.0])
    one = xgboost_values(np.array([3.0, 2.0, 1.0]), labels, [3], ["auc"])
    other = xgboost_values(np.array([3.0, 1.0, 2.0]), labels, [3], ["auc"])
    assert (one["auc"], other["auc"]) == pytest.approx((1.0, 2 / 3))
    with pytest.raises(UsageError, match=r"XGBoost has no metric 'auc'.*ndcg, map, precision"):
        metric("auc:xgboost")
