"""What happens to a run store when processes die, disks fill up and folders cannot be written."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import store_worker
from plackett.base.errors import StoreError
from plackett.experiments.store import RunStore
from store_worker import identity, outcome, wait_for

_WORKER = Path(store_worker.__file__)


def _start(place: str, count: int, *, pause: float, lease: float = 60.0) -> subprocess.Popen[str]:
    command = [sys.executable, str(_WORKER), place, str(count), str(pause), str(lease)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _check_whole(place: str, count: int) -> None:
    with RunStore(place) as store:
        assert len(store) == count
        for seed in range(count):
            result = store.get(identity(seed))
            assert result is not None
            expected = outcome(seed)
            assert np.array_equal(result.scores, expected.scores)
            assert {m: v.tolist() for m, v in result.values.items()} == {
                m: v.tolist() for m, v in expected.values.items()
            }


def test_a_process_killed_at_any_moment_loses_nothing_that_was_finished(place, capsys) -> None:
    count = 40
    worker = _start(place, count, pause=0.0, lease=0.5)
    assert worker.stdout is not None
    reported = [int(worker.stdout.readline()) for _ in range(4)]
    worker.send_signal(signal.SIGKILL)
    reported += [int(line) for line in worker.stdout.read().split("\n") if line]
    worker.wait()
    worker.stdout.close()
    with RunStore(place) as store:
        assert len(store.finished(map(identity, reported))) == len(set(reported))
    store_worker.main(place, count, pause=0.0, lease=0.5)
    assert not set(reported) & {int(line) for line in capsys.readouterr().out.split()}
    _check_whole(place, count)


def test_two_processes_share_the_work_and_do_nothing_twice(place, capsys) -> None:
    count = 30
    other = _start(place, count, pause=0.05)
    assert other.stdout is not None
    first = int(other.stdout.readline())  # it has begun
    store_worker.main(place, count, pause=0.05, lease=60.0)
    theirs = [first, *map(int, other.communicate(timeout=120)[0].split())]
    ours = [int(line) for line in capsys.readouterr().out.split()]
    assert sorted(theirs + ours) == list(range(count))
    assert ours
    _check_whole(place, count)


def test_the_trial_of_a_killed_process_is_taken_over(place) -> None:
    worker = _start(place, 1, pause=600.0, lease=1.0)
    with RunStore(place) as store:
        wait_for(lambda: store.held() != {})
        assert not store.claim(identity(0))
        worker.kill()
        worker.wait()
        assert worker.stdout is not None
        worker.stdout.close()
        wait_for(lambda: store.claim(identity(0)))


_FILL = """
import sys
sys.path.insert(0, sys.argv[1])
from store_worker import RunStore, identity, outcome
with RunStore(sys.argv[2] + "/runs.db") as store:
    for seed in range(1000):
        store.finish(identity(seed), outcome(seed))
        print(seed, flush=True)
"""


def _fill(disk: Path, kept: Path) -> subprocess.CompletedProcess[str]:
    """Finish trials in a file system of 512 kB until it is full, and copy what it then holds."""
    # The small file system is seen by this process alone and goes away with it.
    shell = f'mount -t tmpfs -o size=512k none {disk}; "$0" "$@"; cp {disk}/runs.db* {kept}'
    python = [sys.executable, "-c", _FILL, str(_WORKER.parent), str(disk)]
    command = ["unshare", "--mount", "sh", "-c", shell, *python]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_full_disk_keeps_what_was_finished_and_says_so(tmp_path) -> None:
    probe = ["unshare", "--mount", "sh", "-c", f"mount -t tmpfs none {tmp_path}"]
    try:
        allowed = subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    if not allowed:
        pytest.skip("mounting a small file system is not allowed here")
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    kept.mkdir()
    run = _fill(disk, kept)
    assert "runs.db: the disk is full. Finished trials are kept" in run.stderr
    finished = [int(line) for line in run.stdout.split()]
    assert finished
    _check_whole(str(kept / "runs.db"), len(finished))


def _finish(store: RunStore, seeds: range) -> None:
    for seed in seeds:
        store.finish(identity(seed), outcome(seed))


def test_a_full_database_keeps_what_was_finished_and_goes_on_when_there_is_room(tmp_path) -> None:
    with RunStore(tmp_path / "runs.db") as store:
        store.finish(identity(0), outcome(0))
        ((pages,),) = store._database.execute("PRAGMA page_count")
        store._database.execute(f"PRAGMA max_page_count={pages}")
        with pytest.raises(StoreError, match="the disk is full"):
            _finish(store, range(1, 50))
        kept = len(store)
        store._database.execute("PRAGMA max_page_count=1000000")
        _finish(store, range(50))
    assert 1 <= kept < 50
    _check_whole(str(tmp_path / "runs.db"), 50)


def _as_nobody(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python where root's rights do not help; imports come first, they may need them."""
    drop = "import os, sys\nif os.geteuid() == 0: os.setegid(65534); os.seteuid(65534)\n"
    imports = "from plackett.experiments.store import RunStore\nimport plackett.cli\n"
    return subprocess.run(
        [sys.executable, "-c", imports + drop + code, *arguments], capture_output=True, text=True, check=False
    )


_OPEN_ALL = """
from plackett.base.errors import StoreError
for place in sys.argv[1:]:
    try:
        RunStore(place)
    except StoreError as error:
        print(str(error).replace("\\n", " "))
"""


def test_a_folder_that_cannot_be_written_gives_a_clear_message(tmp_path) -> None:
    with RunStore(tmp_path / "runs.db") as store:
        store.finish(identity(0), outcome(0))
    tmp_path.chmod(0o555)
    (tmp_path / "runs.db").chmod(0o444)
    names = ("runs.db", "new.db", "folder/new.db")
    run = _as_nobody(_OPEN_ALL, *(str(tmp_path / name) for name in names))
    errors = run.stdout.splitlines()
    assert len(errors) == len(names)
    for last in errors:
        assert "cannot be" in last
        assert "may write" in last or "Permission denied" in last
    tmp_path.chmod(0o755)
    _check_whole(str(tmp_path / "runs.db"), 1)


def test_a_file_that_is_no_store_is_left_alone(tmp_path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("these are my notes, which nobody may overwrite. " * 100)
    before = file.read_bytes()
    with pytest.raises(StoreError, match=r"notes.txt: is not a run store"):
        RunStore(file)
    assert file.read_bytes() == before
