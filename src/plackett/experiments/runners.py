"""Runners: where trials are run.

A runner takes trials and returns futures of their outcomes. There are three: in this process, in
several processes of this machine, and as tasks on a Ray cluster.
"""

import pickle
import time
import warnings
from collections.abc import Collection
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from plackett.base.errors import ClusterError, ConvergenceWarning, message_of
from plackett.data import Dataset
from plackett.distributed import Cluster, TaskContext, TaskPool
from plackett.distributed.driver_process import Closing
from plackett.distributed.local_pool import LocalPool, open_shared, write_shared
from plackett.experiments.plan import Trial
from plackett.experiments.protocols import DataSource, Protocol, Split, SplitData
from plackett.experiments.store import Outcome
from plackett.metrics import FunctionMetric, per_list
from plackett.models import Progress, Ranker, no_progress

_POLL_SECONDS = 1.0  # between checks of what other processes have finished
BY_PENALTY = " by penalty"  # added to the names of curves with a value for each penalty of a linear model


@dataclass(frozen=True)
class TrialSettings:
    """What all trials of a comparison share, besides the data."""

    protocol: Protocol
    metrics: tuple[str, ...]
    select: str  # the metric by which models are selected on the validation lists
    threads: int | None  # threads of each trial; None: one for each core
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
        suffix = "" if ranker.curves_by_step else BY_PENALTY
        curves = {
            part + suffix: {name: [float(mean) for mean in means] for name, means in by_name.items()}
            for part, by_name in vars(ranker).get("curves_", {}).items()
        }
        return Outcome(values, scores, seconds, curves, importance)


class Runner(Closing):
    """Runs trials; ``close`` stops those that are still running."""

    slots: int  # number of trials that run at the same time

    def __init__(self, settings: TrialSettings) -> None:
        self._settings = settings

    def submit(self, trial: Trial) -> Future[Outcome]:
        """Start a trial."""
        raise NotImplementedError

    def wait(self, running: Collection[Future[Outcome]]) -> Collection[Future[Outcome]]:
        """Those of the started trials that are finished; waits about a second for one of them."""
        if not running:
            time.sleep(_POLL_SECONDS)
        return wait(running, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED).done

    def _build(self, trial: Trial) -> Ranker:
        return trial.system.build(seed=trial.split.seed, threads=self._settings.threads)


class InProcessRunner(Runner):
    """Runs one trial after the other in this process; the data of the last split are kept, since systems share them."""

    slots = 1

    def __init__(self, source: DataSource, settings: TrialSettings) -> None:
        super().__init__(settings)
        self._load = lru_cache(maxsize=1)(partial(settings.protocol.load, source))

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


def run_shared(shared: bytes, settings: TrialSettings, ranker: Ranker, split: Split) -> Outcome:
    """Run one trial in a worker process."""
    return settings.run(ranker, settings.protocol.load(open_source(shared), split))


def share(source: DataSource, folder: Path) -> bytes:
    """Write the data sets of a source, each once, into a folder; returns what :func:`open_source` takes.

    That is the pickled source, with paths instead of data sets. It goes to a worker through its pipe: a file could be
    changed by others who may write to the folder.
    """
    paths: dict[int, Path] = {}

    def write_once(data: Dataset) -> Any:
        if id(data) not in paths:
            paths[id(data)] = write_shared(data, folder / f"data-{len(paths)}")
        return paths[id(data)]

    return pickle.dumps(source.map(write_once))


@cache
def open_source(shared: bytes) -> DataSource:
    """Open what :func:`share` has written; in one process each source is opened once, and kept."""
    source: DataSource = pickle.loads(shared)
    return source.map(cache(open_shared))


class ClusterRunner(Runner):
    """Runs trials as tasks on a cluster; the data go to each machine once.

    ``cluster.step_seconds`` limits the time between two steps of a trial (trees, epochs).
    """

    def __init__(self, source: DataSource, settings: TrialSettings, cluster: Cluster) -> None:
        super().__init__(settings)
        self._started: list[tuple[Trial, Future[Outcome]]] = []
        self._pool = TaskPool(cluster, run_trial_task, (source, settings))
        self.slots = self._pool.slots

    def submit(self, trial: Trial) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        self._pool.submit(len(self._started), (self._build(trial), trial.split))
        self._started.append((trial, future))
        return future

    def wait(self, running: Collection[Future[Outcome]]) -> Collection[Future[Outcome]]:  # noqa: ARG002
        try:
            event = self._pool.next_event()
        except ClusterError as error:
            raise ClusterError(f"{error} Finished trials are kept.") from error
        if event is None or event.kind == "message":
            return ()
        trial, future = self._started[event.number]
        if event.kind == "done":
            outcome, texts = event.content
            for text in texts:
                warnings.warn(f"{trial.title}: {text}", ConvergenceWarning, stacklevel=2)
            future.set_result(outcome)
        elif isinstance(event.content, ClusterError):
            future.set_exception(ClusterError(f"{trial.title}: {event.content}. Finished trials are kept."))
        else:
            future.set_exception(event.content)
        return (future,)

    def close(self) -> None:
        self._pool.close()


def run_trial_task(
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
