"""Compare systems: train each on each split of a protocol, evaluate, test.

Trials that the store does not have yet are run, each once, even if several processes use the same
store. Then the outcomes are read back and compared.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plackett.base.errors import DataError, Message, PlackettError, UsageError, message_of, unknown_name, warn_renamed
from plackett.data import Dataset, Fold
from plackett.distributed import Cluster, as_cluster
from plackett.experiments.plan import METRIC, METRICS, Plan, Trial, plan_comparison, threads_per_trial
from plackett.experiments.protocols import DataSource, Protocol
from plackett.experiments.results import (
    CORRECTIONS,
    TESTS,
    ComparisonResults,
    Correction,
    Leaderboard,
    Test,
    leaderboard,
    read_results,
)
from plackett.experiments.runners import ClusterRunner, InProcessRunner, LocalRunner, Runner, TrialSettings
from plackett.experiments.store import Heartbeat, Outcome, RunStore
from plackett.experiments.systems import Model
from plackett.models import MetricSpec, Progress, no_progress


@dataclass(frozen=True, eq=False, repr=False)
class CompareResult:
    """A finished comparison; it prints as its leaderboard."""

    plan: Plan
    board: Leaderboard
    results: ComparisonResults
    ran: int
    """Number of trials that were run now; the others were in the store."""

    def __repr__(self) -> str:
        return repr(self.board)

    def _repr_html_(self) -> str:
        return self.board._repr_html_()


def compare(
    data: Dataset | Fold | Sequence[Fold] | DataSource,
    models: Sequence[Model] | Mapping[str, Model],
    *,
    protocol: str | Protocol = "holdout",
    metrics: MetricSpec = METRICS,
    baseline: str | None = None,
    metric: MetricSpec = METRIC,
    store: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    threads: int | None = None,
    cluster: Cluster | str | None = None,
    seed: int = 0,
    test: Test | None = None,
    correction: Correction = "holm",
    progress: Progress | None = None,
    select: MetricSpec | None = None,
) -> CompareResult:
    """Train systems on the splits of a protocol and compare them with significance tests.

    Every trial is written to the store as soon as it is finished. If the same comparison is run again, whether it was
    finished, killed or is still running elsewhere, only the missing trials are run.

    Parameters
    ----------
    data
        A data set, a fold, or several folds.
    models
        What to compare, as a list, or as a dictionary by the name to show. Each is the name of a
        recipe, optionally with settings (``"lambdamart:leaves=31"``), a plackett ranker, an estimator
        of another library (``LGBMRanker``, ``XGBRanker``, ``CatBoostRanker``), or the path of a saved
        model or of a file with one score per row of the data (.txt, .npy). Saved models and scores are
        used as they are; all others are trained on each split.
    protocol
        ``folds``, ``folds:N``, ``splits:N``, ``seeds:N`` or ``holdout``.
    metrics
        Metrics to compute on the test lists; the first one orders the systems.
    baseline
        The system that the others are compared with; by default the first.
    metric
        The metric for early stopping and model selection on the validation lists.
    store
        File or URL of the store of finished trials; None: a temporary one.
    jobs
        Number of trials that run at the same time, each in its own process.
    threads
        Threads of each trial; by default all cores for one job, one for several.
    cluster
        Run the trials as tasks on Ray instead: ``"local:2"``, ``"auto"``, or a
        :class:`plackett.distributed.Cluster`, whose ``threads`` then apply.
    seed
        Random seed of splits, models and tests.
    test
        The test whose p-values decide; by default the randomization test if lists are compared, and the
        t-test if trials are.
    correction
        Correction for the number of systems.
    progress
        Called with a text, the number of finished trials and the number of trials.
    select
        Deprecated name of ``metric``.

    Examples
    --------
    >>> import plackett as pk
    >>> data = pk.synthetic("letor", n_lists=30, seed=0)
    >>> models = ["listnet-linear:C=1", "listnet-linear:C=100"]
    >>> result = pk.compare(data, models, metrics="ndcg@10")
    >>> sorted(entry.name for entry in result.board.entries)
    ['listnet-linear:C=1', 'listnet-linear:C=100']
    """
    if select is not None:
        warn_renamed("select", "metric")
        metric = select
    if test is not None and test not in (*TESTS, "randomisation"):  # leaderboard() replaces the old spelling
        raise unknown_name("test", str(test), TESTS)
    if correction not in CORRECTIONS:
        raise unknown_name("correction", str(correction), CORRECTIONS)
    plan = plan_comparison(
        data, models, protocol=protocol, metrics=metrics, baseline=baseline, metric=metric, seed=seed
    )
    running = {"jobs": jobs, "threads": threads, "cluster": cluster, "progress": progress or no_progress}
    with open_store(store) as (runs, scratch):
        return run_plan(plan, store=runs, scratch=scratch, seed=seed, test=test, correction=correction, **running)


@contextmanager
def open_store(store: str | os.PathLike[str] | None) -> Iterator[tuple[RunStore, Path]]:
    """A store (None: a temporary one), and a temporary folder."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        RunStore(Path(scratch) / "runs.db" if store is None else store) as runs,
    ):
        yield runs, Path(scratch)


def run_plan(
    plan: Plan,
    *,
    store: RunStore,
    seed: int = 0,
    test: Test | None = None,
    correction: Correction = "holm",
    **running: Any,
) -> CompareResult:
    """Run the missing trials as :func:`run_trials` does, and compare; parameters as for :func:`compare`."""
    ran = run_trials(plan, store=store, **running)
    results = read_results(plan, store)
    default: Test = "t_test" if plan.protocol.unit == "trials" else "randomization"
    board = leaderboard(
        results.values,
        baseline=plan.baseline,
        seconds=results.seconds,
        seed=seed,
        unit=plan.protocol.unit,
        alpha=plan.protocol.alpha,
        test=test or default,
        correction=correction,
        intervals=results.intervals,
    )
    return CompareResult(plan, board, results, ran)


def run_trials(
    plan: Plan,
    *,
    store: RunStore,
    scratch: Path,
    jobs: int = 1,
    threads: int | None = None,
    cluster: Cluster | str | None = None,
    progress: Progress = no_progress,
) -> int:
    """Run the trials that are not in the store; returns how many were run here.

    ``scratch`` is a folder in which the data may be written for several processes to share.
    """
    where = None if cluster is None else as_cluster(cluster)
    trial_threads = threads_per_trial(jobs, threads) if where is None else where.threads
    # Two systems with the same settings are one trial under two names.
    by_digest = {trial.identity.digest: trial for trial in plan.trials}
    store.release_dead()
    done = store.finished(trial.identity for trial in by_digest.values())
    pending = [trial for digest, trial in by_digest.items() if digest not in done]
    if not pending:
        return 0
    settings = TrialSettings(plan.protocol, plan.metrics, plan.select, trial_threads, plan.functions)
    runner: Runner
    if where is not None:
        runner = ClusterRunner(plan.source, settings, where)
    elif jobs == 1:
        runner = InProcessRunner(plan.source, settings)
    else:
        runner = LocalRunner(plan.source, settings, count=jobs, folder=scratch)
    with runner, Heartbeat(store) as heartbeat:
        return _Schedule(store, runner, heartbeat, progress, len(by_digest), pending).run()


@dataclass
class _Schedule:
    """The trials that are not in the store: those still to run, and those that this process is running.

    Trials that another process has claimed are waited for, and taken over if that process dies. If
    a trial fails, the others are stopped; those that are finished are kept.
    """

    store: RunStore
    runner: Runner
    heartbeat: Heartbeat
    progress: Progress
    total: int
    pending: list[Trial]
    running: dict[Future[Outcome], Trial] = field(default_factory=dict)
    finished: int = 0

    def run(self) -> int:
        """Run all trials; returns how many were run here."""
        trials = list(self.pending)
        try:
            while self._start():
                self._collect()
        except BaseException:
            # Release all of them: Ctrl-C may come between a claim and the record of it.
            self.store.release(trial.identity for trial in trials)
            raise
        self.progress("", self.total, self.total)
        return self.finished

    def _start(self) -> bool:
        """Start as many trials as the runner has slots; returns whether there are trials to wait for."""
        for trial in list(self.pending):
            if len(self.running) >= self.runner.slots:
                return True
            if self.store.claim(trial.identity):
                self.pending.remove(trial)
                self.heartbeat.add(trial.identity.digest)
                self._report(trial)
                self.running[self.runner.submit(trial)] = trial
        if not self.running:
            # Other processes have claimed all remaining trials: drop those that they have finished.
            done = self.store.finished(trial.identity for trial in self.pending)
            self.pending = [trial for trial in self.pending if trial.identity.digest not in done]
            if self.pending:
                self.progress("waiting for another process", self.total - len(self.pending), self.total)
        return bool(self.pending or self.running)

    def _collect(self) -> None:
        """Store the outcomes of finished trials, all of them before a failure ends the comparison."""
        for future in sorted(self.runner.wait(self.running), key=lambda future: future.exception() is not None):
            trial = self.running.pop(future)
            self.store.finish(trial.identity, _get_outcome(trial, future))
            self.heartbeat.drop(trial.identity.digest)
            self.finished += 1
            self._report()

    def _report(self, *starting: Trial) -> None:
        trials = [*self.running.values(), *starting]
        text = " · ".join(trial.title for trial in trials)
        self.progress(text, self.total - len(self.pending) - len(trials), self.total)


def _get_outcome(trial: Trial, future: Future[Outcome]) -> Outcome:
    """The outcome of a trial; an error gets the name of the trial and keeps its class."""
    try:
        return future.result()
    except Exception as error:
        text = Message(f"{trial.title}: ", message_of(error), " (Finished trials are kept.)")
        for kind in (DataError, UsageError):
            if isinstance(error, kind):
                raise kind(text) from error
        if isinstance(error, (PlackettError, ImportError, OSError)):
            raise  # the error is clear by itself, or not about the trial
        raise RuntimeError(f"{text} ({type(error).__name__})") from error
