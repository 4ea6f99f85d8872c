"""States of a fit on their way between workers and the process that keeps the checkpoint.

Workers may be on machines that do not see the checkpoint's folder. Each has a folder of its own;
the first worker sends what it puts there, and workers that replace dead ones begin with what was
sent last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from plackett.distributed.peers import Peers
from plackett.distributed.states import State
from plackett.models.checkpoint import Checkpoint


class MailedCheckpoint(Checkpoint):
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

    def __init__(self, folder: Path, peers: Peers, seconds: float) -> None:
        super().__init__(folder)
        self.seconds = seconds  # type: ignore[misc] # as in the process that keeps the checkpoint
        self._peers = peers
        self._next = 0.0 if math.isfinite(seconds) else math.inf  # the first state at once
        state = peers.latest()
        if state is not None:
            write_files(state, folder / f"step-{state[0]}")

    def due(self) -> bool:
        return self._peers.rank == 0 and super().due()

    @contextmanager
    def saving(self, step: int) -> Iterator[Path]:
        with super().saving(step) as folder:
            yield folder
        self._peers.keep(*read_files(step, self.folder / f"step-{step}"))


def read_files(step: int, folder: Path) -> State:
    """The state that the files of a folder describe."""
    return step, {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def write_files(state: State, folder: Path) -> None:
    """Put the files of a state into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in state[1].items():
        (folder / name).write_bytes(content)


def state_of(checkpoint: Checkpoint | None) -> State | None:
    """What a checkpoint has to go on from."""
    latest = None if checkpoint is None else checkpoint.latest()
    return None if latest is None else read_files(int(latest.name.removeprefix("step-")), latest)


def keeper(checkpoint: Checkpoint | None) -> Callable[[State], None]:
    """A function that puts each state it is given into the checkpoint, if there is one."""

    def keep(state: State) -> None:
        if checkpoint is not None:
            with checkpoint.saving(state[0]) as folder:
                write_files(state, folder)

    return keep
