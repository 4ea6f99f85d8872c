"""Coordinate ascent and AdaRank."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import plackett as pk
from plackett.base.errors import UsageError
from plackett.models.linear import AdaRanker, CoordinateAscentRanker
from plackett.models.linear.direct import MetricOfWeights

TRAIN, VALIDATION, TEST = pk.split(pk.synthetic("letor", n_lists=60, seed=1), (0.5, 0.2, 0.3), seed=0)
QUICK = {"restarts": 2, "sweeps": 3, "steps": 3}
KINDS = [CoordinateAscentRanker(**QUICK), AdaRanker(rounds=8)]
each = pytest.mark.parametrize("ranker", KINDS, ids=["coordinate-ascent", "adarank"])


def _adarank(data: pk.Dataset, rounds: int, metric: pk.Metric) -> np.ndarray:
    """AdaRank as its paper writes it, with the weak ranker of the round before left out."""
    X, y, offsets = data.features.astype(float), data.labels, data.offsets
    E = np.array([metric(x, y, offsets) for x in X.T])
    E = E[:, ~np.isnan(E[0])]
    P = np.full(E.shape[1], 1 / E.shape[1])
    weights, last = np.zeros(len(E)), None
    for _ in range(rounds):
        worth = [-1.0 if k == last else P @ E[k] for k in range(len(E))]
        last = int(np.argmax(worth))
        weights[last] += 0.5 * np.log(P @ (1 + E[last]) / (P @ (1 - E[last])))
        values = metric(X @ weights, y, offsets)
        P = np.exp(-values[~np.isnan(values)])
        P /= P.sum()
    return weights


@pytest.mark.parametrize("name", ["ndcg@5", "map"])
def test_adarank_is_the_boosting_of_its_paper(name) -> None:
    data = TRAIN.canonical()
    ranker = AdaRanker(rounds=6, directions="up", patience=None, transforms=())
    ranker.fit(data, metric=name)
    steps = ranker.curves_["train"][str(pk.metric(name))]
    expected = [pk.evaluate(data.features @ _adarank(data, t, pk.metric(name)), data, name) for t in range(1, 7)]
    assert steps == pytest.approx([next(iter(means.values())) for means in expected], abs=1e-6)
    assert ranker.coefficients_ == pytest.approx(_adarank(data, ranker.best_step_, pk.metric(name)), abs=1e-9)


def test_a_feature_that_counts_against_a_document_is_found() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    data = pk.Dataset.from_arrays(X, (X[:, 1] < -0.5).astype(int), np.repeat(np.arange(20), 10))
    assert pk.evaluate(AdaRanker(rounds=1).fit(data).predict(data), data, "map")["map"] == 1.0
    assert AdaRanker(rounds=1).fit(data).coefficients_[1] < 0.0
    assert pk.evaluate(CoordinateAscentRanker().fit(data).predict(data), data, "map")["map"] == 1.0


def test_coordinate_ascent_never_loses_on_the_training_lists_and_ends_where_no_move_helps() -> None:
    ranker = CoordinateAscentRanker(restarts=1, sweeps=20, steps=3, tolerance=1e-9, seed=4).fit(TRAIN)
    (curve,) = ranker.curves_["train"].values()
    assert np.all(np.diff(curve) >= -1e-12)
    assert np.abs(ranker.coefficients_).sum() == pytest.approx(1.0)
    data = ranker._prepare(TRAIN.canonical())
    problem = MetricOfWeights(data, pk.metric("ndcg@10"))
    before = problem.mean(problem.scores(ranker.coefficients_))
    after = ranker._sweep(problem, ranker.coefficients_.copy(), np.random.default_rng(0))
    assert problem.mean(problem.scores(after)) == pytest.approx(before, abs=1e-12)


def test_more_starts_are_never_worse_on_the_lists_that_choose() -> None:
    best = []
    for restarts in (1, 3):
        ranker = CoordinateAscentRanker(**QUICK | {"restarts": restarts}).fit(TRAIN, VALIDATION)
        best.append(max(ranker.curves_["validation"]["ndcg@10"]))
    assert best[1] >= best[0]


@each
def test_the_seed_decides_alone(ranker) -> None:
    scores = [ranker.clone().set_params(threads=threads).fit(TRAIN).predict(TEST) for threads in (1, 2)]
    assert np.array_equal(*scores)


@each
def test_a_killed_fit_resumes_to_the_same_bits(ranker, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("plackett.models.checkpoint.Checkpoint.seconds", 0.0)
    expected = ranker.clone().fit(TRAIN, VALIDATION)

    def kill(step):
        if step.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ranker.clone().fit(TRAIN, VALIDATION, checkpoint=tmp_path, callbacks=kill)
    again = ranker.clone().fit(TRAIN, VALIDATION, checkpoint=tmp_path)
    assert np.array_equal(again.coefficients_, expected.coefficients_)
    assert again.curves_ == expected.curves_


@each
def test_a_fit_goes_on_from_a_fitted_model(ranker) -> None:
    first = ranker.clone().fit(TRAIN)
    more = ranker.clone().fit(TRAIN, init=first)
    assert max(more.curves_["train"]["ndcg@10"]) >= max(first.curves_["train"]["ndcg@10"]) - 0.02


@each
def test_sparse_features_are_the_same_features(ranker) -> None:
    ranker = ranker.clone().set_params(transforms=())
    sparse = TRAIN.with_features(csr_matrix(TRAIN.features))
    assert ranker.clone().fit(sparse).predict(TEST) == pytest.approx(ranker.clone().fit(TRAIN).predict(TEST), abs=1e-9)


@each
def test_document_weights_are_refused(ranker) -> None:
    weights = np.ones(TRAIN.n_docs)
    ranker.clone().fit(TRAIN._replace(document_weights=weights))
    weights[3] = 2.0
    with pytest.raises(UsageError, match="does not support document weights; use a linear model"):
        ranker.clone().fit(TRAIN._replace(document_weights=weights))


def test_lists_of_no_weight_do_not_count() -> None:
    weights = np.zeros(TRAIN.n_lists)
    weights[:10] = 1.0
    weighted = AdaRanker(rounds=3, transforms=()).fit(TRAIN._replace(weights=weights))
    alone = AdaRanker(rounds=3, transforms=()).fit(TRAIN.lists(0, 10))
    assert weighted.coefficients_ == pytest.approx(alone.coefficients_, abs=1e-12)


def test_adarank_needs_a_metric_of_at_most_one() -> None:
    with pytest.raises(UsageError, match="between 0 and 1, and dcg@10 is not"):
        AdaRanker().fit(TRAIN, metric="dcg@10")


@each
@pytest.mark.parametrize("target", ["solr", "elasticsearch-linear", "onnx"])
def test_it_is_exported_as_a_linear_model(ranker, target, tmp_path) -> None:
    fitted = ranker.clone().fit(TRAIN)
    pk.export(fitted, tmp_path / "model", target=target)
    assert any(tmp_path.iterdir())
