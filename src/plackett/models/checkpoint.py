"""Checkpoints: the state of a long fit on disk, so that a killed process loses only its last steps.

A checkpoint is a folder. ``fit.json`` describes the fit it belongs to. Each state is a folder ``step-N``, written
completely or not at all; older states are then removed. A lock keeps two processes from working on the same fit.
"""

import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from plackett.base.errors import DataError, UsageError
from plackett.base.files import atomic_directory, sync, write_json

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


def read_state(checkpoint: Checkpoint | None, file: str) -> Any:
    """The content of a JSON file in the latest state; None if there is no state."""
    folder = None if checkpoint is None else checkpoint.latest()
    return None if folder is None else json.loads((folder / file).read_text(encoding="utf-8"))


def save_state(checkpoint: Checkpoint | None, step: int, file: str, content: Any) -> None:
    """Save a state that is one JSON file, if it is time to save."""
    if checkpoint is not None and checkpoint.due():
        with checkpoint.saving(step) as folder:
            (folder / file).write_text(json.dumps(content), encoding="utf-8")


@contextmanager
def open_checkpoint(folder: str | os.PathLike[str], identity: dict[str, Any]) -> Iterator[Checkpoint]:
    """Open the checkpoint of the fit that ``identity`` describes and lock it; raise UsageError for another fit's."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    with _lock(path):
        for left_over in path.iterdir():
            if _TEMPORARY.fullmatch(left_over.name):
                shutil.rmtree(left_over) if left_over.is_dir() else left_over.unlink()
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
            "that fit to resume it; for this one give another folder, or delete this one."
        )


def _find_differences(saved: Any, current: Any) -> list[str]:
    """Describe the differences between two descriptions of a fit."""
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
    """A setting as users write it, without the marks that distinguish types."""
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
