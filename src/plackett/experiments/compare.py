"""Compare systems: train each on each split of a protocol, evaluate, test.

The trials that the store does not have yet are run, each once, also if several processes work on
the same store. Then the outcomes are read back and compared.
"""

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from plackett.base.errors import DataError, Message, PlackettError, UsageError, message_of, unknown_name, warn_renamed
from plackett.data.dataset import Dataset
from plackett.data.folds import Fold
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
from plackett.models.fit_context import MetricSpec, Progress, no_progress

_POLL_SECONDS = 1.0  # between checks of what other processes have finished


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

    Every trial is written to the store as soon as it is finished. If the same comparison is run
    again, whether it was finished, killed or is still running elsewhere, only the missing trials
    are run.

    Parameters
    ----------
    data
        A data set, a fold, or several folds.
    models
        What to compare, as a list or by the name to show. Each is the name of a recipe, with
        settings if need be (``"lambdamart:leaves=31"``), a plackett ranker, an estimator of another
        library (``LGBMRanker``, ``XGBRanker``, ``CatBoostRanker``), the path of a saved model, or
        of a file with one score per row of the data (.txt, .npy). Saved models and scores are used
        as they are; all others are trained on each split.
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
        The test whose p-values decide; by default the randomisation test over lists, and the
        t-test over trials.
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
    if test is not None and test not in TESTS:
        raise unknown_name("test", str(test), TESTS)
    if correction not in CORRECTIONS:
        raise unknown_name("correction", str(correction), CORRECTIONS)
    plan = plan_comparison(
        data, models, protocol=protocol, metrics=metrics, baseline=baseline, metric=metric, seed=seed
    )
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        opened = stack.enter_context(RunStore(scratch / "runs.db" if store is None else store))
        return run_plan(
            plan,
            store=opened,
            scratch=scratch,
            jobs=jobs,
            threads=threads,
            cluster=cluster,
            seed=seed,
            test=test,
            correction=correction,
            progress=progress or no_progress,
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
    progress: Progress = no_progress,
) -> CompareResult:
    """Run the missing trials and compare; parameters as for :func:`compare`.

    ``scratch`` is a folder in which the data may be written for several processes to share.
    """
    ran = run_trials(plan, store=store, scratch=scratch, jobs=jobs, threads=threads, cluster=cluster, progress=progress)
    results = read_results(
        plan.trials,
        store=store,
        source=plan.source,
        protocol=plan.protocol,
        metrics=plan.metrics,
        select=plan.select.split(",")[0],
    )
    default: Test = "t_test" if plan.protocol.unit == "trials" else "randomisation"
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
    """Run the trials that are not in the store; returns how many were run here."""
    where = None if cluster is None else as_cluster(cluster)
    cores = threads_per_trial(jobs, threads) if where is None else where.threads
    finished = store.finished(trial.identity for trial in plan.trials)
    if len(finished) == len({trial.identity.digest for trial in plan.trials}):
        return 0
    settings = TrialSettings(plan.protocol, plan.metrics, plan.select, cores, plan.functions)
    with _make_runner(plan, settings, jobs, scratch, where) as runner:
        return run_missing(plan.trials, store=store, runner=runner, progress=progress)


def _make_runner(plan: Plan, settings: TrialSettings, jobs: int, scratch: Path, cluster: Cluster | None) -> Runner:
    if cluster is not None:
        return ClusterRunner(plan.source, settings, cluster)
    if jobs == 1:
        return InProcessRunner(plan.load, settings)
    return LocalRunner(plan.source, settings, count=jobs, folder=scratch)


def run_missing(trials: Sequence[Trial], *, store: RunStore, runner: Runner, progress: Progress) -> int:
    """Run the trials that are not in the store; returns how many were run here.

    Trials that another process has claimed are waited for, and taken over if that process dies. If
    a trial fails, the others are stopped; those that are finished are kept.
    """
    # Two systems with the same settings are one trial under two names.
    by_digest = {trial.identity.digest: trial for trial in trials}
    store.release_dead()
    done = store.finished(trial.identity for trial in by_digest.values())
    pending = [trial for digest, trial in by_digest.items() if digest not in done]
    with Heartbeat(store) as heartbeat:
        schedule = _Schedule(store, runner, heartbeat, progress, len(by_digest), pending)
        try:
            while schedule.pending or schedule.claimed:
                schedule.start()
                schedule.collect()
        except BaseException:
            # All of them: Ctrl-C may come between a claim and the note that it was made.
            store.release(trial.identity for trial in by_digest.values())
            raise
    progress("", len(by_digest), len(by_digest))
    return schedule.finished


@dataclass
class _Schedule:
    """The trials that this process has still to run, and those that it is running."""

    store: RunStore
    runner: Runner
    heartbeat: Heartbeat
    progress: Progress
    total: int
    pending: list[Trial]
    claimed: dict[str, Trial] = field(default_factory=dict)
    """By digest: the trials that this process is running."""
    running: dict[Future[Outcome], Trial] = field(default_factory=dict)
    finished: int = 0

    def start(self) -> None:
        """Start as many trials as the runner has slots."""
        for trial in list(self.pending):
            if len(self.running) >= self.runner.slots:
                return
            if self.store.claim(trial.identity):
                self.claimed[trial.identity.digest] = trial
                self.pending.remove(trial)
                self.heartbeat.add(trial.identity.digest)
                self._report()
                self.running[self.runner.submit(trial)] = trial
        if not self.running:
            self._wait_for_others()

    def _wait_for_others(self) -> None:
        """Other processes have claimed all that is left: drop what they have finished."""
        done = self.store.finished(trial.identity for trial in self.pending)
        self.pending = [trial for trial in self.pending if trial.identity.digest not in done]
        if self.pending:
            self._report("waiting for another process")
            time.sleep(_POLL_SECONDS)

    def collect(self) -> None:
        """Store the outcomes of finished trials."""
        if not self.running:
            return
        done = wait(self.running, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED).done
        # Outcomes are stored before a failure ends the comparison.
        for future in sorted(done, key=lambda future: future.exception() is not None):
            trial = self.running.pop(future)
            self.store.finish(trial.identity, _get_outcome(trial, future))
            self.heartbeat.drop(trial.identity.digest)
            del self.claimed[trial.identity.digest]
            self.finished += 1
            self._report()

    def _report(self, text: str = "") -> None:
        running = " · ".join(trial.title for trial in self.claimed.values())
        done = self.total - len(self.pending) - len(self.claimed)
        self.progress(text or running, done, self.total)


def _get_outcome(trial: Trial, future: Future[Outcome]) -> Outcome:
    """The outcome of a trial; an error gets the name of the trial and keeps its class."""
    try:
        return future.result()
    except DataError as error:
        raise DataError(_failure_text(trial, error)) from error
    except UsageError as error:
        raise UsageError(_failure_text(trial, error)) from error
    except (PlackettError, ImportError, OSError):
        raise  # is clear by itself, or not about the trial
    except Exception as error:
        text = f"{_failure_text(trial, error)} ({type(error).__name__})"
        raise RuntimeError(text) from error


def _failure_text(trial: Trial, error: Exception) -> str:
    return Message(f"{trial.title}: ", message_of(error), " (Finished trials are kept.)")
