"""Workers that die while they are being started are started again, and the truth is told."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import plackett as pk

pytest.importorskip("ray", reason="needs the extra distributed")

from ray.exceptions import ActorDiedError
from ray.train import ControllerError
from ray.train.v2._internal.exceptions import WorkerGroupStartupFailedError, WorkerGroupStartupTimeoutError

from plackett.distributed import Cluster, training_job
from plackett.distributed.training_job import TrainingJob, fit_with_restarts

DIED = ControllerError(WorkerGroupStartupFailedError("a worker was killed"))
LATE = ControllerError(WorkerGroupStartupTimeoutError(2))


def _failing(times: int, error: Exception):
    calls: list[int] = []

    def fit() -> None:
        calls.append(1)
        if len(calls) <= times:
            raise error

    return fit, calls


def test_a_worker_killed_at_start_is_started_again() -> None:
    fit, calls = _failing(2, DIED)
    restarts: list[int] = []
    fit_with_restarts(fit, retries=2, on_restart=lambda: restarts.append(1))
    assert len(calls) == 3
    assert len(restarts) == 2


def test_a_start_that_took_too_long_is_not_repeated() -> None:
    fit, calls = _failing(2, LATE)
    with pytest.raises(ControllerError):
        fit_with_restarts(fit, retries=3, on_restart=lambda: None)
    assert len(calls) == 1


def test_the_message_says_what_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_job.driver_process, "describe_resources", lambda: "no cores are free")
    job = TrainingJob(print, None, {}, Cluster(2, retries=1), "lightgbm")
    died = training_job._failure_text(DIED, 2, job, "")
    assert "a worker died while it was being started, 2 times (retries=1)" in died
    assert "within" not in died
    gone = training_job._failure_text(ActorDiedError(), 2, job, "")
    assert "the controller of the workers died, 2 times (retries=1)" in gone
    assert "could not be started within" in training_job._failure_text(LATE, 2, job, "")


EXACT = {"min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 1.0}  # limits that do not depend on the partition


@pytest.mark.timeout(600)
def test_when_the_controller_is_killed_the_cores_of_its_workers_are_free_for_others(ray_head) -> None:
    data = pk.synthetic("letor", n_lists=30, seed=1)
    objective = pk.Stochastic(pk.objective("lambdarank"), samples=2000, seed=5)
    ranker = pk.TreeRanker(objective=objective, trees=5, leaves=4, threads=1, lightgbm=EXACT)
    expected = ranker.fit(data).predict(data)
    told: list[str] = []

    def kill(text: str, *_: int) -> None:
        if text.startswith("training on") and not told:
            os.kill(*ray_head.running("ray::TrainController"), signal.SIGKILL)
        told.append(text)

    found = ranker.fit(data, cluster=ray_head.cluster(), progress=kill)
    assert "the controller of the workers died; starting again" in told
    np.testing.assert_allclose(found.predict(data), expected, rtol=0, atol=1e-9)
