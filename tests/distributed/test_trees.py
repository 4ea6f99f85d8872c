"""Trees grown by two workers: the same model, whatever happens to the workers."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

import plackett as pk
from plackett.distributed import ClusterError
from plackett.models.checkpoint import Checkpoint

pytestmark = pytest.mark.timeout(300)

WORKER = "ray::RayTrainWorker"
# LightGBM's data-parallel learner estimates the number of documents of a leaf. Where another limit
# (the sum of curvatures, which is exact) is reached first, it grows the trees of one process.
SAMPLES = 2000  # so many that a tree takes long enough for something to happen
EXACT = {
    "trees": 12,
    "leaves": 7,
    "seed": 3,
    "threads": 1,
    "lightgbm": {"min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 1.0},
}


@pytest.fixture(scope="module")
def parts():
    data = pk.synthetic("letor", n_lists=60, seed=1)
    return pk.split(data, (0.7, 0.3), seed=0)


def _noisy(**settings):
    """Everything that could depend on how lists are shared out: noise, and samples of lists."""
    objective = pk.Stochastic(pk.objective("lambdarank"), samples=SAMPLES, seed=5)
    inputs = EXACT | {"list_fraction": 0.7, "feature_fraction": 0.5} | settings
    return pk.TreeRanker(objective=objective, **inputs)


@pytest.fixture(scope="module")
def alone(parts):
    return _noisy().fit(*parts)


def _assert_same(found, alone, parts) -> None:
    for part in parts:
        np.testing.assert_allclose(found.predict(part), alone.predict(part), rtol=0, atol=1e-9)
    for part, curves in alone.curves_.items():
        np.testing.assert_allclose(found.curves_[part]["ndcg@10"], curves["ndcg@10"], atol=1e-12)


def test_two_workers_one_of_them_slow_grow_the_trees_of_one_process(ray_head, parts, alone) -> None:
    stopped: list[int] = []

    def slow_down(_: str, done: int, __: int) -> None:
        if done >= 1 and not stopped:
            stopped.append(ray_head.running(WORKER)[-1])
            os.kill(stopped[0], signal.SIGSTOP)
            threading.Timer(2.0, os.kill, (stopped[0], signal.SIGCONT)).start()

    watched: list[int] = []
    ranker = _noisy().fit(
        *parts, cluster=ray_head.cluster(), progress=slow_down, watch=lambda done, *_: watched.append(done)
    )
    assert stopped
    # A process that waits for its socket when it is stopped may find the wait interrupted (EINTR). LightGBM takes that
    # for a broken network; then the workers are replaced and repeat the steps since the last state.
    assert sorted(set(watched)) == list(range(1, 13))
    _assert_same(ranker, alone, parts)
    assert "127.0.0.1" not in ranker.model_


def test_workers_killed_at_the_start_and_in_the_midst_are_replaced_and_the_model_is_the_same(
    ray_head, parts, alone, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(Checkpoint, "seconds", 0.0)
    killed: list[int] = []
    seen: list[int] = []
    is_over = threading.Event()

    def kill_at_start() -> None:
        while not killed and not is_over.is_set():
            for worker in ray_head.running(WORKER)[:1]:
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)
            time.sleep(0.02)

    def kill(_: str, done: int, __: int) -> None:
        seen.append(done)
        if done >= 3 and len(killed) == 1:
            killed.append(ray_head.running(WORKER)[-1])
            os.kill(killed[1], signal.SIGKILL)

    thread = threading.Thread(target=kill_at_start)
    thread.start()
    try:
        ranker = _noisy().fit(*parts, checkpoint=tmp_path / "fit", cluster=ray_head.cluster(), progress=kill)
    finally:
        is_over.set()
        thread.join()
    assert len(killed) == 2
    assert 0 in seen[1:]  # another group begins
    assert list((tmp_path / "fit").glob("step-*"))
    _assert_same(ranker, alone, parts)


def test_workers_that_cannot_start_are_given_up_in_time(ray_head, parts) -> None:
    began = time.monotonic()
    with pytest.raises(ClusterError, match=r"3 workers of 1 core each could not be started with"):
        pk.TreeRanker(trees=2).fit(*parts, cluster=ray_head.cluster(workers=3, start_seconds=5))
    assert time.monotonic() - began < 120
