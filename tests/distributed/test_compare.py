"""Trials as Ray tasks, and shards ranked with Ray Data."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import plackett as pk
from plackett.base.errors import UsageError
from plackett.distributed import ClusterError
from plackett.experiments.compare import compare
from plackett.experiments.store import RunStore
from ray_processes import QUIET

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


def test_a_cluster_that_is_not_there_is_named_in_time() -> None:
    pytest.importorskip("ray", reason="needs the extra distributed")
    data = pk.synthetic("letor", n_lists=20, seed=3)
    with pytest.raises(ClusterError, match=r"Ray at 127\.0\.0\.1:1 cannot be reached"):
        compare(data, ["listnet-linear"], cluster="127.0.0.1:1?start_seconds=3")


def test_rank_scores_shards_on_a_cluster(ray_head, tmp_path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    data = pk.synthetic("letor", n_lists=30, seed=4)
    ranker = pk.LinearRanker("listnet").fit(data)
    ranker.save(tmp_path / "m.plackett")
    shards = tmp_path / "shards"
    shards.mkdir()
    for place, (start, stop) in enumerate(((0, 10), (10, 18), (18, 30))):
        pk.write(data.lists(start, stop), shards / f"part-{place}.parquet")

    def rank() -> dict[str, object]:
        command = [sys.executable, "-m", "plackett", "rank", str(tmp_path / "m.plackett")]
        command += [str(shards), "--out", str(tmp_path / "ranked"), "--label", "label", "--json"]
        run = subprocess.run(
            [*command, "--cluster", ray_head.cluster()],
            capture_output=True,
            text=True,
            env=os.environ | QUIET,
            timeout=240,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)

    facts = rank()
    assert (facts["lists"], facts["documents"], facts["ranked"]) == (30, data.n_docs, 3)
    assert rank()["ranked"] == 0  # nothing is done twice
    actual = [parquet.read_table(tmp_path / "ranked" / f"part-{p}.parquet") for p in range(3)]
    scores = np.concatenate([table["score"].to_numpy() for table in actual])
    np.testing.assert_allclose(np.sort(scores), np.sort(ranker.predict(data)), atol=1e-12)
    assert all(table["rank"].to_numpy().min() == 1 for table in actual)
    pk.write(data.lists(9, 11), shards / "part-3.parquet")
    with pytest.raises(AssertionError, match="queries have rows in two shards"):
        rank()
