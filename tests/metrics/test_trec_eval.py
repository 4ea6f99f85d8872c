"""The convention ``trec_eval`` against trec_eval itself, through pytrec_eval."""

from __future__ import annotations

import numpy as np
import pytest

from plackett.metrics import metric

pytrec_eval = pytest.importorskip("pytrec_eval")

CUTOFFS = [1, 2, 3, 5, 10, 30]
ALL = {"ndcg": "ndcg", "map": "map", "mrr": "recip_rank"}
CUT = {"ndcg": "ndcg_cut", "map": "map_cut", "precision": "P", "recall": "recall", "success": "success"}


def trec_values(scores, labels, offsets, document_ids):
    """Values per list; documents with the score minus infinity are judged but not in the run."""
    cuts = ",".join(str(k) for k in CUTOFFS)
    qrel, run = {}, {}
    for q in range(len(offsets) - 1):
        rows = range(offsets[q], offsets[q + 1])
        qrel[str(q)] = {document_ids[i]: int(labels[i]) for i in rows}
        run[str(q)] = {document_ids[i]: float(scores[i]) for i in rows if scores[i] > -np.inf}
    wanted = set(ALL.values()) | {f"{name}.{cuts}" for name in CUT.values()}
    results = pytrec_eval.RelevanceEvaluator(qrel, wanted).evaluate(run)
    return [results[str(q)] for q in range(len(offsets) - 1)]


def check(lists, scores):
    theirs = trec_values(scores, lists.labels, lists.offsets, lists.document_ids)
    names = dict(ALL)
    names |= {f"{ours}@{k}": f"{name}_{k}" for ours, name in CUT.items() for k in CUTOFFS}
    for ours, name in names.items():
        values = metric(ours, "trec_eval")(scores, lists.labels, lists.offsets, lists.document_ids)
        expected = np.array([result[name] for result in theirs])
        assert values == pytest.approx(expected, abs=1e-12), ours


def test_each_list_has_the_value_that_trec_eval_gives_it(lists):
    check(lists, lists.scores)


def test_documents_that_were_not_retrieved_count_as_in_trec_eval(lists):
    rng = np.random.default_rng(5)
    scores = np.where(rng.random(len(lists.scores)) < 0.4, -np.inf, lists.scores)
    # pytrec_eval leaves out a query of which nothing was retrieved: keep one document.
    scores[lists.offsets[:-1]] = 0.5
    check(lists, scores)


def test_scores_that_differ_beyond_single_precision_are_tied_as_in_trec_eval(lists):
    rng = np.random.default_rng(6)
    scores = lists.scores + rng.choice([0.0, 1e-12, -1e-12], len(lists.scores))
    check(lists, scores)


def test_a_score_below_the_range_of_single_precision_is_still_retrieved():
    value = metric("recall:trec_eval")([0.0, -1e300], [0, 1], [0, 2], ["a", "b"])[0]
    assert value == 1.0


def test_ties_fall_by_the_text_of_the_document_id_largest_first():
    labels, offsets = [1, 0], [0, 2]
    values = [
        metric("precision@1:trec_eval")([0.0, 0.0], labels, offsets, ids)[0]
        for ids in (["b", "a"], ["a", "b"], [9, 10], [10, 9])
    ]
    assert values == [1.0, 0.0, 1.0, 0.0]
