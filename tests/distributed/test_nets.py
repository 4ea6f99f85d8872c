"""Nets trained by two workers: the weights of one process, whatever happens to the workers."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import plackett as pk
from plackett.base.errors import UsageError
from plackett.models.checkpoint import Checkpoint

pytest.importorskip("torch", reason="needs the extra neural")
pytestmark = pytest.mark.timeout(300)

WORKER = "ray::RayTrainWorker"
SETTINGS = {"layers": (8,), "epochs": 6, "batch_lists": 8, "seed": 2, "threads": 1}


@pytest.fixture(scope="module")
def parts():
    data = pk.synthetic("letor", n_lists=60, seed=1)
    return pk.split(data, (0.7, 0.3), seed=0)


def test_a_net_whose_worker_was_killed_learns_as_one_process_does(ray_head, parts, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(Checkpoint, "seconds", 0.0)
    monkeypatch.setattr(Checkpoint, "share", 1.0)
    objective = pk.Stochastic(pk.objective("lambdaloss"), samples=1000, seed=1)
    alone = pk.NeuralRanker(objective=objective, **SETTINGS).fit(*parts)
    killed: list[int] = []

    def kill(_: str, done: int, __: int) -> None:
        if done >= 1 and not killed:
            killed.append(ray_head.running(WORKER)[-1])
            os.kill(killed[0], signal.SIGKILL)

    together = pk.NeuralRanker(objective=objective, **SETTINGS).fit(
        *parts, checkpoint=tmp_path / "fit", cluster=ray_head.cluster(), progress=kill
    )
    assert killed
    assert list((tmp_path / "fit").glob("step-*"))
    for name, curve in alone.curves_["train"].items():
        np.testing.assert_allclose(together.curves_["train"][name], curve, rtol=1e-5)
    for name, curve in alone.curves_["validation"].items():
        np.testing.assert_allclose(together.curves_["validation"][name], curve, atol=5e-3)
    assert together.epochs_ == alone.epochs_


def test_a_net_of_a_paper_with_weights_is_that_of_one_process(ray_head, parts) -> None:
    """Batch normalisation, list weights and document weights reach the workers."""
    rng = np.random.default_rng(0)
    train = parts[0]._replace(
        weights=rng.uniform(0.2, 3.0, parts[0].n_lists), document_weights=rng.uniform(0.5, 2.0, parts[0].n_docs)
    )
    settings = {"layers": (16, 8), "epochs": 3, "batch_lists": 8, "threads": 1}
    ranker = pk.recipe("e-approxndcg-net", preset="A-web30k", **settings)
    alone = ranker.clone().fit(train, parts[1])
    together = ranker.clone().fit(train, parts[1], cluster=ray_head.cluster())
    np.testing.assert_allclose(together.curves_["train"]["loss"], alone.curves_["train"]["loss"], rtol=1e-5)
    assert together.curves_["validation"] == alone.curves_["validation"]
    np.testing.assert_allclose(together.predict(parts[1]), alone.predict(parts[1]), atol=1e-5)
    for name in ("weights", "document_weights"):  # both of them count
        less = ranker.clone().fit(train._replace(**{name: None}), parts[1])
        assert np.abs(less.predict(parts[1]) - alone.predict(parts[1])).max() > 1e-3


def test_what_cannot_equal_one_process_is_refused(parts) -> None:
    pytest.importorskip("ray", reason="needs the extra distributed")
    from torch import nn

    class Norm(nn.BatchNorm1d):
        pass

    n_features = parts[0].n_features
    ours = nn.Sequential(Norm(n_features), nn.Linear(n_features, 1))
    with pytest.raises(UsageError, match="a net with Norm cannot be trained on a cluster"):
        pk.NeuralRanker(module=ours).fit(*parts, cluster="local:2")
    ours[0] = nn.BatchNorm1d(n_features, track_running_stats=False)
    with pytest.raises(UsageError, match="set track_running_stats=True"):
        pk.NeuralRanker(module=ours).fit(*parts, cluster="local:2")
    with pytest.raises(UsageError, match="workers of a cluster train nets on CPUs"):
        pk.NeuralRanker(device="cuda").fit(*parts, cluster="local:2")
