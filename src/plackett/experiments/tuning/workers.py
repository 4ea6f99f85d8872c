"""Workers of a search: take a trial, evaluate it, write it to the study, until all are finished.

A search is worked on by this process alone, by several processes of this machine, or by tasks on a
cluster. Local processes all do the same work on the same store, while this process watches. With a
cluster only this process uses the store: it takes trials, gets suggestions and writes results, so
workers need not see the store, and a search may be started on a cluster and continued without one.
Reports of a trial arrive as messages; this process decides whether to prune it, and its worker
learns of that at its next step.

On a cluster, a trial whose worker dies is started again. A trial that repeatedly kills its worker
(perhaps its settings need more memory than there is), or that finishes no step in time, has failed,
and the search continues without it.
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
from plackett.experiments.runners import SharedSource, share
from plackett.experiments.tuning.plan import REPORT_SHARES, SearchPlan, TrialPruned, build_ranker, evaluate_ranker
from plackett.experiments.tuning.study import TuningStudy, failure_reason
from plackett.models.fit_context import Progress, no_progress
from plackett.models.ranker import Ranker

_STUDY_SECONDS = 0.5  # between checks of what other processes have finished
_WORKER_SECONDS = 0.2  # between progress reports while local processes work
_MOST_FAILURES = 5
"""If so many trials fail and none succeeds, the search is aborted."""
RECIPE = -1
"""The number of the recipe's own settings among the trials."""


@dataclass(eq=False)
class SearchWorker:
    """Works on a search in this process."""

    study: TuningStudy
    source: DataSource
    trials: int
    threads: int | None
    progress: Progress
    ran: int = 0
    """Number of trials that were finished here."""

    def run(self) -> None:
        """Work until all trials are finished, here or elsewhere."""
        self.study.enqueue(self.trials)
        while True:
            self._evaluate_recipe()
            trial = self.study.take(self.trials)
            if trial is not None:
                self._run_trial(trial)
            elif is_finished(self.study, self.trials):
                self._report("")
                return
            else:
                self._report("waiting for another process")
                time.sleep(_STUDY_SECONDS)

    def _evaluate_recipe(self) -> None:
        """Evaluate the recipe's own settings, which tuning has to beat."""
        study = self.study
        study.store.release_dead()
        if study.recipe_value is not None or not study.claim(RECIPE):
            return
        try:
            if study.recipe_value is None:
                ranker = build_ranker(study.plan, {}, self.threads)
                self._report("the recipe's own settings")
                study.recipe_value = evaluate_ranker(ranker, study.plan, self.source)
        finally:
            study.release(RECIPE)

    def _run_trial(self, trial: Any) -> None:
        try:
            value, reason = self._evaluate(trial)
        except BaseException:
            self.study.release(trial.number)  # to be taken again
            raise
        self.study.finish(trial, value, reason)
        self.ran += 1
        if reason:
            abort_if_all_failed(self.study)

    def _evaluate(self, trial: Any) -> tuple[float | None, str]:
        """The value of a trial, None if it was pruned; or why its settings cannot be fitted."""
        study = self.study
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
            return None, ""
        except UsageError as error:  # settings that exclude each other, unbounded weights
            return None, str(error)
        return value, ""

    def _report(self, text: str) -> None:
        report_progress(self.study, self.trials, self.progress, text)


def count_unfinished(study: TuningStudy, trials: int) -> int:
    """How many of the first ``trials`` trials are not finished."""
    return sum(not trial.state.is_finished() for trial in study.trials()[:trials])


def is_finished(study: TuningStudy, trials: int) -> bool:
    """Whether the trials and the recipe's own settings are all evaluated."""
    return count_unfinished(study, trials) == 0 and study.recipe_value is not None


def abort_if_all_failed(study: TuningStudy) -> None:
    """Abort a search if none of its first trials could be fitted."""
    reasons = [failure_reason(trial) for trial in study.trials() if trial.state.is_finished()]
    if len(reasons) >= _MOST_FAILURES and all(reasons):
        raise UsageError(
            f"none of the first {len(reasons)} trials could be fitted; the last one failed with: {reasons[-1]}"
        )


def report_progress(study: TuningStudy, trials: int, progress: Progress, text: str) -> None:
    """Report how many trials are finished, with the best value so far."""
    values = [trial.value for trial in study.trials() if trial.value is not None and trial.state.name == "COMPLETE"]
    best = f"best {study.plan.judge} {max(values):.4f}" if values else ""
    done = trials - count_unfinished(study, trials)
    progress(" · ".join(part for part in (text, best) if part), done, trials)


def run_in_processes(
    study: TuningStudy,
    source: DataSource,
    *,
    trials: int,
    threads: int | None,
    jobs: int,
    scratch: Path,
    progress: Progress,
) -> None:
    """Work on a search with ``jobs`` processes until all trials are finished."""
    with LocalPool(jobs, threads=threads, folder=scratch) as pool:
        call = (study.plan, share(source, pool.folder), study.store.url, trials, threads)
        running = {pool.submit("trials of the search", run_process, *call) for _ in range(jobs)}
        while running:
            report_progress(study, trials, progress, f"{jobs} at a time")
            done, running = wait(running, timeout=_WORKER_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()


def run_process(plan: SearchPlan, shared: SharedSource, store: str, trials: int, threads: int | None) -> None:
    """Work on a search in a worker process."""
    source = shared.open()
    with TuningStudy(store, plan, plan.identity(source), count_reports(plan, source)) as study:
        SearchWorker(study, source, trials, threads, no_progress).run()


def count_reports(plan: SearchPlan, source: DataSource) -> int:
    """Number of reports of a trial over all splits."""
    return len(REPORT_SHARES) * plan.splits.count(source)


def run_on_cluster(study: TuningStudy, source: DataSource, *, trials: int, cluster: Cluster, progress: Progress) -> int:
    """Work on a search with tasks on a cluster; returns how many trials were finished here.

    ``cluster.step_seconds`` limits the time between two steps of a trial (trees, epochs).
    """
    study.enqueue(trials)
    if is_finished(study, trials):
        return 0  # no need for a cluster
    done = trials - count_unfinished(study, trials)
    progress(f"starting workers on {cluster.location}", done, trials)
    try:
        with TaskPool(cluster, run_task, (source, study.plan)) as pool:
            search = _ClusterSearch(study, trials, cluster, pool, progress)
            try:
                search.run()
            finally:
                search.release()
    except ClusterError as error:
        raise ClusterError(f"{error} Finished trials are kept: the same search continues from there.") from error
    return search.ran


def run_task(common: tuple[DataSource, SearchPlan], item: tuple[Ranker, list[float]], context: TaskContext) -> float:
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
    trials: int
    cluster: Cluster
    pool: TaskPool
    progress: Progress
    ran: int = 0
    """Number of trials that were finished here."""
    running: dict[int, Any] = field(default_factory=dict)
    """Optuna's trial for each task by its number; None for the recipe's own settings."""
    pruned: set[int] = field(default_factory=set)
    """Running tasks whose trials have been pruned; their workers do not know it yet."""

    def run(self) -> None:
        """Work until all trials are finished, here or elsewhere."""
        while True:
            submitted = self._fill_slots()
            if is_finished(self.study, self.trials):
                self._report()
                return
            if submitted or not self.running:
                self._report()
            event = self.pool.next_event()
            if event is not None and event.number in self.running:
                self._handle(event)

    def release(self) -> None:
        """Give back trials that are not finished, so that they can be taken again."""
        for number in self.running.keys() - self.pruned:
            self.study.release(number)

    def _fill_slots(self) -> bool:
        """Submit as many trials as there are slots; returns whether any was submitted."""
        submitted = False
        while len(self.running) < self.pool.slots and (self._submit_recipe() or self._submit_trial()):
            submitted = True
        return submitted

    def _submit_recipe(self) -> bool:
        """Submit the recipe's own settings, which tuning has to beat."""
        study = self.study
        study.store.release_dead()
        if study.recipe_value is not None or not study.claim(RECIPE):
            return False
        if study.recipe_value is not None:  # another process has just finished it
            study.release(RECIPE)
            return False
        self.running[RECIPE] = None
        self.pool.submit(RECIPE, (build_ranker(study.plan, {}, self.cluster.threads), []))
        return True

    def _submit_trial(self) -> bool:
        study = self.study
        trial = study.take(self.trials)
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
        report_progress(self.study, self.trials, self.progress, text)
