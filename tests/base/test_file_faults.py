"""A file system that fails at every sync, rename and creation in turn: the old is whole or the new.

The shim counts the calls of the operating system that writers make, lets one of them fail, and
moves on to the next until a run has no failure.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import plackett as pk
from plackett.base import files
from plackett.base.files import atomic_directory, write_json
from plackett.models.checkpoint import Checkpoint

DATA = pk.synthetic("letor", n_lists=8, seed=1)
OTHER = pk.synthetic("letor", n_lists=6, seed=2)


class Shim:
    """Fails at the call with the number ``fail_at``, counted from 0."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.calls, self.fail_at = str(folder), 0, -1
        calls = ((os, "fsync"), (os, "replace"), (os, "rename"), (os, "chmod"), (files, "_exchange"))
        for module, name in calls:
            monkeypatch.setattr(module, name, self._wrap(getattr(module, name)))
        real = io.open

        def opened(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
            if "w" in mode and str(file).startswith(self.folder):
                self._count()
            return real(file, mode, *args, **options)

        monkeypatch.setattr(io, "open", opened)
        monkeypatch.setattr("builtins.open", opened)

    def _wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *args: Any, **options: Any) -> Any:
            if isinstance(path, int) or str(path).startswith(self.folder):
                self._count()
            return function(path, *args, **options)

        return call

    def _count(self) -> None:
        self.calls += 1
        if self.calls - 1 == self.fail_at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def fail_everywhere(shim: Shim, write: Callable[[], Any], check: Callable[[], bool]) -> int:
    """Let each call fail in turn; ``check`` says whether the new is there, or raises."""
    for fail_at in range(1000):
        shim.calls, shim.fail_at = 0, fail_at
        try:
            write()
        except OSError:
            shim.fail_at = -1
            check()
        else:
            shim.fail_at = -1
            assert check()
            return fail_at
    raise AssertionError("the writer never ends")


def _no_leftovers(folder: Path) -> None:
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_saving_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (pk.LinearRanker(C=1.0).fit(data) for data in (DATA, OTHER))
    path = tmp_path / "model.plackett"
    old.save(path)
    expected = [ranker.predict(DATA) for ranker in (old, new)]

    def check() -> bool:
        scores = pk.load(path).predict(DATA)
        is_new = bool(np.array_equal(scores, expected[1]))
        assert is_new or np.array_equal(scores, expected[0])
        _no_leftovers(tmp_path)
        return is_new

    assert fail_everywhere(Shim(tmp_path, monkeypatch), lambda: new.save(path), check) >= 5


@pytest.mark.parametrize("suffix", [".pkdata", ".txt", ".parquet"])
def test_converting_data(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, path = tmp_path / "source.txt", tmp_path / f"data{suffix}"
    pk.write(DATA, path)
    pk.write(OTHER, source)

    def check() -> bool:
        n_lists = pk.read(path).n_lists
        assert n_lists in (8, 6)
        _no_leftovers(tmp_path)
        return n_lists == 6

    assert fail_everywhere(Shim(tmp_path, monkeypatch), lambda: pk.convert(source, path), check) > 1


def test_saving_a_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = Checkpoint(tmp_path)
    with checkpoint.saving(1) as folder:
        write_json(folder / "state.json", 1)

    def write() -> None:
        with checkpoint.saving(2) as folder:
            write_json(folder / "state.json", 2)

    def check() -> bool:
        latest = checkpoint.latest()
        assert latest is not None
        number = int((latest / "state.json").read_text())
        assert latest.name == f"step-{number}"
        _no_leftovers(tmp_path)
        return number == 2

    assert fail_everywhere(Shim(tmp_path, monkeypatch), write, check) >= 4


def test_a_folder_whose_successor_cannot_take_its_name_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "model"
    with atomic_directory(target) as folder:
        (folder / "a").write_text("old")
    real = os.rename

    def rename(source: Any, to: Any, **options: Any) -> None:
        if str(source).endswith(".tmp"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(source, to, **options)

    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(files, "_exchange", lambda *_: False)  # as where the system cannot swap names
    with pytest.raises(OSError, match="Input/output"), atomic_directory(target) as folder:
        (folder / "a").write_text("new")
    assert (target / "a").read_text() == "old"
