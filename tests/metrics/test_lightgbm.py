"""The convention ``lightgbm`` against LightGBM's own evaluation."""

from __future__ import annotations

import numpy as np
import pytest

from plackett.metrics import evaluate, metric

lightgbm = pytest.importorskip("lightgbm")

CUTOFFS = [1, 2, 3, 5, 10, 30]


def lightgbm_values(scores, labels, sizes):
    """LightGBM's metrics of given scores: a booster without trees adds nothing to them."""
    data = lightgbm.Dataset(
        np.zeros((len(labels), 1)),
        label=labels,
        group=sizes,
        init_score=scores,
        params={"min_data_in_leaf": 1, "verbose": -1, "feature_pre_filter": False},
    )
    options = {"objective": "lambdarank", "metric": "ndcg,map", "eval_at": CUTOFFS, "verbose": -1}
    booster = lightgbm.Booster(options, data)
    return {name: float(value) for _, name, value, _ in booster.eval_train()}


@pytest.mark.parametrize("name", ["ndcg", "map"])
def test_means_over_lists_are_those_of_lightgbm(lists, name):
    theirs = lightgbm_values(lists.scores, lists.labels, lists.sizes)
    ours = evaluate(lists.scores, lists, [f"{name}@{k}:lightgbm" for k in CUTOFFS])
    assert ours == pytest.approx({f"{name}@{k}:lightgbm": theirs[f"{name}@{k}"] for k in CUTOFFS}, abs=1e-12)


def test_each_list_has_the_value_that_lightgbm_gives_it(lists):
    wanted = [f"{name}@{k}" for name in ("ndcg", "map") for k in CUTOFFS]
    ours = {w: metric(w, "lightgbm")(lists.scores, lists.labels, lists.offsets) for w in wanted}
    for q, (scores, labels) in enumerate(lists.each()):
        theirs = lightgbm_values(scores, labels, [len(labels)])
        assert {w: ours[w][q] for w in wanted} == pytest.approx(theirs, abs=1e-12)
