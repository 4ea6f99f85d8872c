"""Workers of a search: take a trial, evaluate it, write it to the study, until all are finished.

A search runs in this process alone, in several processes of this machine, or as tasks on a cluster. Local processes all
do the same work on the same store, while this process watches. With a cluster only this process uses the store: it
takes trials, gets suggestions and writes results, so workers need not see the store, and a search may be started on a
cluster and continued without one. Reports of a trial arrive as messages; this process decides whether to prune it, and
the worker is told at its next step.

On a cluster, a trial whose worker dies is started again. A trial that repeatedly kills its worker (perhaps its settings
need too much memory), or that finishes no step in time, counts as failed, and the search continues without it.
"""

import time
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from plackett.base.errors import ClusterError, UsageError
from plackett.distributed import Cluster, TaskContext, TaskEvent, TaskPool
from plackett.distributed.local_pool import LocalPool
from plackett.experiments.protocols import DataSource
from plackett.experiments.runners import open_source, share
from plackett.experiments.tuning.plan import SearchPlan, TrialPruned, build_ranker, evaluate_ranker
from plackett.experiments.tuning.study import RECIPE, TuningStudy, failure_reason
from plackett.models import Progress, Ranker, no_progress

_STUDY_SECONDS = 0.5  # between checks of what other processes have finished
_WORKER_SECONDS = 0.2  # between progress reports while local processes work
_MOST_FAILURES = 5  # if this many trials fail and none succeeds, the search is aborted


@dataclass(eq=False)
class SearchWorker:
    """Works on a search in this process."""

    study: TuningStudy
    source: DataSource
    threads: int | None
    progress: Progress
    ran: int = 0  # number of trials that were finished here

    def run(self) -> int:
        """Work until all trials are finished, here or elsewhere; returns how many were finished here."""
        self.study.enqueue()
        while True:
            self._evaluate_recipe()
            trial = self.study.take()
            if trial is not None:
                self._run_trial(trial)
            elif self.study.is_finished():
                self._report("")
                return self.ran
            else:
                self._report("waiting for another process")
                time.sleep(_STUDY_SECONDS)

    def _evaluate_recipe(self) -> None:
        study = self.study
        if not study.claim_recipe():
            return
        try:
            ranker = build_ranker(study.plan, {}, self.threads)
            self._report("the recipe's own settings")
            study.recipe_value = evaluate_ranker(ranker, study.plan, self.source)
        finally:
            study.release(RECIPE)

    def _run_trial(self, trial: Any) -> None:
        study = self.study
        value: float | None = None
        reason = ""
        try:
            ranker = build_ranker(study.plan, study.suggest(trial), self.threads)
            self._report(f"trial {trial.number + 1}")
            value = evaluate_ranker(
                ranker,
                study.plan,
                self.source,
                known=study.known_values(trial),
                save=partial(study.save_value, trial),
                report=partial(study.report, trial),
            )
        except TrialPruned:
            pass
        except UsageError as error:  # settings that exclude each other, unbounded weights
            reason = str(error)
        except BaseException:
            study.release(trial.number)  # so that it can be taken again
            raise
        study.finish(trial, value, reason)
        self.ran += 1
        if reason:
            abort_if_all_failed(study)

    def _report(self, text: str) -> None:
        report_progress(self.study, self.progress, text)


def abort_if_all_failed(study: TuningStudy) -> None:
    """Abort a search if none of its first trials could be fitted."""
    reasons = [failure_reason(trial) for trial in study.trials() if trial.state.is_finished()]
    if len(reasons) >= _MOST_FAILURES and all(reasons):
        raise UsageError(
            f"none of the first {len(reasons)} trials could be fitted; the last one failed with: {reasons[-1]}"
        )


def report_progress(study: TuningStudy, progress: Progress, text: str) -> None:
    """Report how many trials are finished, with the best value so far."""
    values = [trial.value for trial in study.trials() if trial.value is not None and trial.state.name == "COMPLETE"]
    best = f"best {study.plan.selection_metric} {max(values):.4f}" if values else ""
    progress(" · ".join(part for part in (text, best) if part), study.count_finished(), study.count)


def run_in_processes(
    study: TuningStudy, source: DataSource, *, threads: int | None, jobs: int, scratch: Path, progress: Progress
) -> None:
    """Work on a search with ``jobs`` processes until all trials are finished."""
    with LocalPool(jobs, threads=threads, folder=scratch) as pool:
        call = (study.plan, share(source, pool.folder), study.store.url, study.count, threads)
        running = {pool.submit("trials of the search", run_process, *call) for _ in range(jobs)}
        while running:
            report_progress(study, progress, f"{jobs} at a time")
            done, running = wait(running, timeout=_WORKER_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()


def run_process(plan: SearchPlan, shared: bytes, store: str, trials: int, threads: int | None) -> None:
    """Work on a search in a worker process."""
    source = open_source(shared)
    with TuningStudy(store, plan, source, trials) as study:
        SearchWorker(study, source, threads, no_progress).run()


def run_on_cluster(study: TuningStudy, source: DataSource, *, cluster: Cluster, progress: Progress) -> int:
    """Work on a search with tasks on a cluster; returns how many trials were finished here.

    ``cluster.step_seconds`` limits the time between two steps of a trial (trees, epochs).
    """
    study.enqueue()
    if study.is_finished():
        return 0  # no need for a cluster
    progress(f"starting workers on {cluster.location}", study.count_finished(), study.count)
    try:
        with TaskPool(cluster, run_search_task, (source, study.plan)) as pool:
            return _ClusterSearch(study, cluster, pool, progress).run()
    except ClusterError as error:
        raise ClusterError(f"{error} Finished trials are kept: the same search continues from there.") from error


def run_search_task(
    common: tuple[DataSource, SearchPlan], item: tuple[Ranker, list[float]], context: TaskContext
) -> float:
    """Evaluate one trial in a task, except the splits that were finished before."""
    (source, plan), (ranker, known) = common, item
    return evaluate_ranker(
        ranker,
        plan,
        source,
        known=known,
        save=lambda split, value: context.send(("save", split, value)),
        report=lambda number, value, more: context.send(("report", number, value, more)),
        progress=context,
    )


@dataclass(eq=False)
class _ClusterSearch:
    """Keeps the tasks of a cluster busy with the trials of a search."""

    study: TuningStudy
    cluster: Cluster
    pool: TaskPool
    progress: Progress
    ran: int = 0  # number of trials that were finished here
    running: dict[int, Any] = field(default_factory=dict)
    """Optuna's trial for each task by its number; None for the recipe's own settings."""
    pruned: set[int] = field(default_factory=set)
    """Running tasks whose trials have been pruned; their workers do not know it yet."""

    def run(self) -> int:
        """Work until all trials are finished, here or elsewhere; returns how many were finished here."""
        try:
            while True:
                submitted = False
                while len(self.running) < self.pool.slots and (self._submit_recipe() or self._submit_trial()):
                    submitted = True
                finished = self.study.is_finished()
                if finished or submitted or not self.running:
                    self._report()
                if finished:
                    return self.ran
                event = self.pool.next_event()
                if event is not None and event.number in self.running:
                    self._handle(event)
        finally:
            for number in self.running.keys() - self.pruned:  # to be taken again
                self.study.release(number)

    def _submit_recipe(self) -> bool:
        if not self.study.claim_recipe():
            return False
        self.running[RECIPE] = None
        self.pool.submit(RECIPE, (build_ranker(self.study.plan, {}, self.cluster.threads), []))
        return True

    def _submit_trial(self) -> bool:
        study = self.study
        trial = study.take()
        if trial is None:
            return False
        self.running[trial.number] = trial
        try:
            ranker = build_ranker(study.plan, study.suggest(trial), self.cluster.threads)
        except UsageError as error:
            self._fail(trial.number, error)
        else:
            self.pool.submit(trial.number, (ranker, study.known_values(trial)))
        return True

    def _handle(self, event: TaskEvent) -> None:
        number, kind, content = event
        if number in self.pruned:
            if kind != "message":
                self._drop(number)
        elif kind == "message":
            if number != RECIPE:
                self._handle_message(number, *content)
        elif kind == "failed":
            self._fail(number, content)
        elif number == RECIPE:
            self.study.recipe_value = content
            self._drop(RECIPE)
            self.study.release(RECIPE)
        else:
            self._finish(number, content)
            self._drop(number)

    def _handle_message(self, number: int, kind: str, *values: Any) -> None:
        trial = self.running[number]
        if kind == "save":
            self.study.save_value(trial, *values)
            return
        try:
            self.study.report(trial, *values)
        except TrialPruned:
            self._finish(number, None)
            self.pruned.add(number)
            self.pool.cancel(number)

    def _fail(self, number: int, error: Exception) -> None:
        """Record settings that cannot be fitted; other errors are raised."""
        if number == RECIPE and isinstance(error, ClusterError):
            raise ClusterError(f"the recipe's own settings: {error}.") from error
        if number == RECIPE or not isinstance(error, (UsageError, ClusterError)):
            raise error
        self._finish(number, None, str(error))
        self._drop(number)
        abort_if_all_failed(self.study)

    def _finish(self, number: int, value: float | None, reason: str = "") -> None:
        self.study.finish(self.running[number], value, reason)
        self.ran += 1
        self._report()

    def _drop(self, number: int) -> None:
        del self.running[number]
        self.pruned.discard(number)

    def _report(self) -> None:
        running = f"{len(self.running)} at a time on {self.cluster.location}"
        text = running if self.running else "waiting for another process"
        report_progress(self.study, self.progress, text)
