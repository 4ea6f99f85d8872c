"""Unbiased LambdaMART: position bias estimated during boosting."""

from __future__ import annotations

import re

import lightgbm
import numpy as np
import pytest

import plackett as pk
from plackett.base.errors import DataError, UsageError
from plackett.data.clicks import simulate
from plackett.models.trees.position_bias import UnbiasedGradients, solve_bias
from plackett.objectives import LambdaRank

SMALL = {"objective": "lambdarank", "trees": 10, "leaves": 7, "threads": 1}


@pytest.fixture(scope="module")
def labelled():
    return pk.synthetic("web", n_lists=120, seed=0)


@pytest.fixture(scope="module")
def clicks(labelled):
    """Clicks on lists in random order: positions are examined with chance 1/k."""
    return pk.Dataset.from_clicks(simulate(labelled, "joachims2017", impressions=40, top=8, seed=1), labelled)


def _naive(scores, data, clicked, unclicked, sigma):
    """Value by value over pairs, from the formula; the losses by position, and the gradient."""
    gradient, sums = np.zeros(data.n_docs), np.zeros((8, 8))
    for low, high in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        order = np.argsort(-scores[low:high], kind="stable")
        rank = np.empty(high - low, int)
        rank[order] = np.arange(high - low)
        discount = 1 / np.log2(2 + rank)
        gain = 2.0 ** data.labels[low:high] - 1
        ideal = np.sort(gain)[::-1] @ (1 / np.log2(2 + np.arange(high - low)))
        for i in range(high - low):
            for j in range(high - low):
                if data.labels[low + i] > data.labels[low + j]:
                    delta = abs(gain[i] - gain[j]) * abs(discount[i] - discount[j]) / ideal
                    k, m = data.positions[low + i] - 1, data.positions[low + j] - 1
                    x = sigma * (scores[low + i] - scores[low + j])
                    sums[k, m] += delta * np.log1p(np.exp(-x))
                    force = sigma * delta / (1 + np.exp(x)) / (clicked[k] * unclicked[m])
                    gradient[low + i] -= force
                    gradient[low + j] += force
    return sums, gradient


def test_gradient_and_bias_are_those_of_the_formula(clicks) -> None:
    data = clicks.lists(0, 30).canonical()
    scores = np.random.default_rng(0).normal(size=data.n_docs)
    unbiased = UnbiasedGradients(LambdaRank(sigma=2.0), data, 0.5)
    sums, _ = _naive(scores, data, np.ones(8), np.ones(8), 2.0)
    bias, expected = unbiased.estimate(scores), solve_bias(sums, 1 / 1.5)
    assert bias.clicked == pytest.approx(expected.clicked, abs=1e-9, nan_ok=True)
    assert bias.unclicked == pytest.approx(expected.unclicked, abs=1e-9, nan_ok=True)
    gradient, curvature = unbiased(scores, 0)
    assert gradient == pytest.approx(_naive(scores, data, bias.clicked, bias.unclicked, 2.0)[1], abs=1e-9)
    assert np.all(curvature >= 0)


def test_the_ratios_fulfil_both_closed_forms() -> None:
    rng = np.random.default_rng(0)
    losses = np.outer(1 / np.arange(1.0, 6), np.linspace(1, 0.8, 5)) * rng.uniform(0.9, 1.1, (5, 5))
    bias = solve_bias(losses, 0.5)
    plus = losses @ (1 / bias.unclicked)
    minus = (1 / bias.clicked) @ losses
    assert bias.clicked == pytest.approx((plus / plus[0]) ** 0.5, abs=1e-9)
    assert bias.unclicked == pytest.approx((minus / minus[0]) ** 0.5, abs=1e-9)


def test_positions_without_clicks_have_no_estimate() -> None:
    bias = solve_bias(np.array([[1.0, 1.0], [0.0, 0.0]]), 1.0)
    assert bias.clicked[0] == 1.0
    assert np.isnan(bias.clicked[1])
    assert np.all(np.isfinite(bias.unclicked))


def test_the_position_bias_of_simulated_users_is_recovered(clicks) -> None:
    ranker = pk.TreeRanker(**SMALL, position_bias=0.0).fit(clicks)
    truth = 1 / np.arange(1.0, 9)
    assert ranker.position_bias_.clicked == pytest.approx(truth, rel=0.35)
    assert np.all(np.abs(np.log(ranker.position_bias_.unclicked)) < 0.35)
    shrunk = pk.TreeRanker(**SMALL, position_bias=1.0).fit(clicks).position_bias_.clicked
    assert np.all(shrunk[1:] > ranker.position_bias_.clicked[1:])  # p pulls the ratios to 1


class _Lines(list):
    """A logger that keeps what LightGBM says; there is no other way to its bias factors."""

    info = warning = list.append


def test_lightgbm_estimates_the_same_bias(clicks, monkeypatch) -> None:
    data, lines = clicks.grouped(), _Lines()
    monkeypatch.setattr(lightgbm.basic, "_LOGGER", lines)
    settings = {"objective": "lambdarank", "num_leaves": 7, "num_threads": 1, "seed": 0, "verbosity": 2}
    shown = {"group": data.list_sizes, "position": data.positions.astype(np.int32)}
    theirs = lightgbm.Dataset(np.asarray(data.features), data.labels, **shown)
    lightgbm.train(settings | {"lambdarank_position_bias_regularization": 0.0}, theirs, 20)
    table = "".join(lines).rpartition("bias_factor")[2]
    factors = np.array([float(factor) for _, factor in re.findall(r"\]\s+(\d+)\s+(-?[\d.]+)", table)])
    ours = pk.TreeRanker(**SMALL, position_bias=0.0).fit(clicks).position_bias_.clicked
    assert np.log(ours) == pytest.approx(factors - factors[0], abs=0.4)  # theirs are added to scores


def test_it_ranks_better_than_clicks_taken_as_they_are() -> None:
    web = pk.synthetic("web", n_lists=300, seed=3)
    shown, test = pk.split(web, (0.6, 0.4), seed=0)
    scores = shown.features[:, 3] / shown.features[:, 3].std()
    log = simulate(shown, "joachims2017", impressions=20, scores=scores, temperature=1.0, top=10, seed=2)
    data = pk.Dataset.from_clicks(log, shown)
    settings = SMALL | {"trees": 30}
    means = [
        pk.evaluate(pk.TreeRanker(**settings, position_bias=p).fit(data).predict(test), test)["ndcg@10"]
        for p in (None, 1.0)
    ]
    assert means[1] > means[0]


def test_a_killed_fit_resumes_to_the_same_bits(clicks, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("plackett.models.checkpoint.Checkpoint.seconds", 0.0)
    data = clicks.lists(0, 200)
    ranker = pk.TreeRanker(**SMALL, position_bias=1.0, list_fraction=0.7)
    expected = ranker.clone().fit(data).predict(data)

    def kill(step):
        if step.step == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ranker.clone().fit(data, checkpoint=tmp_path, callbacks=kill)
    assert np.array_equal(ranker.clone().fit(data, checkpoint=tmp_path).predict(data), expected)


def test_what_it_cannot_use_is_refused(clicks, labelled) -> None:
    data = clicks.lists(0, 50)
    ranker = pk.recipe("unbiased-lambdamart", trees=2)
    with pytest.raises(DataError, match=r"needs the position of each document: .*by=.impression"):
        ranker.fit(labelled)
    with pytest.raises(UsageError, match="with no setting but sigma, got XENDCG"):
        ranker.clone().set_params(objective="xendcg").fit(data)
    with pytest.raises(UsageError, match="at least 0, got -1"):
        ranker.clone().set_params(position_bias=-1.0).fit(data)
    with pytest.raises(UsageError, match="make the data without propensities"):
        ranker.fit(data._replace(document_weights=np.full(data.n_docs, 2.0)))
