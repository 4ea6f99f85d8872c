"""The state of a long fit on disk: a process killed at any moment loses only its last steps.

A checkpoint is a folder. ``fit.json`` says which fit it belongs to; each state is a folder of its
own, ``step-N``, that appears whole or not at all, and the older ones are removed after it. A lock
keeps two processes from working on one fit; the system frees it when its holder dies.

States of a fit on their way between workers and the process that keeps the checkpoint.

Workers may be on machines that do not see the checkpoint's folder. Each has a folder of its own;
the first worker sends what it puts there, and workers that replace dead ones begin with what was
sent last.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from plackett.base.errors import DataError, UsageError
from plackett.base.files import atomic_directory, write_json
from plackett.distributed import TrainingState, WorkerGroup

_STATE = re.compile(r"step-(\d+)")
_HALF = re.compile(r"\.(fit\.json|step-\d+|member-\d+)\..*\.(tmp|old)")
"""What a killed process may leave: files and folders on their way to their names."""


class Checkpoint:
    """Where one fit keeps its latest state; open it with :func:`checkpoint_in`."""

    seconds: ClassVar[float] = 10.0
    """Between two states at least; a killed process loses about as much work."""
    share: ClassVar[float] = 0.05
    """Of the time at most is spent on saving."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._next = time.monotonic() + self.seconds

    def due(self) -> bool:
        """Whether it is time to save again."""
        return time.monotonic() >= self._next

    def latest(self) -> Path | None:
        """The folder of the latest state; None before the first."""
        found = [
            (int(match.group(1)), path)
            for path in self.folder.iterdir()
            if (match := _STATE.fullmatch(path.name)) and path.is_dir()
        ]
        return max(found)[1] if found else None

    @contextmanager
    def saving(self, step: int) -> Iterator[Path]:
        """Yield a folder to write the state after ``step`` steps into."""
        begin = time.monotonic()
        with atomic_directory(self.folder / f"step-{step}") as temporary:
            yield temporary
        _sync_folder(self.folder)
        for path in self.folder.iterdir():
            match = _STATE.fullmatch(path.name)
            if match and int(match.group(1)) < step:
                shutil.rmtree(path)
        now = time.monotonic()
        self._next = now + max(self.seconds, (now - begin) / self.share)


@contextmanager
def checkpoint_in(
    folder: str | os.PathLike[str] | None, identity: dict[str, Any]
) -> Iterator[Checkpoint | None]:
    """Open the checkpoint of the fit that ``identity`` describes, for this process alone.

    Parameters
    ----------
    folder
        Made if it does not exist; None: no checkpoint.
    identity
        All that determines the fit, as plain data. A folder with the state of another fit is
        refused, and the error says what differs.
    """
    if folder is None:
        yield None
        return
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        _sweep(path)
        _check_identity(path, json.loads(json.dumps(identity)))
        yield Checkpoint(path)


def _check_identity(folder: Path, identity: dict[str, Any]) -> None:
    file = folder / "fit.json"
    if not file.exists():
        strange = [path.name for path in folder.iterdir() if path.name != "lock"]
        if strange:
            raise UsageError(
                f"{folder} is no checkpoint: it holds {strange[0]!r}. Give an empty or new folder."
            )
        write_json(file, identity)
        return
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError("is damaged; delete the checkpoint's folder", path=str(file)) from error
    found = _difference(kept, identity)
    if found is not None:
        name, theirs, ours = found
        raise UsageError(
            f"the checkpoint in {folder} belongs to another fit: its {name} is {theirs!r}, here it "
            f"is {ours!r}. Give another folder, or delete this one."
        )


def _difference(kept: Any, given: Any, name: str = "description") -> tuple[str, Any, Any] | None:
    """The first place where two descriptions differ, and what stands there."""
    if kept == given:
        return None
    if isinstance(kept, dict) and isinstance(given, dict):
        for key in [*given, *kept]:
            found = _difference(kept.get(key), given.get(key), key)
            if found is not None:
                return found
    return name, kept, given


def _sweep(folder: Path) -> None:
    """Remove what a killed process left half written."""
    for path in folder.iterdir():
        if _HALF.fullmatch(path.name):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(
                f"another process is working on the checkpoint in {folder}; wait for it, or give "
                "another folder."
            ) from error
        yield


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class RemoteCheckpoint(Checkpoint):
    """A worker's checkpoint: the first worker's states are sent, the others save nothing.

    Parameters
    ----------
    folder
        An empty folder of this worker's own.
    peers
        Through whom states are sent.
    seconds
        Between two states at least; infinite: nothing is saved.
    """

    def __init__(self, folder: Path, worker_group: WorkerGroup, seconds: float) -> None:
        super().__init__(folder)
        self.seconds = seconds  # type: ignore[misc] # as in the process that keeps the checkpoint
        self._peers = worker_group
        self._next = 0.0 if math.isfinite(seconds) else math.inf  # the first state at once
        state = worker_group.latest_state()
        if state is not None:
            write_files(state, folder / f"step-{state[0]}")

    def due(self) -> bool:
        return self._peers.rank == 0 and super().due()

    @contextmanager
    def saving(self, step: int) -> Iterator[Path]:
        with super().saving(step) as folder:
            yield folder
        self._peers.save_state(*read_files(step, self.folder / f"step-{step}"))


def read_files(step: int, folder: Path) -> TrainingState:
    """The state that the files of a folder describe."""
    return step, {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def write_files(state: TrainingState, folder: Path) -> None:
    """Put the files of a state into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in state[1].items():
        (folder / name).write_bytes(content)


def latest_state(checkpoint: Checkpoint | None) -> TrainingState | None:
    """What a checkpoint has to go on from."""
    latest = None if checkpoint is None else checkpoint.latest()
    return None if latest is None else read_files(int(latest.name.removeprefix("step-")), latest)


def checkpoint_saver(checkpoint: Checkpoint | None) -> Callable[[TrainingState], None]:
    """A function that puts each state it is given into the checkpoint, if there is one."""

    def keep(state: TrainingState) -> None:
        if checkpoint is not None:
            with checkpoint.saving(state[0]) as folder:
                write_files(state, folder)

    return keep
