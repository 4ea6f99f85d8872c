"""Compare systems: train each on each trial of a protocol, measure, test, report.

Run what is missing, and nothing twice, beside other processes that do the same.

Trials are run here: in this process or in several, each of them once.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from plackett.base.errors import DataError, PlackettError, UsageError
from plackett.data.dataset import Dataset
from plackett.data.folds import Fold
from plackett.distributed import Cluster, as_cluster
from plackett.experiments.plan import (
    METRICS,
    Expected,
    Plan,
    Trial,
    expected_time,
    plan_comparison,
    plan_trials,
    threads_per_trial,
)
from plackett.experiments.protocols import DataSource, Protocol
from plackett.experiments.results import (
    ComparisonResults,
    Correction,
    Leaderboard,
    Test,
    gather,
    leaderboard,
)
from plackett.experiments.runners import InProcess, RayTasks, Runner, Setup, Workers
from plackett.experiments.store import Heartbeat, Outcome, RunStore
from plackett.experiments.systems import System, as_systems
from plackett.models.ranker import Ranker

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many trials are done, and how many there are."""

_POLL = 1.0
"""Seconds between looks at what other processes have finished."""


def run_missing(
    jobs: Sequence[Trial], *, store: RunStore, runner: Runner, progress: Progress
) -> int:
    """Run the trials that the store has not; returns how many were run here.

    Trials that another process has claimed are waited for, and taken over if that process dies.
    The first trial that fails stops the others; what was finished is kept.
    """
    # Two systems with the same settings are one trial under two names.
    different = {job.identity.digest: job for job in jobs}
    store.release_dead()
    done = store.finished(job.identity for job in different.values())
    pending = [job for digest, job in different.items() if digest not in done]
    with Heartbeat(store) as heartbeat:
        schedule = _Schedule(store, runner, heartbeat, progress, len(different), pending)
        try:
            while schedule.pending or schedule.claimed:
                schedule.start()
                schedule.collect()
        except BaseException:
            store.release(job.identity for job in schedule.claimed.values())
            raise
    progress("", len(different), len(different))
    return schedule.finished


@dataclass
class _Schedule:
    store: RunStore
    runner: Runner
    heartbeat: Heartbeat
    progress: Progress
    total: int
    pending: list[Trial]
    claimed: dict[str, Trial] = field(default_factory=dict)
    """By digest: what this process is at work on."""
    running: dict[Future[Outcome], Trial] = field(default_factory=dict)
    finished: int = 0

    def start(self) -> None:
        """Start as many trials as there is room for."""
        for job in list(self.pending):
            if len(self.running) >= self.runner.slots:
                return
            if self.store.claim(job.identity):
                self.claimed[job.identity.digest] = job
                self.pending.remove(job)
                self.heartbeat.add(job.identity.digest)
                self._tell()
                self.running[self.runner.submit(job)] = job
        if not self.running:
            self._wait_for_others()

    def _wait_for_others(self) -> None:
        """All that is left is in other hands: drop what they have finished."""
        done = self.store.finished(job.identity for job in self.pending)
        self.pending = [job for job in self.pending if job.identity.digest not in done]
        if self.pending:
            self._tell("waiting for another process")
            time.sleep(_POLL)

    def collect(self) -> None:
        """Keep what has been finished."""
        if not self.running:
            return
        done = wait(self.running, timeout=_POLL, return_when=FIRST_COMPLETED).done
        # What is finished is kept before a failure ends it all.
        for future in sorted(done, key=lambda each: each.exception() is not None):
            job = self.running.pop(future)
            self.store.finish(job.identity, _outcome(job, future))
            self.heartbeat.drop(job.identity.digest)
            del self.claimed[job.identity.digest]
            self.finished += 1
            self._tell()

    def _tell(self, text: str = "") -> None:
        at_work = " · ".join(job.title for job in self.claimed.values())
        done = self.total - len(self.pending) - len(self.claimed)
        self.progress(text or at_work, done, self.total)


def _outcome(job: Trial, future: Future[Outcome]) -> Outcome:
    """The outcome; what went wrong says in which trial, and keeps its kind."""
    try:
        return future.result()
    except DataError as error:
        raise DataError(_told(job, error)) from error
    except UsageError as error:
        raise UsageError(_told(job, error)) from error
    except (PlackettError, ImportError, OSError):
        raise  # says enough, or is not about the trial
    except Exception as error:
        raise RuntimeError(f"{_told(job, error)} It was a {type(error).__name__}.") from error


def _told(job: Trial, error: Exception) -> str:
    return f"{job.title}: {error} (Trials that are finished are kept.)"


_STORE = "runs.db"


@dataclass(frozen=True, eq=False)
class CompareResult:
    """A comparison that is done."""

    plan: Plan
    board: Leaderboard
    gathered: ComparisonResults
    ran: int
    """Trials that were run now; the others were in the store."""


def compare(
    data: Dataset | Fold | Sequence[Fold] | DataSource,
    models: Sequence[str] | Mapping[str, Ranker],
    *,
    protocol: str | Protocol = "holdout",
    metrics: Sequence[str] | str = METRICS,
    baseline: str | None = None,
    select: str = "ndcg@5",
    store: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    threads: int | None = None,
    cluster: Cluster | str | None = None,
    seed: int = 0,
    test: Test | None = None,
    correction: Correction = "holm",
    progress: Progress = lambda *_: None,
) -> CompareResult:
    """Train systems on the trials of a protocol, and compare them with tests of significance.

    Every trial is written to the store as soon as it is finished. Run again, whether this one was
    finished, killed or is still running elsewhere, a comparison does only what is missing.

    Parameters
    ----------
    data
        A data set; or one that comes in folds.
    models
        Names of recipes, or rankers by the name to show.
    protocol
        ``folds``, ``folds:N``, ``splits:N``, ``seeds:N`` or ``holdout``.
    metrics
        What to measure on the test lists; the first orders the systems.
    baseline
        The system that others are compared with; by default the first.
    select
        The metric by which models are chosen on the validation lists.
    store
        File or URL of the store of finished trials; None: a temporary one.
    jobs
        Trials that run at the same time, each in a process of its own.
    threads
        Of each trial; by default all for one job, one each for several.
    cluster
        Run trials as tasks on Ray instead: ``"local:2"``, ``"auto"``, or a
        :class:`plackett.distributed.Cluster`, whose threads then count.
    seed
        Of divisions, models and tests.
    test
        Whose p-values decide; by default the randomisation test over lists, the t-test over trials.
    correction
        For the number of systems.
    progress
        Called with what is being done, trials done and trials in all.
    """
    plan = plan_comparison(
        data,
        models,
        protocol=protocol,
        metrics=metrics,
        baseline=baseline,
        select=select,
        seed=seed,
    )
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kept = stack.enter_context(RunStore(scratch / _STORE if store is None else store))
        return run_plan(
            plan,
            store=kept,
            scratch=scratch,
            jobs=jobs,
            threads=threads,
            cluster=cluster,
            seed=seed,
            test=test,
            correction=correction,
            progress=progress,
        )


def run_plan(
    plan: Plan,
    *,
    store: RunStore,
    scratch: Path,
    jobs: int = 1,
    threads: int | None = None,
    cluster: Cluster | str | None = None,
    seed: int = 0,
    test: Test | None = None,
    correction: Correction = "holm",
    progress: Progress = lambda *_: None,
) -> CompareResult:
    """Run the trials that are missing, and compare; parameters as for :func:`compare`.

    ``scratch`` is a folder in which the data may be written for several processes to see.
    """
    ran = run_trials(
        plan,
        store=store,
        scratch=scratch,
        jobs=jobs,
        threads=threads,
        cluster=cluster,
        progress=progress,
    )
    gathered = gather(
        plan.jobs,
        store=store,
        source=plan.source,
        protocol=plan.protocol,
        metrics=plan.metrics,
        select=plan.select.split(",")[0],
    )
    by_default: Test = "t_test" if plan.protocol.unit == "trials" else "randomisation"
    board = leaderboard(
        gathered.values,
        baseline=plan.baseline,
        seconds=gathered.seconds,
        seed=seed,
        unit=plan.protocol.unit,
        alpha=plan.protocol.alpha,
        test=test or by_default,
        correction=correction,
        intervals=gathered.intervals,
    )
    return CompareResult(plan, board, gathered, ran)


def run_trials(
    plan: Plan,
    *,
    store: RunStore,
    scratch: Path,
    jobs: int = 1,
    threads: int | None = None,
    cluster: Cluster | str | None = None,
    progress: Progress = lambda *_: None,
) -> int:
    """Run the trials that the store has not; returns how many were run here."""
    where = None if cluster is None else as_cluster(cluster)
    each = threads_per_trial(jobs, threads) if where is None else where.threads
    setup = Setup(plan.protocol, plan.metrics, plan.select, each)
    finished = store.finished(job.identity for job in plan.jobs)
    if len(finished) == len({job.identity.digest for job in plan.jobs}):
        return 0
    with _runner(plan, setup, jobs, scratch, where) as runner:
        return run_missing(plan.jobs, store=store, runner=runner, progress=progress)


def _runner(plan: Plan, setup: Setup, jobs: int, scratch: Path, cluster: Cluster | None) -> Runner:
    if cluster is not None:
        return RayTasks(plan.source, setup, cluster)
    if jobs == 1:
        return InProcess(plan.trial, setup)
    return Workers(plan.source, setup, count=jobs, folder=scratch)


__all__ = [
    "Expected",
    "InProcess",
    "Runner",
    "Setup",
    "System",
    "Trial",
    "Workers",
    "as_systems",
    "expected_time",
    "plan_trials",
    "run_missing",
]
