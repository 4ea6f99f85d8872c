"""One fit on several workers: what they receive, what they report to, and the states that they send.

Workers may be unable to see the folder of the checkpoint. The first worker sends its states to the process that owns
the folder, and workers that replace dead ones start from the last state that was sent.
"""

import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plackett.data import Dataset
from plackett.distributed import TrainingJob, TrainingState, WorkerGroup
from plackett.metrics import Metric
from plackett.models.checkpoint import Checkpoint
from plackett.models.fit_context import FitContext, no_watch
from plackett.models.ranker import Ranker


@dataclass(frozen=True)
class WorkerSpec:
    """What every worker receives."""

    ranker: Any
    metrics: tuple[Metric, ...]
    save_seconds: float
    """Minimum time between two states; infinite if a fit cannot resume from a state."""
    is_watched: bool
    threads: int
    content: Any
    """Additional data that one kind of ranker needs."""

    @contextmanager
    def context(self, worker_group: WorkerGroup) -> Iterator[FitContext]:
        """The context of the fit in one of the workers."""
        with tempfile.TemporaryDirectory() as folder:
            yield FitContext(
                self.metrics,
                RemoteCheckpoint(Path(folder), worker_group, self.save_seconds),
                worker_group.report_progress,
                worker_group.report_metric if self.is_watched else no_watch,
                worker_group=worker_group,
            )


def run_on_workers(
    function: Callable[..., Any],
    backend: str,
    ranker: Ranker,
    parts: dict[str, Dataset],
    context: FitContext,
    content: Any,
    *,
    can_resume: bool = True,
) -> Any:
    """Call a function with a :class:`WorkerSpec` in every worker of the cluster; return the first one's result."""
    cluster, checkpoint = context.cluster, context.checkpoint
    assert cluster is not None
    copy = ranker.clone()
    copy.n_features_, copy.feature_names_ = ranker.n_features_, ranker.feature_names_
    copy.categories_ = ranker.categories_
    is_watched = context.watch is not no_watch
    seconds = Checkpoint.seconds if can_resume else math.inf
    spec = WorkerSpec(copy, context.metrics, seconds, is_watched, cluster.threads, content)
    latest = None if checkpoint is None else checkpoint.latest()
    state = None if latest is None else _read_files(int(latest.name.removeprefix("step-")), latest)

    def save(state: TrainingState) -> None:
        if checkpoint is not None:
            with checkpoint.saving(state[0]) as folder:
                _write_files(state, folder)

    job = TrainingJob(function, spec, parts, cluster, backend, state)  # type: ignore[arg-type]
    return job.run(save_state=save, progress=context.progress, watch=context.watch if is_watched else None)


class RemoteCheckpoint(Checkpoint):
    """A worker's checkpoint in a folder of its own: the first worker sends its states, the others save nothing."""

    def __init__(self, folder: Path, worker_group: WorkerGroup, seconds: float) -> None:
        super().__init__(folder)
        self.seconds = seconds  # type: ignore[misc] # differs per fit
        self._worker_group = worker_group
        self._next = 0.0 if math.isfinite(seconds) else math.inf  # the first state at once
        state = worker_group.latest_state()
        if state is not None:
            _write_files(state, folder / f"step-{state[0]}")

    def due(self) -> bool:
        return self._worker_group.rank == 0 and super().due()

    @contextmanager
    def saving(self, step: int) -> Iterator[Path]:
        with super().saving(step) as folder:
            yield folder
        self._worker_group.save_state(*_read_files(step, self.folder / f"step-{step}"))


def _read_files(step: int, folder: Path) -> TrainingState:
    return step, {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def _write_files(state: TrainingState, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in state[1].items():
        (folder / name).write_bytes(content)
