"""Nets of one shape are scored together, with the scores that each has alone."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

import plackett as pk
from plackett.models.neural import scoring

_NET = {"epochs": 1, "layers": (6, 4), "threads": 1}


def _fit(data, **settings):
    return pk.CrossFit(pk.NeuralRanker("listnet", **_NET | settings), folds=3).fit(data)


def _mean_of_members(fit, data):
    return np.mean([m.predict(data) / s for m, s in zip(fit.members_, fit.scales_, strict=True)], axis=0)


@pytest.mark.parametrize(
    "settings", [{}, {"activation": "tanh", "dropout": 0.3}, {"layers": ()}, {"transforms": ("query-minmax",)}], ids=str
)
def test_members_are_scored_together(parts, settings) -> None:
    train, _, test = parts
    fit = _fit(train, **settings)
    assert scoring.score_together(fit.members_, test) is not None
    rows = np.random.default_rng(0).permutation(test.n_docs)
    shuffled = pk.Dataset.from_arrays(test.features[rows], test.labels[rows], test.list_of_row[rows])
    for data in (test, shuffled, test.lists(0, 1)):
        assert np.allclose(fit.predict(data), _mean_of_members(fit, data), rtol=1e-5, atol=1e-6)


def test_nets_that_are_more_than_layers_are_scored_one_by_one(parts) -> None:
    train, _, test = parts
    for settings in ({"batch_norm": 0.9}, {"attention": 1}, {"group_size": 2}):
        fit = _fit(train, **settings)
        assert scoring.score_together(fit.members_, test) is None, settings
        assert np.allclose(fit.predict(test), _mean_of_members(fit, test))


def test_many_documents_and_different_nets_are_scored_one_by_one(parts, monkeypatch) -> None:
    train, _, test = parts
    fit, other = _fit(train), _fit(train, activation="tanh")
    assert scoring.score_together([fit.members_[0], other.members_[0]], test) is None
    fit.members_[1].networks_[0].train()
    assert scoring.score_together(fit.members_, test) is None
    fit.members_[1].networks_[0].eval()
    monkeypatch.setattr(scoring, "_FEW_DOCUMENTS", test.n_docs - 1)
    assert scoring.score_together(fit.members_, test) is None
