"""Nets trained by two workers: the weights of one process, whatever happens to the workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ray_processes import free_port

import plackett as pk
from plackett.base.errors import UsageError
from plackett.models.checkpoint import Checkpoint

pytest.importorskip("torch", reason="needs the extra neural")
pytestmark = pytest.mark.timeout(300)

WORKER = "ray::RayTrainWorker"
SETTINGS = {"layers": (8,), "epochs": 6, "batch_lists": 8, "seed": 2, "threads": 1}
SCRIPT = Path(__file__).with_name("parallel_nets.py")


@pytest.fixture(scope="module")
def parts():
    data = pk.synthetic("letor", n_lists=60, seed=1)
    return pk.split(data, (0.7, 0.3), seed=0)


def test_two_processes_end_with_the_weights_of_one(tmp_path) -> None:
    from parallel_nets import lists, net

    port = str(free_port())
    files = [tmp_path / f"{rank}.npz" for rank in range(2)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", str(SCRIPT), str(rank), port, str(file)],
            env=os.environ | {"OMP_WAIT_POLICY": "passive"},
        )
        for rank, file in enumerate(files)
    ]
    try:
        assert [process.wait(timeout=150) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
    alone = net().fit(lists())
    first, second = (np.load(file) for file in files)
    *weights, last = alone.networks_[0].state_dict().items()
    for name, value in weights:
        np.testing.assert_array_equal(first[name], second[name])
        np.testing.assert_allclose(first[name], value.numpy(), rtol=0, atol=1e-5)
    # A constant added to all scores is nothing to the objective: its gradient is a rounding error,
    # from which Adam makes steps of full length.
    assert last[0].endswith("bias")
    np.testing.assert_allclose(first["loss"], alone.curves_["train"]["loss"], rtol=1e-5)


def test_a_net_whose_worker_was_killed_learns_as_one_process_does(
    ray_head, parts, tmp_path, monkeypatch
) -> None:
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


def test_what_cannot_equal_one_process_is_refused(parts) -> None:
    pytest.importorskip("ray", reason="needs the extra distributed")
    with pytest.raises(UsageError, match="batch normalisation takes means over a batch"):
        pk.NeuralRanker(batch_norm=0.9).fit(*parts, cluster="local:2")
    with pytest.raises(UsageError, match="workers train nets on processors"):
        pk.NeuralRanker(device="cuda").fit(*parts, cluster="local:2")
