"""Comparisons that are killed, and several at once on one store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import plackett as pk
import small_systems
from plackett.base.errors import PlackettError
from plackett.experiments.compare import compare
from plackett.experiments.store import RunStore
from small_systems import linear_systems, small_data
from store_worker import wait_for

_SCRIPT = Path(small_systems.__file__)
_TRIALS = 18


def _start(store: Path | str, *, jobs: int, lease: float = 60.0) -> subprocess.Popen[str]:
    command = [sys.executable, str(_SCRIPT), str(store), str(jobs), str(lease)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _children(process: int) -> list[int]:
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(each) for each in text.split()]


def _is_gone(process: int) -> bool:
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().split()[2] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_comparison_killed_at_any_moment_goes_on_where_it_was(tmp_path, jobs: int) -> None:
    store = tmp_path / "runs.db"
    process = _start(store, jobs=jobs, lease=1.0)
    assert process.stdout is not None
    while not process.stdout.readline().startswith("5/"):
        assert process.poll() is None
    children = _children(process.pid) if jobs > 1 and sys.platform == "linux" else []
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    for child in children:
        wait_for(lambda child=child: _is_gone(child))
    with RunStore(store) as kept:
        finished = len(kept)
    assert 5 <= finished < _TRIALS
    rest = compare(small_data(), linear_systems(), protocol="splits:6", store=store)
    assert rest.ran == _TRIALS - finished
    untouched = compare(small_data(), linear_systems(), protocol="splits:6")
    for name, own in untouched.results.trial_means.items():
        assert own["ndcg@5"].tolist() == rest.results.trial_means[name]["ndcg@5"].tolist()


def test_two_comparisons_on_one_store_share_the_trials(place) -> None:
    both = [_start(place, jobs=1) for _ in range(2)]
    said = [process.communicate(timeout=240)[0].splitlines()[-1] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum(int(line.removeprefix("ran ")) for line in said) == _TRIALS
    with RunStore(place) as store:
        assert len(store) == _TRIALS


class _Killed(pk.LinearRanker):
    """Kills its process, as the system does when memory runs out."""

    def _fit(self, train, validation, run) -> None:  # noqa: ARG002
        sys.stderr.write("last words")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_is_named_with_the_trial_it_had(tmp_path) -> None:
    systems = linear_systems() | {"deadly": _Killed("listnet", C=1.0)}
    with pytest.raises(
        PlackettError, match=r"ran deadly, holdout ended with code -9; perhaps mem.*last words"
    ):
        compare(small_data(), systems, jobs=2, store=tmp_path / "runs.db")
    with RunStore(tmp_path / "runs.db") as store:
        assert store.held() == {}
    assert not list(tmp_path.glob(".shared-*"))


def test_ctrl_c_ends_the_workers_and_gives_the_trials_back(tmp_path) -> None:
    store = tmp_path / "runs.db"
    process = _start(store, jobs=2)
    assert process.stdout is not None
    while not process.stdout.readline().startswith("5/"):
        assert process.poll() is None
    children = _children(process.pid) if sys.platform == "linux" else []
    process.send_signal(signal.SIGINT)
    process.wait(timeout=60)
    process.stdout.close()
    assert process.returncode != 0
    for child in children:
        wait_for(lambda child=child: _is_gone(child))
    with RunStore(store) as kept:
        assert 5 <= len(kept) < _TRIALS
        assert kept.held() == {}
    assert not list(tmp_path.glob(".shared-*"))


def test_data_left_behind_by_a_killed_process_are_removed(tmp_path) -> None:
    process = _start(tmp_path / "runs.db", jobs=2, lease=1.0)
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.wait()
    process.stdout.close()
    assert len(list(tmp_path.glob(".shared-*"))) == 1
    compare(small_data(), {"x": linear_systems()["C=1"]}, jobs=2)  # elsewhere: left alone
    assert len(list(tmp_path.glob(".shared-*"))) == 1
    again = _start(tmp_path / "runs.db", jobs=2)
    again.communicate(timeout=240)
    assert again.returncode == 0
    assert not list(tmp_path.glob(".shared-*"))
