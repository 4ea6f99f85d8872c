"""Trials as Ray tasks."""

from __future__ import annotations

import os
import signal
import threading

import pytest

import plackett as pk
from plackett.base.errors import UsageError
from plackett.experiments.compare import compare
from plackett.experiments.store import RunStore

pytestmark = pytest.mark.timeout(300)

TASK = "ray::_run_task"


def _systems():
    objective = pk.Stochastic(pk.objective("lambdarank"), samples=300)
    trees = pk.TreeRanker(objective=objective, trees=8, leaves=5)
    return {"trees": trees, "line": pk.LinearRanker("listnet")}


def test_warnings_of_solvers_come_back_from_a_cluster(ray_head) -> None:
    data = pk.synthetic("letor", n_lists=20, seed=3)
    systems = {"short": pk.LinearRanker("listnet", max_iterations=1)}
    with pytest.warns(pk.ConvergenceWarning, match=r"short.*did not converge"):
        compare(data, systems, protocol="splits:2", cluster=ray_head.cluster())


def test_trials_on_a_cluster_end_as_they_do_here_also_if_a_worker_is_killed(ray_head, tmp_path) -> None:
    data = pk.synthetic("letor", n_lists=40, seed=3)
    killed: list[int] = []

    def kill(*_: object) -> None:
        running = ray_head.running(TASK)
        if running and not killed:
            killed.append(running[0])
            os.kill(running[0], signal.SIGKILL)

    done = threading.Event()

    def look() -> None:
        while not done.wait(0.02) and not killed:
            kill()

    looking = threading.Thread(target=look)
    looking.start()
    store = tmp_path / "runs.db"
    try:
        comparison = compare(data, _systems(), protocol="splits:2", store=store, cluster=ray_head.cluster())
    finally:
        done.set()
        looking.join()
    assert killed
    assert comparison.ran == 4
    here = compare(data, _systems(), protocol="splits:2", threads=1)
    for name, means in here.results.trial_means.items():
        assert means["ndcg@5"].tolist() == comparison.results.trial_means[name]["ndcg@5"].tolist()
    again = compare(data, _systems(), protocol="splits:2", store=store, cluster="127.0.0.1:1")
    assert again.ran == 0  # what is finished is not asked for


def test_finished_trials_stay_when_another_fails(ray_head, tmp_path) -> None:
    data = pk.synthetic("letor", n_lists=40, seed=3)
    store = tmp_path / "runs.db"
    with pytest.raises(UsageError, match="there is no feature 'none'"):
        compare(
            data,
            {"line": pk.LinearRanker("listnet"), "bad": pk.TreeRanker(monotone={"none": 1})},
            store=store,
            cluster=ray_head.cluster(workers=1),
        )
    with RunStore(store) as kept:
        assert len(kept) == 1
