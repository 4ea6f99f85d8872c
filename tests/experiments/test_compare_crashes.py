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
from small_systems import PROTOCOL as _PROTOCOL, linear_systems, small_data
from store_worker import wait_for

_SCRIPT = Path(small_systems.__file__)
_TRIALS = 12


def _start(store: Path | str, *, jobs: int, lease: float = 60.0) -> subprocess.Popen[str]:
    command = [sys.executable, str(_SCRIPT), str(store), str(jobs), str(lease)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _children(process: int) -> list[int]:
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(item) for item in text.split()]


def _is_gone(process: int) -> bool:
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().split()[2] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


def test_a_comparison_killed_at_any_moment_goes_on_where_it_was(tmp_path, capsys) -> None:
    store = tmp_path / "runs.db"
    process = _start(store, jobs=2, lease=1.0)
    assert process.stdout is not None
    while not process.stdout.readline().startswith("3/"):
        assert process.poll() is None
    children = _children(process.pid) if sys.platform == "linux" else []
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    for child in children:
        wait_for(lambda child=child: _is_gone(child))
    with RunStore(store) as kept:
        finished = len(kept)
    assert 3 <= finished < _TRIALS
    assert len(list(tmp_path.glob(".shared-*"))) == 1  # data that it left behind
    untouched = compare(small_data(), linear_systems(), protocol=_PROTOCOL, jobs=2)
    assert len(list(tmp_path.glob(".shared-*"))) == 1  # not removed by a comparison in another folder
    small_systems.main(str(store), jobs=2, lease=60.0)
    assert capsys.readouterr().out.endswith(f"ran {_TRIALS - finished}\n")
    assert not list(tmp_path.glob(".shared-*"))
    rest = compare(small_data(), linear_systems(), protocol=_PROTOCOL, store=store)
    assert rest.ran == 0
    for name, means in untouched.results.trial_means.items():
        assert means["ndcg@5"].tolist() == rest.results.trial_means[name]["ndcg@5"].tolist()


def test_two_comparisons_on_one_store_share_the_trials(place) -> None:
    other = _start(place, jobs=1)
    assert other.stdout is not None
    other.stdout.readline()  # it has begun
    ours = compare(small_data(), linear_systems(), protocol=_PROTOCOL, store=place)
    last = other.communicate(timeout=240)[0].splitlines()[-1]
    assert other.returncode == 0
    assert int(last.removeprefix("ran ")) + ours.ran == _TRIALS
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
    with pytest.raises(PlackettError, match=r"ran deadly, holdout ended with code -9; perhaps mem.*last words"):
        compare(small_data(), systems, jobs=2, store=tmp_path / "runs.db")
    with RunStore(tmp_path / "runs.db") as store:
        assert store.held() == {}
    assert not list(tmp_path.glob(".shared-*"))


def test_ctrl_c_ends_the_workers_and_gives_the_trials_back(tmp_path) -> None:
    store = tmp_path / "runs.db"
    process = _start(store, jobs=2)
    assert process.stdout is not None
    while not process.stdout.readline().startswith("3/"):
        assert process.poll() is None
    children = _children(process.pid) if sys.platform == "linux" else []
    process.send_signal(signal.SIGINT)
    process.wait(timeout=60)
    process.stdout.close()
    assert process.returncode != 0
    for child in children:
        wait_for(lambda child=child: _is_gone(child))
    with RunStore(store) as kept:
        assert 3 <= len(kept) < _TRIALS
        assert kept.held() == {}
    assert not list(tmp_path.glob(".shared-*"))
