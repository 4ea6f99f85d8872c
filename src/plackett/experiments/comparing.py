"""Compare systems: train each on each trial of a protocol, measure, test, report."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from plackett.data.dataset import Dataset
from plackett.data.folds import Fold
from plackett.distributed import Cluster, as_cluster
from plackett.experiments.gathering import Gathered, gather
from plackett.experiments.leaderboard import Correction, Leaderboard, Test, leaderboard
from plackett.experiments.planning import METRICS, Plan, plan_comparison, threads_of
from plackett.experiments.protocols import Protocol, Source
from plackett.experiments.running import (
    InProcess,
    Runner,
    Setup,
    Workers,
    run_missing,
)
from plackett.experiments.running.ray_tasks import RayTasks
from plackett.experiments.running.schedule import Progress
from plackett.experiments.store import RunStore
from plackett.models.ranker import Ranker

_STORE = "runs.db"


@dataclass(frozen=True, eq=False)
class Compared:
    """A comparison that is done."""

    plan: Plan
    board: Leaderboard
    gathered: Gathered
    ran: int
    """Trials that were run now; the others were in the store."""


def compare(
    data: Dataset | Fold | Sequence[Fold] | Source,
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
) -> Compared:
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
) -> Compared:
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
    return Compared(plan, board, gathered, ran)


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
    each = threads_of(jobs, threads) if where is None else where.threads
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
