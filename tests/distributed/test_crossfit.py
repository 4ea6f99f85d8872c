"""Members of a cross-fit as Ray tasks: the members of one process, whatever they are."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import plackett as pk
from plackett.base.errors import UsageError

pytestmark = pytest.mark.timeout(300)

TASK = "ray::_run_task"
NOISY = pk.Stochastic(pk.objective("lambdarank"), samples=300, seed=5)


@pytest.fixture(scope="module")
def parts():
    return pk.split(pk.synthetic("letor", n_lists=60, seed=1), (0.7, 0.3), seed=0)


def _ranker(kind: str):
    return {
        "linear": pk.LinearRanker("listnet", C=1.0, transforms=("standard",)),
        "trees": pk.TreeRanker(objective=NOISY, trees=8, leaves=5, seed=3),
        "net": pk.NeuralRanker(layers=(6,), epochs=3, seed=3, threads=1),
    }[kind]


@pytest.mark.parametrize("kind", ["linear", "net"])
def test_members_of_every_kind_are_those_of_one_process(ray_head, parts, kind) -> None:
    if kind == "net":
        pytest.importorskip("torch", reason="needs the extra neural")
    inputs = _ranker(kind)
    here = pk.CrossFit(inputs, folds=2).fit(*parts)
    there = pk.CrossFit(inputs, folds=2).fit(*parts, cluster=ray_head.cluster())
    assert np.array_equal(there.scales_, here.scales_)
    assert np.array_equal(there.predict(parts[1]), here.predict(parts[1]))
    for one, other in zip(there.members_, here.members_, strict=True):
        assert one.get_params() == other.get_params()
        assert one.training_ == other.training_
    assert inputs.n_features_ is None


def test_a_killed_worker_costs_a_member_and_a_checkpoint_keeps_the_others(ray_head, parts, tmp_path) -> None:
    crossfit = pk.CrossFit(_ranker("trees"), folds=3)
    here = crossfit.clone().fit(*parts)
    killed: list[int] = []

    def kill(_: str, done: int, __: int) -> None:
        running = ray_head.running(TASK)
        if done == 1 and running and not killed:
            killed.append(running[0])
            os.kill(running[0], signal.SIGKILL)

    def stop(_: str, done: int, __: int) -> None:
        if done == 1:
            raise InterruptedError

    kept = tmp_path / "fit"
    with pytest.raises(InterruptedError):
        crossfit.fit(*parts, checkpoint=kept, cluster=ray_head.cluster(workers=1), progress=stop)
    assert [path.name for path in kept.glob("member-*")] == ["member-0"]
    crossfit.fit(*parts, checkpoint=kept, cluster=ray_head.cluster(), progress=kill)
    assert killed
    assert np.array_equal(crossfit.predict(parts[1]), here.predict(parts[1]))
    again = crossfit.clone().fit(*parts, checkpoint=kept, cluster="127.0.0.1:1")
    assert np.array_equal(again.predict(parts[1]), here.predict(parts[1]))  # nothing was to be done


def test_what_goes_wrong_with_a_member_is_said_here(ray_head, parts) -> None:
    with pytest.raises(UsageError, match="there is no feature 'none'"):
        pk.CrossFit(pk.TreeRanker(monotone={"none": 1}), folds=2).fit(*parts, cluster=ray_head.cluster())


def test_an_auto_ranker_on_a_cluster_is_that_of_one_process(ray_head, parts) -> None:
    auto = pk.AutoRanker(members=("listnet-linear",), folds=3, variations=0)
    here = auto.clone().fit(*parts)
    there = auto.clone().fit(*parts, cluster=ray_head.cluster())
    assert np.array_equal(there.predict(parts[1]), here.predict(parts[1]))
