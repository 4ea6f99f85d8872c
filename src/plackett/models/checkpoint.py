"""Checkpoints: the state of a long fit on disk, so that a killed process loses only its last steps.

A checkpoint is a folder. ``fit.json`` describes the fit it belongs to. Each state is a folder
``step-N`` that appears whole or not at all; older ones are then removed. A lock keeps two processes
from working on one fit; the system releases it when its holder dies.

Workers of a distributed fit may not see that folder. Each has a folder of its own; the first worker
sends its states to the process that keeps the checkpoint, and workers that replace dead ones start
from the last state that was sent (:class:`RemoteCheckpoint`).
"""

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
from plackett.base.files import atomic_directory, sync, write_json
from plackett.distributed import TrainingState, WorkerGroup

_STATE = re.compile(r"step-(\d+)")
_TEMPORARY = re.compile(r"\.(fit\.json|step-\d+|member-\d+)\..*\.(tmp|old)")
"""Files and folders that a killed process may leave half written."""


class Checkpoint:
    """Where one fit keeps its latest state; open it with :func:`open_checkpoint`."""

    seconds: ClassVar[float] = 10.0
    """Minimum time between two states; a killed process loses about this much work."""
    share: ClassVar[float] = 0.05
    """Maximum share of the time that is spent on saving."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._next = time.monotonic() + self.seconds

    def due(self) -> bool:
        """Whether it is time to save again."""
        return time.monotonic() >= self._next

    def latest(self) -> Path | None:
        """The folder of the latest state; None before the first."""
        return max(self._states(), default=(0, None))[1]

    def _states(self) -> list[tuple[int, Path]]:
        return [
            (int(match.group(1)), path)
            for path in self.folder.iterdir()
            if (match := _STATE.fullmatch(path.name)) and path.is_dir()
        ]

    @contextmanager
    def saving(self, step: int) -> Iterator[Path]:
        """Yield a folder to write the state after ``step`` steps into."""
        begin = time.monotonic()
        with atomic_directory(self.folder / f"step-{step}") as temporary:
            yield temporary
        sync(self.folder)
        for number, path in self._states():
            if number < step:
                shutil.rmtree(path)
        now = time.monotonic()
        self._next = now + max(self.seconds, (now - begin) / self.share)


@contextmanager
def open_checkpoint(folder: str | os.PathLike[str], identity: dict[str, Any]) -> Iterator[Checkpoint]:
    """Open the checkpoint of the fit that ``identity`` describes, for this process alone.

    ``identity`` is everything that determines the fit, as plain data. If the folder belongs to another fit, a
    UsageError says what differs.
    """
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    with _lock(path):
        _remove_temporary(path)
        _check_identity(path, json.loads(json.dumps(identity)))
        yield Checkpoint(path)


def _check_identity(folder: Path, identity: dict[str, Any]) -> None:
    file = folder / "fit.json"
    if not file.exists():
        others = [path.name for path in folder.iterdir() if path.name != "lock"]
        if others:
            raise UsageError(f"{folder} is not a checkpoint: it holds {others[0]!r}. Give a new folder.")
        write_json(file, identity)
        return
    try:
        saved = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError("is damaged; delete the checkpoint's folder", path=str(file)) from error
    differences = _find_differences(saved, identity)
    if differences:
        raise UsageError(
            f"the checkpoint in {folder} belongs to another fit: {'; '.join(differences)}. Repeat "
            "that fit to go on with it; for this one give another folder, or delete this one."
        )


def _find_differences(saved: Any, current: Any) -> list[str]:
    """Say in words in what two descriptions of a fit differ."""
    if saved == current:
        return []
    if not isinstance(saved, dict):
        return ["it cannot be read"]
    texts = []
    if saved.get("kind") != current.get("kind"):
        texts.append(f"it is of a {saved.get('kind')}, this is a {current.get('kind')}")
    else:
        texts += _compare("", saved.get("settings", {}), current.get("settings", {}))
    there, here = saved.get("training") or {}, current.get("training") or {}
    for part, words in (("train", "training"), ("validation", "validation")):
        if there.get(part) != here.get(part):
            texts.append(
                f"its {words} data are {_describe_data(there.get(part))}, these are "
                f"{_describe_data(here.get(part), other=there.get(part))}"
            )
    if there.get("metric") != here.get("metric"):
        metrics = [", ".join(identity.get("metric") or ()) for identity in (there, here)]
        texts.append(f"it selects by {metrics[0]}, this fit by {metrics[1]}")
    texts += _compare("version of ", saved.get("libraries", {}), current.get("libraries", {}))
    if not texts:
        texts.append("it was made by another version of plackett, or starts from another model")
    return texts


def _compare(prefix: str, saved: Any, current: Any) -> list[str]:
    if not isinstance(saved, dict):
        return ["its settings cannot be read"]
    texts = []
    for name in dict.fromkeys([*current, *saved]):
        there, here = saved.get(name), current.get(name)
        if there == here:
            continue
        inner = [value.get("settings") if isinstance(value, dict) else None for value in (there, here)]
        if all(isinstance(settings, dict) for settings in inner):  # the ranker of a cross-fit
            texts += _compare(prefix, *inner)
        else:
            texts.append(f"its {prefix}{name} is {_plain(there)}, here it is {_plain(here)}")
    return texts


def _plain(value: Any) -> str:
    """A setting as users write it, without the marks of its types."""
    if isinstance(value, dict):
        for mark in ("$objective", "$tuple", "$ranker", "$module"):
            if set(value) == {mark}:
                return _plain(value[mark])
        if isinstance(value.get("name"), str):
            rest = ", ".join(f"{k}={_plain(v)}" for k, v in value.items() if k != "name")
            return f"{value['name']}({rest})"
    return ", ".join(map(_plain, value)) if isinstance(value, list) else repr(value)


def _describe_data(part: Any, other: Any = None) -> str:
    if not isinstance(part, dict):
        return "none"
    counts = f"{part.get('lists', 0):,} lists with {part.get('documents', 0):,} documents"
    if isinstance(other, dict) and all(part.get(k) == other.get(k) for k in ("lists", "documents")):
        return f"{counts} with other contents"
    return counts


def _remove_temporary(folder: Path) -> None:
    """Remove what a killed process left half written."""
    for path in folder.iterdir():
        if _TEMPORARY.fullmatch(path.name):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(
                f"another process is working on the checkpoint in {folder}; wait for it, or give another folder."
            ) from error
        yield


class RemoteCheckpoint(Checkpoint):
    """A worker's checkpoint: the first worker sends its states, the others save nothing.

    ``folder`` is empty and used by this worker only. States are ``seconds`` apart; infinite: nothing is saved.
    """

    def __init__(self, folder: Path, worker_group: WorkerGroup, seconds: float) -> None:
        super().__init__(folder)
        self.seconds = seconds  # type: ignore[misc] # differs per fit
        self._worker_group = worker_group
        self._next = 0.0 if math.isfinite(seconds) else math.inf  # the first state at once
        state = worker_group.latest_state()
        if state is not None:
            write_files(state, folder / f"step-{state[0]}")

    def due(self) -> bool:
        return self._worker_group.rank == 0 and super().due()

    @contextmanager
    def saving(self, step: int) -> Iterator[Path]:
        with super().saving(step) as folder:
            yield folder
        self._worker_group.save_state(*read_files(step, self.folder / f"step-{step}"))


def read_files(step: int, folder: Path) -> TrainingState:
    """The contents of the files of a folder."""
    return step, {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def write_files(state: TrainingState, folder: Path) -> None:
    """Write the files of a state to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in state[1].items():
        (folder / name).write_bytes(content)


def latest_state(checkpoint: Checkpoint | None) -> TrainingState | None:
    """The state to resume from; None if there is none."""
    latest = None if checkpoint is None else checkpoint.latest()
    return None if latest is None else read_files(int(latest.name.removeprefix("step-")), latest)


def checkpoint_saver(checkpoint: Checkpoint | None) -> Callable[[TrainingState], None]:
    """A function that saves states that workers send to the checkpoint, if there is one."""

    def save(state: TrainingState) -> None:
        if checkpoint is not None:
            with checkpoint.saving(state[0]) as folder:
                write_files(state, folder)

    return save
