"""Searches on a cluster in which something goes wrong: it is told in time, and nothing is lost."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest

import plackett as pk
from plackett.base.errors import DataError
from plackett.distributed import Cluster, ClusterError
from plackett.experiments import tune
from plackett.experiments.compare import compare
from plackett.experiments.store import RunStore
from ray_processes import QUIET, head
from tuned_systems import PAUSE, AngleRanker, search

pytest.importorskip("optuna", reason="needs the extra tune")
pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("sent_by_value")]


@pytest.mark.parametrize(
    ("fault", "settings", "reason"),
    [
        ("refuses", {}, "is too large"),
        ("dies", {"retries": 0}, "its worker died repeatedly"),
        ("hangs", {"step_seconds": 15}, r"finished no step within 15 s \(step_seconds\)"),
    ],
)
def test_settings_that_cannot_be_fitted_fail_alone(ray_head, tmp_path, fault, settings, reason) -> None:
    ranker = AngleRanker(limit=2.5, fault=fault)
    result = search(tmp_path / "t.db", 6, ranker=ranker, cluster=ray_head.cluster(**settings))
    failed = [trial for trial in result.trials if trial.state == "failed"]
    assert failed
    assert len(failed) < 6
    for trial in failed:
        assert trial.settings["angle"] > 2.5
        assert re.search(reason, trial.reason)
    assert all(trial.settings["angle"] <= 2.5 for trial in result.trials if trial not in failed)


def test_what_is_wrong_with_the_data_is_said_here(ray_head, tmp_path) -> None:
    data = pk.synthetic("letor", n_lists=20, seed=1)
    features = np.array(data.features)
    features[0, 0] = np.nan
    holed, store = data.with_features(features), tmp_path / "t.db"
    with pytest.raises(DataError, match="cannot take missing features"):
        tune(holed, "listnet-linear", trials=3, store=store, cluster=ray_head.cluster())
    with RunStore(store) as kept:
        assert kept.held() == {}


def test_workers_that_never_start_are_given_up_in_time(ray_head, tmp_path) -> None:
    where = ray_head.cluster(workers=1, threads=3, start_seconds=3)
    reason = r"no worker with 3 cores could be started within 3 s .* with 2 cores"
    with pytest.raises(ClusterError, match=reason):
        search(tmp_path / "t.db", 2, cluster=where)
    with pytest.raises(ClusterError, match=reason):
        compare(pk.synthetic("letor", n_lists=20), ["listnet-linear"], cluster=where)


def test_when_the_head_goes_the_search_ends_in_time_and_what_is_finished_stays(tmp_path, monkeypatch) -> None:
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    gone: list[float] = []
    store = tmp_path / "t.db"
    options = {"ranker": AngleRanker(pause=PAUSE), "pruner": "none"}
    with head() as started:

        def kill(_: str, done: int, __: int) -> None:
            if done >= 2 and not gone:
                started.kill_server()
                gone.append(time.monotonic())

        where = Cluster(2, f"127.0.0.1:{started.port}", answer_seconds=10, step_seconds=30, start_seconds=60)
        with pytest.raises(ClusterError) as raised:
            search(store, 500, cluster=where, progress=kill, **options)
        assert "Ray at 127.0.0.1" in str(raised.value)
        assert "Finished trials are kept" in str(raised.value)
        assert gone, str(raised.value)
        assert time.monotonic() - gone[0] < where.limit
    with RunStore(store) as kept:
        assert kept.held() == {}  # what was begun can be taken up at once
    result = search(store, 3, **options)
    assert result.ran < 3
