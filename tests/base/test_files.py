from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from plackett.base.files import atomic_directory, atomic_file, write_json

_KILLED_WHILE_WRITING = """
import os, signal, sys
from plackett.base.files import atomic_file
with atomic_file(sys.argv[1]) as temporary:
    temporary.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_file_appears_only_when_it_is_whole(tmp_path) -> None:
    target = tmp_path / "a.txt"
    with atomic_file(target) as temporary:
        temporary.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_file(target) as temporary:
        temporary.write_text(f"{1 / 0}")
    assert target.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_killed_process_leaves_the_old_file(tmp_path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    run = subprocess.run([sys.executable, "-c", _KILLED_WHILE_WRITING, str(target)], check=False)
    assert run.returncode == -signal.SIGKILL
    assert target.read_text() == "old"


def test_a_directory_replaces_the_old_one_whole(tmp_path) -> None:
    target = tmp_path / "model"
    for content in ("first", "second"):
        with atomic_directory(target) as temporary:
            (temporary / "part").write_text(content)
        assert (target / "part").read_text() == content
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_a_failed_directory_leaves_the_old_one(tmp_path) -> None:
    target = tmp_path / "model"
    with atomic_directory(target) as temporary:
        (temporary / "part").write_text("old")
    with pytest.raises(OSError, match="full"), atomic_directory(target) as temporary:
        raise OSError("full")
    assert (target / "part").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_files_have_the_usual_permissions(tmp_path) -> None:
    mask = os.umask(0)
    os.umask(mask)
    with atomic_file(tmp_path / "a") as temporary:
        temporary.write_text("x")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o666 & ~mask


def test_errors_name_the_target_and_the_reason(tmp_path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for manager, target, message in (
        (atomic_file, tmp_path / "folder", "a folder is there"),
        (atomic_directory, tmp_path / "file", "a file is there"),
        (atomic_file, tmp_path / "file" / "x.txt", "a file stands where a folder must be"),
        (atomic_directory, tmp_path / "file" / "x", "a file stands where a folder must be"),
    ):
        with pytest.raises(OSError, match=message) as caught, manager(target):
            pass
        assert caught.value.filename == str(target)


def test_json_has_null_for_numbers_that_it_lacks(tmp_path) -> None:
    write_json(tmp_path / "a.json", {"é": [1.5, float("nan"), float("inf")], 2: ("x",)})
    assert json.loads((tmp_path / "a.json").read_text()) == {"é": [1.5, None, None], "2": ["x"]}


def test_a_full_disk_is_named_with_the_target_and_the_space(tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").write_text("whole")

    def fill(error: Exception) -> None:
        with atomic_directory(target) as folder:
            (folder / "part").write_bytes(bytes(2048))
            raise error

    for error in (
        OSError(errno.ENOSPC, "No space left on device"),
        OSError("100 requested and 50 written"),
        RuntimeError("I/O error: No space left on device (os error 28)"),
    ):
        with pytest.raises(OSError, match=r"the disk is full: more than 2.0 KiB is needed") as seen:
            fill(error)
        assert seen.value.filename == str(target)
        assert (target / "old").read_text() == "whole"
        assert list(tmp_path.iterdir()) == [target]
    with pytest.raises(OSError, match=r"the disk is full: [\d.]+ \w+ is free"), atomic_directory(target):
        raise OSError(errno.ENOSPC, "No space left on device")  # at the first byte
    with pytest.raises(OSError, match="no such thing"):
        fill(OSError(errno.EIO, "no such thing"))


_LIMITED = """
import resource, sys
import plackett as pk
data = pk.synthetic("letor", n_lists=40, seed=1)
ranker = pk.TreeRanker(trees=20, min_documents=2).fit(data)
pk.write(data, sys.argv[1] + "/data.txt")
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
targets = {
    "model": lambda path: ranker.save(path),
    "checkpoint": lambda path: pk.CrossFit(pk.LinearRanker(C=1.0), folds=2).fit(
        data, checkpoint=path
    ),
    "new.pkdata": lambda path: pk.convert(sys.argv[1] + "/data.txt", path),
    "new.parquet": lambda path: pk.convert(sys.argv[1] + "/data.txt", path),
}
for name, write in targets.items():
    try:
        write(sys.argv[1] + "/" + name)
        print(name, "written")
    except OSError as error:
        print(name, error.filename.startswith(sys.argv[1] + "/" + name), error.strerror)
    except pk.PlackettError as error:
        print(name, str(error).startswith(sys.argv[1] + ": "), error)
"""


def test_writers_name_what_they_could_not_write(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _LIMITED, str(tmp_path)], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert len(lines) == 4, done.stderr
    for line in lines[:2]:
        assert "True cannot be written, the file may not grow: " in line
    for line in lines[2:]:  # text is converted through a scratch file beside the target
        assert re.search(
            r"True .*: a scratch file of more than [\d.]+ \w+ cannot be written: File too large; .* is free. Free", line
        )
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith((".", "new"))] == []
