"""Trials of a search as Ray tasks, on this machine or on many.

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

from dataclasses import dataclass, field
from typing import Any

from plackett.base.errors import ClusterError, UsageError
from plackett.distributed.cluster import Cluster
from plackett.distributed.task_pool import Errands, News, Sign
from plackett.experiments.protocols import Source
from plackett.experiments.tuning.plan import Plan
from plackett.experiments.tuning.study import Study
from plackett.experiments.tuning.trying import Pruned, configured, try_settings
from plackett.experiments.tuning.working import OWN, check_hope, left, tell_best
from plackett.models.ranker import Progress, Ranker


def work_on_cluster(
    study: Study, source: Source, *, trials: int, cluster: Cluster, progress: Progress
) -> int:
    """Work until all trials are finished, here or elsewhere; how many were brought to an end here.

    ``cluster.step_seconds`` limits the time between two steps of a trial (trees, epochs).
    """
    study.want(trials)
    if left(study, trials) == 0 and study.own is not None:
        return 0  # without asking for machines
    progress(f"starting workers on {cluster.place}", trials - left(study, trials), trials)
    try:
        with Errands(cluster, work_on_settings, (source, study.plan)) as errands:
            work = _Work(study, trials, cluster, errands, progress)
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
    common: tuple[Source, Plan], own: tuple[Ranker, list[float]], sign: Sign
) -> float:
    """What a task does: one trial, but for the divisions that were finished before."""
    (source, plan), (ranker, known) = common, own
    return try_settings(
        ranker,
        plan,
        source,
        known=known,
        keep=lambda division, value: sign.tell(("keep", division, value)),
        report=lambda place, value, more: sign.tell(("look", place, value, more)),
        progress=sign,
    )


@dataclass(eq=False)
class _Work:
    study: Study
    trials: int
    cluster: Cluster
    errands: Errands
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
            news = self.errands.receive()
            if news is not None and news.number in self.running:
                self._hear(news)

    def release(self) -> None:
        """Give back what is not finished, to be taken up again."""
        for number in self.running.keys() - self.given_up:
            self.study.release(number)

    def _fill(self) -> bool:
        """Send as many trials as there is room for; whether any was sent."""
        sent = False
        while len(self.running) < self.errands.slots and (self._send_own() or self._send_trial()):
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
        self.errands.send(OWN, (configured(self.study.plan, {}, self.cluster.threads), []))
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
            self.errands.send(trial.number, (ranker, study.known(trial)))
        return True

    def _hear(self, news: News) -> None:
        number, kind, content = news
        if number in self.given_up:
            if kind != "told":
                self._drop(number)
        elif kind == "told":
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
            self.errands.stop(number)

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
        where = f"{len(self.running)} at a time on {self.cluster.place}"
        text = where if self.running else "waiting for another process"
        tell_best(self.study, self.trials, self.progress, text)
