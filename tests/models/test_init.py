"""Fits that start from a fitted model."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest

from plackett import CrossFit, Dataset, evaluate, split, synthetic
from plackett.base.errors import FeatureMismatch, UsageError
from plackett.models import LinearRanker, NeuralRanker, StumpRanker, TreeRanker
from plackett.models.ensembles import import_model

TRAIN, VALIDATION, TEST = split(synthetic("letor", n_lists=60, seed=1), (0.5, 0.2, 0.3), seed=0)
SMALL = {"leaves": 4, "threads": 1}


@pytest.mark.parametrize("growth", ["newton", "squares"])
def test_trees_are_added_to_those_of_the_model(growth) -> None:
    settings = {**SMALL, "growth": growth}
    whole = TreeRanker(trees=9, **settings).fit(TRAIN)
    first = TreeRanker(trees=4, **settings).fit(TRAIN)
    before = first.predict(TEST)
    more = TreeRanker(trees=5, **settings).fit(TRAIN, init=first)
    assert more.best_step_ == 9
    (curve,) = more.curves_["train"].values()
    assert len(curve) == 5
    assert np.allclose(more.predict(TEST), whole.predict(TEST), atol=1e-9)
    assert np.array_equal(first.predict(TEST), before)


def test_a_continued_fit_keeps_the_best_of_its_new_trees() -> None:
    first = TreeRanker(trees=4, **SMALL).fit(TRAIN)
    more = TreeRanker(trees=30, patience=3, learning_rate=0.3, **SMALL)
    more.fit(TRAIN, VALIDATION, init=first)
    (curve,) = more.curves_["validation"].values()
    assert more.best_step_ == 4 + 1 + int(np.argmax(curve))


def test_a_continued_fit_can_be_resumed(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("plackett.models.checkpoint.Checkpoint.seconds", 0.0)
    first = TreeRanker(trees=4, **SMALL).fit(TRAIN)
    expected = TreeRanker(trees=6, **SMALL).fit(TRAIN, init=first).predict(TEST)

    def kill(step):
        if step.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TreeRanker(trees=6, **SMALL).fit(TRAIN, init=first, checkpoint=tmp_path, callbacks=kill)
    again = TreeRanker(trees=6, **SMALL).fit(TRAIN, init=first, checkpoint=tmp_path)
    assert np.array_equal(again.predict(TEST), expected)
    with pytest.raises(UsageError, match="another"):
        TreeRanker(trees=6, **SMALL).fit(TRAIN, checkpoint=tmp_path)


def test_trees_of_lightgbm_are_continued(tmp_path) -> None:
    data = lightgbm.Dataset(np.array(TRAIN.features), np.array(TRAIN.labels))
    theirs = lightgbm.train({"num_leaves": 4, "verbosity": -1, "num_threads": 1}, data, 3)
    theirs.save_model(tmp_path / "m.txt")
    init = import_model(tmp_path / "m.txt")
    plain = Dataset.from_arrays(TRAIN.features, TRAIN.labels, np.arange(TRAIN.n_docs) // 20)
    ranker = TreeRanker(trees=2, **SMALL).fit(plain, init=init)
    assert ranker.best_step_ == 5
    assert not np.allclose(ranker.predict(plain), init.predict(plain))


def test_stumps_are_added() -> None:
    whole = StumpRanker(rounds=9).fit(TRAIN)
    first = StumpRanker(rounds=4).fit(TRAIN)
    more = StumpRanker(rounds=5).fit(TRAIN, init=first)
    assert np.allclose(more.predict(TEST), whole.predict(TEST))


def test_linear_models_start_at_the_weights() -> None:
    cold = LinearRanker(C=1.0).fit(TRAIN)
    warm = LinearRanker(C=1.0).fit(TRAIN, init=cold)
    assert warm.convergence_.iterations < cold.convergence_.iterations
    assert np.allclose(warm.coefficients_, cold.coefficients_, atol=1e-3)
    part = TRAIN.select(range(10))
    assert LinearRanker(C=1.0).fit(part, init=cold).transform_ is cold.transform_


def test_nets_start_at_the_weights() -> None:
    settings = {"layers": (8,), "learning_rate": 0.01, "threads": 1}
    first = NeuralRanker(epochs=15, **settings).fit(TRAIN)
    more = NeuralRanker(epochs=1, **settings).fit(TRAIN, init=first)
    fresh = NeuralRanker(epochs=1, **settings).fit(TRAIN)
    worth = [evaluate(r.predict(TRAIN), TRAIN, "ndcg@10")["ndcg@10"] for r in (first, more, fresh)]
    assert worth[1] > worth[2] + 0.02
    assert abs(worth[1] - worth[0]) < 0.05
    with pytest.raises(UsageError, match="another structure"):
        NeuralRanker(**{**settings, "layers": (9,)}).fit(TRAIN, init=first)


def test_models_that_do_not_match_are_refused() -> None:
    trees = TreeRanker(trees=2, **SMALL).fit(TRAIN)
    with pytest.raises(UsageError, match="init must be a fitted LinearRanker, got TreeRanker"):
        LinearRanker().fit(TRAIN, init=trees)
    with pytest.raises(UsageError, match="not fitted"):
        TreeRanker().fit(TRAIN, init=TreeRanker())
    narrow = TRAIN.with_features(np.ascontiguousarray(TRAIN.features[:, :5]))
    with pytest.raises(FeatureMismatch, match="46 features"):
        TreeRanker().fit(narrow, init=trees)
    with pytest.raises(UsageError, match="transforms"):
        TreeRanker(transforms=("standard",)).fit(TRAIN, init=trees)
    with pytest.raises(UsageError, match="does not support init"):
        CrossFit(TreeRanker()).fit(TRAIN, init=trees)
