from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import plackett as pk
from plackett.base.errors import DataError, UsageError
from plackett.data.dataset import Dataset
from plackett.data.folds import split
from plackett.data.synthetic import synthetic
from plackett.models import StumpRanker
from plackett.models.checkpoint import Checkpoint
from plackett.models.stumps import best_stump, encode_features, fill_potential, label_order, select_thresholds


@pytest.fixture(scope="module")
def parts():
    return split(synthetic("letor", n_lists=90, seed=3), (0.5, 0.25, 0.25), seed=1)


def _pairs(data: Dataset) -> list[tuple[int, int]]:
    bounds = zip(data.offsets[:-1], data.offsets[1:], strict=True)
    return [
        (i, j)
        for low, high in bounds
        for i in range(low, high)
        for j in range(low, high)
        if data.labels[i] > data.labels[j]
    ]


def _rankboost(data: Dataset, rounds: int) -> np.ndarray:
    """RankBoost with the distribution over pairs written out (Freund et al. 2003)."""
    pairs = np.array(_pairs(data))
    D = np.full(len(pairs), 1.0 / len(pairs))
    X = data.features
    scores = np.zeros(data.n_docs)
    for _ in range(rounds):
        best = (0.0, None)
        for j in range(X.shape[1]):
            for threshold in np.unique(X[:, j])[:-1]:
                h = (X[:, j] > threshold).astype(float)
                r = D @ (h[pairs[:, 0]] - h[pairs[:, 1]])
                if abs(r) > abs(best[0]) + 1e-12:
                    best = (r, h)
        r, h = best
        alpha = 0.5 * np.log((1 + r) / (1 - r))
        scores += alpha * h
        D *= np.exp(-alpha * (h[pairs[:, 0]] - h[pairs[:, 1]]))
        D /= D.sum()
    return scores


@pytest.mark.parametrize("levels", [2, 4])
def test_the_scores_are_those_of_boosting_over_explicit_pairs(levels) -> None:
    rng = np.random.default_rng(levels)
    ids = np.repeat(np.arange(8), 7)
    X = rng.integers(0, 6, size=(len(ids), 3)).astype(float)
    y = rng.integers(0, levels, len(ids))
    data = Dataset.from_arrays(X + 0.01 * rng.random(X.shape).round(1), y, ids)
    ranker = StumpRanker(rounds=6, thresholds=1000).fit(data)
    assert ranker.predict(data) == pytest.approx(_rankboost(data, 6), abs=1e-9)


def test_the_potential_sums_to_the_worth_of_a_stump_over_pairs(parts) -> None:
    data = parts[0].lists(0, 5)
    scores = np.random.default_rng(0).normal(size=data.n_docs)
    potential, losses = np.empty(data.n_docs), np.empty(data.n_lists)
    order = label_order(data.labels, data.offsets)
    ones = np.ones(data.n_lists)
    document_weights = np.ones(data.n_docs)
    fill_potential(scores, data.labels, order, data.offsets, ones, document_weights, potential, losses)
    pairs = _pairs(data)
    assert losses.sum() == pytest.approx(sum(np.exp(scores[j] - scores[i]) for i, j in pairs))
    h = data.features[:, 0] > 0.5
    worth = sum(np.exp(scores[j] - scores[i]) * (int(h[i]) - int(h[j])) for i, j in pairs)
    assert potential @ h == pytest.approx(worth)
    thresholds = select_thresholds(data.features, 255)
    counts = np.array([len(values) for values in thresholds])
    codes = encode_features(data.features, thresholds)
    j, k, best = best_stump(codes, counts, potential)
    assert best == pytest.approx(potential @ (data.features[:, j] > thresholds[j][k]))
    assert abs(best) >= abs(worth) - 1e-9


def test_the_loss_falls_by_the_factor_boosting_promises(parts) -> None:
    ranker = StumpRanker(rounds=20).fit(parts[0])
    losses = np.array(ranker.losses_)
    assert np.all(losses[1:] < losses[:-1])


def test_validation_decides_how_many_rounds_are_kept(parts) -> None:
    train, validation, _ = parts
    ranker = StumpRanker(rounds=60, patience=10).fit(train, validation, "ndcg@10")
    curve = ranker.curves_["validation"]["ndcg@10"]
    value = pk.evaluate(ranker.predict(validation), validation, "ndcg@10")["ndcg@10"]
    assert value == pytest.approx(max(curve))
    assert len(curve) <= int(np.argmax(curve)) + 1 + 10


def test_missing_values_are_above_no_threshold() -> None:
    X = np.array([[1.0], [np.nan], [3.0], [2.0], [np.nan], [5.0]])
    data = Dataset.from_arrays(X, [0, 0, 1, 0, 0, 1], [1, 1, 1, 2, 2, 2], missing="nan")
    scores = StumpRanker(rounds=1).fit(data).predict(data)
    assert np.all(scores[[1, 4]] == scores[0])
    assert np.all(scores[[2, 5]] > scores[0])


def test_sparse_features_give_the_scores_of_dense_ones(parts) -> None:
    data = parts[0].lists(0, 20)
    rows = np.arange(data.n_docs)
    ids = np.repeat(np.arange(data.n_lists), np.diff(data.offsets))[rows]
    X = np.where(data.features[rows] > 0.4, data.features[rows], 0.0)
    datasets = [pk.Dataset.from_arrays(x, data.labels[rows], ids) for x in (X, csr_matrix(X))]
    a, b = (StumpRanker(rounds=15).fit(d).predict(d) for d in datasets)
    assert a == pytest.approx(b, abs=1e-12)


def test_thresholds_separate_neighboring_floats() -> None:
    low = np.float32(1.0)
    high = np.nextafter(low, np.float32(2.0))
    X = np.array([[low], [high], [low]], dtype=np.float32)
    assert encode_features(X, select_thresholds(X, 10))[0].tolist() == [0, 1, 0]


def test_many_values_are_cut_at_quantiles() -> None:
    X = np.sort(np.random.default_rng(0).normal(size=(1000, 1)).astype(np.float32), axis=0)
    thresholds = select_thresholds(X, 9)
    assert len(thresholds[0]) == 9
    shares = np.bincount(encode_features(X, thresholds)[0])
    assert shares.max() - shares.min() <= 2


def test_a_resumed_fit_ends_in_the_same_stumps(parts, tmp_path, monkeypatch) -> None:
    train, validation, test = parts
    monkeypatch.setattr(Checkpoint, "seconds", 0.0)
    monkeypatch.setattr(Checkpoint, "share", 1e9)
    ranker = StumpRanker(rounds=30)
    whole = ranker.clone().fit(train, validation)

    def interrupt(text: str, done: int, total: int) -> None:  # noqa: ARG001
        if done == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ranker.clone().fit(train, validation, checkpoint=tmp_path, progress=interrupt)
    assert list(tmp_path.glob("step-*"))
    resumed = ranker.clone().fit(train, validation, checkpoint=tmp_path)
    assert np.array_equal(resumed.predict(test), whole.predict(test))
    assert resumed.losses_ == whole.losses_


def test_a_saved_model_scores_alike_and_a_damaged_one_raises(parts, tmp_path) -> None:
    ranker = StumpRanker(rounds=10).fit(parts[0])
    ranker.save(tmp_path / "m")
    assert np.array_equal(pk.load(tmp_path / "m").predict(parts[2]), ranker.predict(parts[2]))
    bad = StumpRanker()
    bad.n_features_ = 3
    (tmp_path / "stumps.json").write_text(json.dumps({"features": [7], "thresholds": [0.0], "weights": [1.0]}))
    with pytest.raises(DataError, match="one feature, threshold and weight per stump"):
        bad._read(tmp_path)


def test_coefficients_are_named_and_sorted_by_range(parts) -> None:
    ranker = StumpRanker(rounds=10).fit(parts[0])
    named = ranker.coefficients_by_name()
    assert set(named) <= set(parts[0].feature_names)
    assert all(value > 0 for value in named.values())


def test_invalid_settings_raise(parts) -> None:
    with pytest.raises(UsageError, match="rounds >= 1"):
        StumpRanker(rounds=0).fit(parts[0])
    with pytest.raises(UsageError, match="at most 65534 thresholds"):
        StumpRanker(thresholds=70_000).fit(parts[0])
