"""Ensemble selection: weights that help on other lists, and none for what does not."""

from __future__ import annotations

import numpy as np
import pytest

import plackett as pk
from plackett.metrics import metric
from plackett.models.auto.selection import select_ensemble


@pytest.fixture(scope="module")
def data():
    return pk.synthetic("letor", n_lists=150, seed=2)


def _noisy(data, noise, seed):
    rng = np.random.default_rng(seed)
    return data.labels + noise * rng.normal(size=data.n_docs)


def test_two_equally_good_candidates_share_and_noise_gets_nothing(data) -> None:
    scores = np.stack([_noisy(data, 1.2, 1), _noisy(data, 1.2, 2), _noisy(data, 30.0, 3)])
    selection = select_ensemble(scores, data, metric("ndcg@10"), seed=0)
    assert selection.weights.sum() == pytest.approx(1.0)
    assert selection.weights[:2].min() > 0.25
    assert selection.weights[2] == 0.0
    best = max(pk.evaluate(row, data, "ndcg@10")["ndcg@10"] for row in scores)
    assert pk.evaluate(selection.scores, data, "ndcg@10")["ndcg@10"] > best


def test_a_candidate_far_above_the_others_stands_alone(data) -> None:
    scores = np.stack([_noisy(data, 0.1, 1), _noisy(data, 3.0, 2), _noisy(data, 3.0, 3)])
    selection = select_ensemble(scores, data, metric("ndcg@10"), seed=0)
    assert selection.weights[0] > 0.9


def test_the_same_seed_gives_the_same_weights(data) -> None:
    scores = np.stack([_noisy(data, 1.0, i) for i in range(4)])
    first, again = (select_ensemble(scores, data, metric("ndcg@5"), seed=3) for _ in range(2))
    assert np.array_equal(first.weights, again.weights)
    assert np.array_equal(first.scores, again.scores)


def test_one_candidate_has_all_the_weight(data) -> None:
    scores = _noisy(data, 1.0, 0)[None]
    selection = select_ensemble(scores, data, metric("ndcg@10"))
    assert selection.weights.tolist() == [1.0]


def test_large_data_is_sampled(data, monkeypatch) -> None:
    monkeypatch.setattr("plackett.models.auto.selection._MAX_DOCUMENTS", 1500)
    scores = np.stack([_noisy(data, 1.2, 1), _noisy(data, 1.2, 2), _noisy(data, 30.0, 3)])
    selection = select_ensemble(scores, data, metric("ndcg@10"), seed=0)
    assert selection.weights[2] == 0.0
