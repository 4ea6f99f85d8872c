"""The work on a search: take a trial, try it, write it down, until all are finished.

Trials of a search in several processes, each with its own share of the cores.

Every process does the same work on the same store; this one watches. Data are shared through
memory-mapped files (:mod:`plackett.experiments.runners`).

A process that works on a search beside others.

It ends when its input ends, also in the midst of a trial: the process that started it is gone
then. ``python -m plackett.experiments.tuning.trials`` is started by
:mod:`plackett.experiments.tuning.trials`, not by people.

Trials of a search as Ray tasks, on this machine or on many.

The study stays with this process, which takes trials, has settings suggested and writes down what
comes of them, as one that works alone does: workers need not see its store, and a search may be
begun on a cluster and continued without one, or the other way round. What a trial says at its looks
comes here as a message, and here it is decided whether the trial is given up; its worker goes on in
the meantime, and learns of it at its next step.

A trial whose worker dies is begun again, elsewhere if need be. One that costs the life of its
worker again and again (perhaps its settings need more memory than there is), or that finishes no
step in time, has failed, and the search goes on without it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from plackett.base.errors import ClusterError, PlackettError, UsageError
from plackett.distributed import Cluster, TaskContext, TaskEvent, TaskPool
from plackett.experiments.protocols import DataSource
from plackett.experiments.runners import (
    KINDS,
    SHOWN,
    THREADS,
    Failure,
    SharedSource,
    receive,
    scratch_in,
    send,
    share,
)
from plackett.experiments.runners import receive as read_message
from plackett.experiments.tuning.plan import SearchPlan
from plackett.experiments.tuning.study import Study, need_optuna, reason_of
from plackett.experiments.tuning.trial import Pruned, configured, try_settings
from plackett.models.ranker import Progress, Ranker

_POLL_STUDY = 0.5
"""Seconds between looks at what other processes have finished."""
_WORKER_PROGRAM = "from plackett.experiments.tuning.trials import worker_main; worker_main()"
_HOPELESS = 5
"""Trials that fail before any succeeds, and the search is given up."""
OWN = -1
"""The number under which the recipe's own settings are tried."""


@dataclass(eq=False)
class Work:
    """The part of one process in a search."""

    study: Study
    source: DataSource
    trials: int
    threads: int | None
    progress: Progress
    ran: int = 0
    """Trials that were brought to their end here."""

    def finish(self) -> None:
        """Work until all trials are finished, here or elsewhere."""
        self.study.want(self.trials)
        while True:
            self._try_own()
            trial = self.study.take(self.trials)
            if trial is not None:
                self._try(trial)
            elif left(self.study, self.trials) == 0 and self.study.own is not None:
                self._tell("")
                return
            else:
                self._tell("waiting for another process")
                time.sleep(_POLL_STUDY)

    def _try_own(self) -> None:
        """The recipe as it is: what tuning has to beat."""
        self.study.store.release_dead()
        if self.study.own is not None or not self.study.claim(OWN):
            return
        try:
            if self.study.own is None:
                plan = self.study.plan
                ranker = configured(plan, {}, self.threads)
                tell = self._told("the recipe's own settings")
                self.study.own = try_settings(ranker, plan, self.source, progress=tell)
        finally:
            self.study.release(OWN)

    def _try(self, trial: Any) -> None:
        try:
            value, reason = self._value(trial)
        except BaseException:
            self.study.release(trial.number)  # to be taken up again
            raise
        self.study.finish(trial, value, reason)
        self.ran += 1
        if reason:
            check_hope(self.study)

    def _value(self, trial: Any) -> tuple[float | None, str]:
        """What a trial is worth, None where it was pruned; or why its settings cannot be fitted."""
        study = self.study
        try:
            ranker = configured(study.plan, study.suggest(trial), self.threads)
            value = try_settings(
                ranker,
                study.plan,
                self.source,
                known=study.known(trial),
                keep=partial(study.keep, trial),
                report=partial(study.look, trial),
                progress=self._told(f"trial {trial.number + 1}"),
            )
        except Pruned:
            return None, ""
        except UsageError as error:  # weights without bounds, settings that exclude each other
            return None, str(error)
        return value, ""

    def _told(self, what: str) -> Progress:
        """Tell of the trial at work, not of each of its steps: those come by the hundred."""
        self._tell(what)
        return lambda *_: None

    def _tell(self, text: str) -> None:
        tell_best(self.study, self.trials, self.progress, text)


def left(study: Study, trials: int) -> int:
    """How many of so many trials are not finished."""
    return sum(not each.state.is_finished() for each in study.trials()[:trials])


def check_hope(study: Study) -> None:
    """Give a search up in which nothing can be fitted."""
    reasons = [reason_of(each) for each in study.trials() if each.state.is_finished()]
    if len(reasons) >= _HOPELESS and all(reasons):
        raise UsageError(
            f"none of the first {len(reasons)} trials could be fitted; the last said: {reasons[-1]}"
        )


def tell_best(
    study: Study, trials: int, progress: Callable[[str, int, int], None], text: str
) -> None:
    """Say how far a search is, with the best value so far."""
    values = [each.value for each in study.trials() if each.value is not None and _counts(each)]
    best = max(values, default=None)
    found = "" if best is None else f"best {study.plan.judge} {best:.4f}"
    done = trials - left(study, trials)
    progress(" · ".join(part for part in (text, found) if part), done, trials)


def _counts(frozen: Any) -> bool:
    return str(frozen.state.name) == "COMPLETE"


_POLL_WORKERS = 0.2


@dataclass(frozen=True)
class Order:
    """What a worker is told."""

    plan: SearchPlan
    source: SharedSource
    place: str
    trials: int
    threads: int | None


def work_in_parallel(
    study: Study,
    source: DataSource,
    *,
    trials: int,
    threads: int | None,
    jobs: int,
    scratch: Path,
    progress: Progress,
) -> None:
    """Start so many workers and wait until all trials are finished."""
    folder = scratch_in(scratch)
    order = Order(study.plan, share(source, folder), study.store.url, trials, threads)
    workers = []
    try:
        workers = [_Worker(order) for _ in range(jobs)]
        while any(worker.is_at_work() for worker in workers):
            tell_best(study, trials, progress, f"{jobs} at a time")
            time.sleep(_POLL_WORKERS)
    finally:
        for worker in workers:
            worker.close()
        shutil.rmtree(folder, ignore_errors=True)


class _Worker:
    def __init__(self, order: Order) -> None:
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._answer: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WORKER_PROGRAM],
            stdin=subprocess.PIPE,
            stdout=self._answer,
            stderr=self._said,
            env=os.environ | dict.fromkeys(THREADS, str(order.threads or os.cpu_count() or 1)),
            # Ctrl-C is for the process that the user started; it stops the workers.
            start_new_session=True,
        )
        send(self._process.stdin, order)  # type: ignore[arg-type] # a pipe is there

    def is_at_work(self) -> bool:
        """Whether it goes on; a failure is raised here."""
        code = self._process.poll()
        if code is None:
            return True
        self._answer.seek(0)
        try:
            answer = read_message(self._answer)  # type: ignore[arg-type] # a file of bytes
        except EOFError:
            answer = None
        if isinstance(answer, Failure):
            kind = KINDS.get(answer.kind)
            raise RuntimeError(answer.trace) if kind is None else kind(answer.text)
        if code != 0:
            self._said.seek(0)
            said = self._said.read().decode(errors="replace").strip()[-SHOWN:]
            why = "; perhaps memory ran out: use fewer jobs" if code == -9 else ""
            raise PlackettError(
                f"a process that ran trials ended with code {code}{why}. Finished trials are kept."
                f"{' It said: ' + said if said else ''}"
            )
        return False

    def close(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._answer, self._said):
            if pipe is not None:
                pipe.close()


def worker_main() -> None:
    """Work until all trials are finished."""
    # Libraries that print must not print into the answer.
    answer = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    warnings.simplefilter("ignore")
    order = receive(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _work(order)
    except Exception as error:
        send(answer, Failure(type(error).__name__, str(error), traceback.format_exc()))
        sys.exit(1)


def _work(order: Order) -> None:
    need_optuna()
    from plackett.experiments.tuning.study import Study
    from plackett.experiments.tuning.trial import SHARES

    source = order.source.open()
    plan = order.plan
    n_looks = len(SHARES) * plan.divisions.count(source)
    with Study(order.place, plan, plan.identity(source), n_looks) as study:
        Work(study, source, order.trials, order.threads, lambda *_: None).finish()


def _end_with_parent() -> None:
    # Not through sys.stdin, whose lock this thread would hold when the interpreter ends.
    while os.read(0, 1):
        continue
    os._exit(0)


def work_on_cluster(
    study: Study, source: DataSource, *, trials: int, cluster: Cluster, progress: Progress
) -> int:
    """Work until all trials are finished, here or elsewhere; how many were brought to an end here.

    ``cluster.step_seconds`` limits the time between two steps of a trial (trees, epochs).
    """
    study.want(trials)
    if left(study, trials) == 0 and study.own is not None:
        return 0  # without asking for machines
    progress(f"starting workers on {cluster.location}", trials - left(study, trials), trials)
    try:
        with TaskPool(cluster, work_on_settings, (source, study.plan)) as pool:
            work = _Work(study, trials, cluster, pool, progress)
            try:
                work.finish()
            finally:
                work.release()
    except ClusterError as error:
        raise ClusterError(
            f"{error} Finished trials are kept: the same search goes on from there."
        ) from error
    return work.ran


def work_on_settings(
    common: tuple[DataSource, SearchPlan], own: tuple[Ranker, list[float]], context: TaskContext
) -> float:
    """What a task does: one trial, but for the divisions that were finished before."""
    (source, plan), (ranker, known) = common, own
    return try_settings(
        ranker,
        plan,
        source,
        known=known,
        keep=lambda division, value: context.send(("keep", division, value)),
        report=lambda place, value, more: context.send(("look", place, value, more)),
        progress=context,
    )


@dataclass(eq=False)
class _Work:
    study: Study
    trials: int
    cluster: Cluster
    pool: TaskPool
    progress: Progress
    ran: int = 0
    """Trials that were brought to their end here."""
    running: dict[int, Any] = field(default_factory=dict)
    """Optuna's trial for each number that a worker is at; None for the recipe's own settings."""
    given_up: set[int] = field(default_factory=set)
    """Those of them that have been pruned; their workers do not know it yet."""

    def finish(self) -> None:
        """Keep the workers busy until nothing is left."""
        while True:
            changed = self._fill()
            if left(self.study, self.trials) == 0 and self.study.own is not None:
                self._tell()
                return
            if changed or not self.running:
                self._tell()
            event = self.pool.next_event()
            if event is not None and event.number in self.running:
                self._hear(event)

    def release(self) -> None:
        """Give back what is not finished, to be taken up again."""
        for number in self.running.keys() - self.given_up:
            self.study.release(number)

    def _fill(self) -> bool:
        """Send as many trials as there is room for; whether any was sent."""
        sent = False
        while len(self.running) < self.pool.slots and (self._send_own() or self._send_trial()):
            sent = True
        return sent

    def _send_own(self) -> bool:
        """The recipe as it is: what tuning has to beat."""
        self.study.store.release_dead()
        if self.study.own is not None or not self.study.claim(OWN):
            return False
        if self.study.own is not None:  # another process has just been quicker
            self.study.release(OWN)
            return False
        self.running[OWN] = None
        self.pool.submit(OWN, (configured(self.study.plan, {}, self.cluster.threads), []))
        return True

    def _send_trial(self) -> bool:
        study = self.study
        trial = study.take(self.trials)
        if trial is None:
            return False
        self.running[trial.number] = trial
        try:
            ranker = configured(study.plan, study.suggest(trial), self.cluster.threads)
        except UsageError as error:
            self._fail(trial.number, error)
        else:
            self.pool.submit(trial.number, (ranker, study.known(trial)))
        return True

    def _hear(self, event: TaskEvent) -> None:
        number, kind, content = event
        if number in self.given_up:
            if kind != "message":
                self._drop(number)
        elif kind == "message":
            if number != OWN:
                self._note(number, *content)
        elif kind == "failed":
            self._fail(number, content)
        elif number == OWN:
            self.study.own = content
            self.study.release(self._drop(OWN))
        else:
            self._end(number, content)
            self._drop(number)

    def _note(self, number: int, what: str, *values: Any) -> None:
        """A division is finished, or a trial is looked at."""
        trial = self.running[number]
        if what == "keep":
            self.study.keep(trial, *values)
            return
        try:
            self.study.look(trial, *values)
        except Pruned:
            self._end(number, None)
            self.given_up.add(number)
            self.pool.cancel(number)

    def _fail(self, number: int, error: Exception) -> None:
        """Settings that cannot be fitted; whatever else goes wrong is raised."""
        if number == OWN and isinstance(error, ClusterError):
            raise ClusterError(f"the recipe's own settings: {error}.") from error
        if number == OWN or not isinstance(error, (UsageError, ClusterError)):
            raise error
        self._end(number, None, str(error))
        self._drop(number)
        check_hope(self.study)

    def _end(self, number: int, value: float | None, reason: str = "") -> None:
        self.study.finish(self.running[number], value, reason)
        self.ran += 1
        self._tell()

    def _drop(self, number: int) -> int:
        del self.running[number]
        self.given_up.discard(number)
        return number

    def _tell(self) -> None:
        where = f"{len(self.running)} at a time on {self.cluster.location}"
        text = where if self.running else "waiting for another process"
        tell_best(self.study, self.trials, self.progress, text)
