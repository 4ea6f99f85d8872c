"""A head that goes, and workers that fall silent: nothing hangs."""

from __future__ import annotations

import time

import pytest

import plackett as pk
from plackett.distributed import Cluster, ClusterError
from plackett.models.checkpoint import Checkpoint
from ray_processes import QUIET, head

pytest.importorskip("ray", reason="needs the extra distributed")
pytestmark = pytest.mark.timeout(300)


def test_when_the_head_goes_the_fit_ends_in_time_and_its_checkpoint_is_taken_up(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(Checkpoint, "seconds", 0.0)
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    data = pk.synthetic("letor", n_lists=40, seed=1)
    objective = pk.Stochastic(pk.objective("lambdarank"), samples=2000)
    ranker = pk.TreeRanker(objective=objective, trees=25, leaves=5)
    checkpoint, gone = tmp_path / "fit", []
    with head() as started:

        def kill(_: str, done: int, __: int) -> None:
            if done >= 2 and not gone:
                started.kill_server()
                gone.append(time.monotonic())

        where = Cluster(2, f"127.0.0.1:{started.port}", answer_seconds=5, step_seconds=20, start_seconds=60)
        with pytest.raises(ClusterError, match=r"Ray at 127\.0\.0\.1"):
            ranker.fit(data, checkpoint=checkpoint, cluster=where, progress=kill)
        assert time.monotonic() - gone[0] < 2 * where.limit
    (state,) = checkpoint.glob("step-*")
    assert int(state.name.removeprefix("step-")) >= 1
    first: list[int] = []
    ranker.fit(data, checkpoint=checkpoint, progress=lambda _, done, __: first.append(done))
    assert first[0] > 1  # taken up here, in one process
