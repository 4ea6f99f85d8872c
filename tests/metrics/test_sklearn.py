"""The convention ``sklearn`` against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

from plackett.metrics import metric

theirs = pytest.importorskip("sklearn.metrics")


@pytest.mark.parametrize("cutoff", [None, 1, 2, 3, 5, 10, 30])
@pytest.mark.parametrize("name", ["ndcg", "dcg"])
def test_each_list_has_the_value_that_scikit_learn_gives_it(lists, name, cutoff):
    function = {"ndcg": theirs.ndcg_score, "dcg": theirs.dcg_score}[name]
    ours = metric(name if cutoff is None else f"{name}@{cutoff}", "sklearn")
    values = ours(lists.scores, lists.labels, lists.offsets)
    for value, (scores, labels) in zip(values, lists.each(), strict=True):
        if len(labels) > 1:  # scikit-learn refuses single documents
            assert value == pytest.approx(function([labels], [scores], k=cutoff), abs=1e-12)


def test_auc_is_the_roc_auc_of_each_list_and_drops_lists_with_one_class(binary_lists):
    values = metric("auc:sklearn")(binary_lists.scores, binary_lists.labels, binary_lists.offsets)
    for value, (scores, labels) in zip(values, binary_lists.each(), strict=True):
        if len(np.unique(labels)) == 1:
            assert np.isnan(value)
        else:
            assert value == pytest.approx(theirs.roc_auc_score(labels, scores), abs=1e-12)
