"""Runners: where trials are run.

A runner takes trials and returns futures of their outcomes. There are three: in this process, in
several processes of this machine, and as tasks on a Ray cluster.
"""

from __future__ import annotations

import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from plackett.base.errors import ClusterError, ConvergenceWarning, message_of
from plackett.data.dataset import Dataset
from plackett.data.folds import Fold
from plackett.distributed import Cluster, TaskContext, TaskEvent, TaskPool
from plackett.distributed.local_pool import LocalPool, open_shared, write_shared
from plackett.experiments.plan import Trial
from plackett.experiments.protocols import DataSource, Protocol, Split, SplitData
from plackett.experiments.store import Outcome
from plackett.metrics import FunctionMetric, per_list
from plackett.models.fit_context import Progress, no_progress
from plackett.models.ranker import Ranker

if TYPE_CHECKING:
    from typing_extensions import Self


BY_PENALTY = " by penalty"
"""What the parts of curves are called that have a value for each penalty of a linear model."""


@dataclass(frozen=True)
class TrialSettings:
    """What all trials of a comparison share, besides the data."""

    protocol: Protocol
    metrics: tuple[str, ...]
    select: str
    """The metric by which models are selected on the validation lists."""
    threads: int | None
    """Threads of each trial; None: one for each core."""
    functions: tuple[FunctionMetric, ...] = ()
    """Metrics that Python functions compute; unpickling them makes their names known."""

    def run(self, ranker: Ranker, data: SplitData, *, progress: Progress = no_progress) -> Outcome:
        """Fit an unfitted ranker on the training lists and evaluate it on the test lists."""
        start = time.perf_counter()
        ranker.fit(data.train, data.validation, self.select, progress=progress)
        seconds = time.perf_counter() - start
        scores = ranker.predict(data.test)
        values = per_list(scores, data.test, self.metrics)
        importance = ranker.importance_shares()
        return Outcome(values, scores, seconds, _learning_curves(ranker), importance)


def _learning_curves(ranker: Ranker) -> dict[str, dict[str, list[float]]]:
    """Metrics after each training step, or for each penalty; empty for models without either."""
    suffix = "" if ranker.curves_by_step else BY_PENALTY
    return {
        part + suffix: {name: [float(mean) for mean in means] for name, means in by_name.items()}
        for part, by_name in vars(ranker).get("curves_", {}).items()
    }


class Runner(ABC):
    """Runs trials; used in a ``with`` block."""

    slots: int
    """Number of trials that run at the same time."""

    def __init__(self, settings: TrialSettings) -> None:
        self._settings = settings

    @abstractmethod
    def submit(self, trial: Trial) -> Future[Outcome]:
        """Start a trial."""

    def _build(self, trial: Trial) -> Ranker:
        return trial.system.build(seed=trial.split.seed, threads=self._settings.threads)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Stop what is still running."""


class InProcessRunner(Runner):
    """Runs one trial after the other in this process.

    The trials of one split come one after the other, so ``load`` should remember the data it made last.
    """

    slots = 1

    def __init__(self, load: Callable[[Split], SplitData], settings: TrialSettings) -> None:
        super().__init__(settings)
        self._load = load

    def submit(self, trial: Trial) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        ranker, data = self._build(trial), self._load(trial.split)
        try:
            future.set_result(self._settings.run(ranker, data))
        except Exception as error:
            future.set_exception(error)
        return future

    def close(self) -> None:
        """Do nothing: no trial is running."""


class LocalRunner(Runner):
    """Runs trials in several processes of this machine, which share one copy of the data in ``folder``."""

    def __init__(self, source: DataSource, settings: TrialSettings, *, count: int, folder: Path) -> None:
        super().__init__(settings)
        self.slots = count
        self._pool = LocalPool(count, threads=settings.threads, folder=folder)
        self._source = share(source, self._pool.folder)

    def submit(self, trial: Trial) -> Future[Outcome]:
        call = (self._source, self._settings, self._build(trial), trial.split)
        return self._pool.submit(trial.title, run_shared, *call)

    def close(self) -> None:
        self._pool.close()


def run_shared(shared: SharedSource, settings: TrialSettings, ranker: Ranker, split: Split) -> Outcome:
    """Run one trial in a worker process."""
    return settings.run(ranker, settings.protocol.load(shared.open(), split))


@dataclass(frozen=True)
class SharedSource:
    """A data source by the paths of its files."""

    name: str
    whole: Path | None
    folds: tuple[tuple[str, Path, Path | None, Path], ...]

    def open(self) -> DataSource:
        """Open the data; in one process each source is opened once."""
        return _open_source(self)


@cache
def _open_source(shared: SharedSource) -> DataSource:
    open_once = cache(open_shared)
    folds = tuple(
        Fold(name, open_once(train), None if validation is None else open_once(validation), open_once(test))
        for name, train, validation, test in shared.folds
    )
    return DataSource(shared.name, None if shared.whole is None else open_shared(shared.whole), folds)


def share(source: DataSource, folder: Path) -> SharedSource:
    """Write the data sets of a source, each once, into a folder."""
    paths: dict[int, Path] = {}

    def path_of(data: Dataset) -> Path:
        if id(data) not in paths:
            paths[id(data)] = write_shared(data, folder / f"data-{len(paths)}")
        return paths[id(data)]

    return SharedSource(
        source.name,
        None if source.whole is None else path_of(source.whole),
        tuple(
            (
                fold.name,
                path_of(fold.train),
                None if fold.validation is None else path_of(fold.validation),
                path_of(fold.test),
            )
            for fold in source.folds
        ),
    )


class ClusterRunner(Runner):
    """Runs trials as tasks on a cluster; the data go to each machine once.

    ``cluster.step_seconds`` limits the time between two steps of a trial (trees, epochs).
    """

    def __init__(self, source: DataSource, settings: TrialSettings, cluster: Cluster) -> None:
        super().__init__(settings)
        self._futures: dict[int, tuple[Trial, Future[Outcome]]] = {}
        self._lock = threading.Lock()
        self._pool = TaskPool(cluster, run_task, (source, settings))
        self.slots = self._pool.slots
        self._listener = threading.Thread(target=self._listen, name="trials", daemon=True)
        self._listener.start()

    def submit(self, trial: Trial) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        with self._lock:
            number = len(self._futures)
            self._futures[number] = (trial, future)
        self._pool.submit(number, (self._build(trial), trial.split))
        return future

    def _listen(self) -> None:
        try:
            while True:
                event = self._pool.next_event()
                if event is not None and event.kind != "message":
                    self._settle(event)
        except BaseException as error:  # every waiting trial must learn of it
            with self._lock:
                waiting = [future for _, future in self._futures.values() if not future.done()]
            for future in waiting:
                future.set_exception(_with_hint(error))

    def _settle(self, event: TaskEvent) -> None:
        trial, future = self._futures[event.number]
        if event.kind == "done":
            outcome, texts = event.content
            for text in texts:  # before the result: the caller may stop listening after it
                warnings.warn(f"{trial.title}: {text}", ConvergenceWarning, stacklevel=2)
            future.set_result(outcome)
        elif isinstance(event.content, ClusterError):
            future.set_exception(_with_hint(ClusterError(f"{trial.title}: {event.content}.")))
        else:
            future.set_exception(event.content)

    def close(self) -> None:
        self._pool.close()
        self._listener.join()


def _with_hint(error: BaseException) -> BaseException:
    if isinstance(error, ClusterError):
        return ClusterError(f"{error} Finished trials are kept.")
    return error


def run_task(
    common: tuple[DataSource, TrialSettings], item: tuple[Ranker, Split], context: TaskContext
) -> tuple[Outcome, list[str]]:
    """Run one trial in a task of the cluster; returns the warnings of its solver, too."""
    (source, settings), (ranker, split) = common, item
    data = settings.protocol.load(source, split)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        outcome = settings.run(ranker, data, progress=context)
    texts = [message_of(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
    return outcome, texts
