"""On LightGBM's own ranking example our trees reach what its tests ask of its objectives.

Its test fits 50 trees, stops on the test lists and compares the best NDCG@1 and @3 there with these
thresholds; lists without a relevant document count as 1. The learning rate decays there, not here.
"""

from __future__ import annotations

import pytest

import plackett as pk


@pytest.mark.parametrize(("name", "at_1", "at_3"), [("lambdamart", 0.5674, 0.578), ("xendcg-mart", 0.6211, 0.6253)])
def test_the_thresholds_of_lightgbm_are_met(name, at_1, at_3, real_data) -> None:
    (fold,) = pk.read_folds(real_data / "LightGBM_lambdarank")
    metrics = [pk.metric(f"ndcg@{k}", convention="lightgbm") for k in (1, 3)]
    ranker = pk.recipe(name, trees=50, leaves=31, learning_rate=0.1, min_documents=20, threads=1)
    ranker.set_params(list_fraction=1.0, feature_fraction=1.0, smoothing=1)
    curves = ranker.fit(fold.train, fold.test, metric=metrics).curves_["validation"]
    first, third = (curves[str(metric)] for metric in metrics)
    best = max(range(len(first)), key=lambda step: first[step])
    assert first[best] > at_1
    assert third[best] > at_3
