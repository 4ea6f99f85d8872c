"""Trials of a search as Ray tasks: the same search as without a cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import tuned_systems
from plackett.experiments.store import RunStore
from ray_processes import QUIET, wait_for
from tuned_systems import PAUSE, AngleRanker, search

pytest.importorskip("optuna", reason="needs the extra tune")
pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("sent_by_value")]

TASK = "ray::_run_task"
SCRIPT = Path(tuned_systems.__file__)


def _told(found):
    return [(trial.number, trial.state, trial.settings, trial.value) for trial in found.trials]


def test_one_worker_suggests_and_prunes_as_one_process_does_and_either_goes_on(ray_head, tmp_path) -> None:
    store = tmp_path / "tuning.db"
    whole = search(tmp_path / "whole.db", 16)
    assert "pruned" in [trial.state for trial in whole.trials]
    begun = search(store, 6)
    assert begun.ran == 6
    more = search(store, 13, cluster=ray_head.cluster(workers=1))
    assert more.ran == 7
    assert "pruned" in [trial.state for trial in more.trials[6:]]
    rest = search(store, 16)
    assert rest.ran == 3
    assert _told(rest) == _told(whole)
    assert (rest.recipe_value, rest.settings) == (whole.recipe_value, whole.settings)
    again = search(store, 16, cluster="127.0.0.1:1")
    assert again.ran == 0  # what is finished is not asked for


def test_two_workers_one_of_them_killed_find_what_one_process_finds(ray_head, tmp_path) -> None:
    options = {"ranker": AngleRanker(pause=PAUSE), "pruner": "none", "folds": 2}
    killed: list[int] = []
    done = threading.Event()

    def kill() -> None:
        while not done.wait(0.02) and not killed:
            running = ray_head.running(TASK)
            if running:
                killed.append(running[0])
                os.kill(running[0], signal.SIGKILL)

    looking = threading.Thread(target=kill)
    looking.start()
    try:
        result = search(tmp_path / "there.db", 6, cluster=ray_head.cluster(), **options)
    finally:
        done.set()
        looking.join()
    assert killed
    assert result.ran == 6
    here = search(tmp_path / "here.db", 6, **options)
    assert _told(result) == _told(here)
    assert result.recipe_value == here.recipe_value
    with RunStore(tmp_path / "there.db") as kept:
        assert kept.held() == {}


def test_killed_with_all_its_workers_a_search_goes_on(ray_head, tmp_path) -> None:
    store = tmp_path / "tuning.db"
    command = [sys.executable, str(SCRIPT), str(store), "8", str(PAUSE), ray_head.cluster()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | QUIET)
    assert process.stdout is not None
    with process.stdout as said:
        while not (line := said.readline()).startswith("3/8"):
            assert line, "the search ended early"
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=20)
    wait_for(lambda: not ray_head.running(TASK), 60)  # they end with it
    options = {"ranker": AngleRanker(pause=PAUSE), "pruner": "none", "folds": 2}
    result = search(store, 8, cluster=ray_head.cluster(), **options)
    assert 0 < result.ran <= 5
    whole = search(tmp_path / "whole.db", 8, **options)
    assert _told(result) == _told(whole)
