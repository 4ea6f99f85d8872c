r"""The trials of a comparison: each system on each part of the protocol.

One trial: learn, rank the test lists, measure.

How long a whole fit will take, judged by the beginnings of small ones.

A look at a fit begins it on some of the lists and ends it after a few steps. What steps cost is
counted in processor time, since other programs make the clock run on between them, and on one
thread: threads that wait for each other on a busy machine may do so at full speed. What several
threads win is seen by one look with all of them, for each kind of model,

.. math:: \text{speed-up} = \frac{\text{time of one thread}}
          {\max(\text{time of the calling thread}, \text{time of the process} / \text{threads})},

between 1 and their number. Of several steps the cheapest counts, one of the last that were seen:
solvers along a path of penalties get slower. A model that stops early is counted as if it did not,
so times are upper bounds in the number of steps.

Looks take four times as many documents each, while they are worth their cost, and the line through
the last two gives what grows with documents and what does not.

How long a comparison will take, said before it starts.

Where the store has trials of a system, their times count. Else the system is looked at for a moment
(:mod:`~plackett.experiments.plan`).

A comparison laid out before it is run: its trials, and how long they will take.

How long several comparisons take together; trials that they share count once.

Data without their features, for what is done after training: features are most of the memory.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import pairwise

import numpy as np

from plackett.base.errors import ConvergenceWarning, UsageError
from plackett.data.dataset import Dataset
from plackett.data.folds import Fold
from plackett.experiments.importance import feature_importance
from plackett.experiments.protocols import (
    DataSource,
    Folds,
    Holdout,
    Protocol,
    Seeds,
    Split,
    SplitData,
    Splits,
    as_source,
)
from plackett.experiments.protocols import protocol as as_protocol
from plackett.experiments.store import Identity, Outcome, RunStore
from plackett.experiments.store.store import Curves
from plackett.experiments.systems import System, as_systems, code_version
from plackett.metrics import metric, per_list
from plackett.models.ranker import Progress, Ranker, no_progress


@dataclass(frozen=True, eq=False)
class Trial:
    """One trial of one system."""

    system: System
    part: Split
    identity: Identity

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.system.name}, {self.part.name}"


def plan_trials(systems: Sequence[System], parts: Sequence[Split], *, select: str) -> list[Trial]:
    """All trials; those of one part come together, so that early results compare all systems."""
    return [Trial(s, part, _identity(s, part, select)) for part in parts for s in systems]


def _identity(system: System, part: Split, select: str) -> Identity:
    return Identity(
        data=part.data,
        system=system.name,
        settings=system.settings(part.seed),
        seed=part.seed,
        part=part.division,
        metric=select,
        code=code_version(),
        libraries=system.libraries(),
    )


def run_trial(
    ranker: Ranker,
    trial: SplitData,
    *,
    metrics: Sequence[str],
    select: str,
    progress: Progress = no_progress,
) -> Outcome:
    """Fit the ranker on the trial's training lists and measure it on its test lists.

    Parameters
    ----------
    ranker
        Not fitted; it is changed.
    trial
        The data.
    metrics
        What to measure on the test lists.
    select
        What the model is chosen by on the validation lists.
    progress
        Called after each step of the fit.
    """
    start = time.perf_counter()
    ranker.fit(trial.train, trial.validation, select, progress=progress)
    seconds = time.perf_counter() - start
    scores = ranker.predict(trial.test)
    return Outcome(
        per_list(scores, trial.test, metrics),
        scores,
        seconds,
        curves_of(ranker),
        feature_importance(ranker, trial.test),
    )


def curves_of(ranker: Ranker) -> Curves:
    """How metrics rose during training; empty for models without steps."""
    return {
        part: {name: [float(mean) for mean in means] for name, means in by_name.items()}
        for part, by_name in vars(ranker).get("curves_", {}).items()
    }


_FIRST, _FACTOR = 500, 4
"""Documents of the first look, and how many times more the next one has."""
_LEAST, _SECONDS, _LONGEST = 4, 0.02, 0.1
"""Steps to look at, for so many seconds at least; and seconds after which fewer are enough."""
_WORTH, _MOST = 0.002, 0.3
"""What looks beyond the first two may cost together: a share of the time foreseen, and seconds."""


_LITTLE = 0.5
"""Seconds in all of which it does not matter what threads win."""


class _Enough(Exception):  # noqa: N818 - not an error
    """Ends a fit that has been looked at for long enough."""


@dataclass(frozen=True)
class _Look:
    documents: int
    beginning: float
    """Seconds before the first step was done."""
    steps: float
    """Seconds of all steps, had they been made."""
    spent: float
    """Seconds of the look itself."""


class Probe:
    """Judges fits to one trial.

    Parameters
    ----------
    trial
        Its data; the first lists are looked at, which stand in the order of a hash.
    threads
        Of each fit; None: one for each core.
    documents
        Training documents of the trial, if the data only stand in for larger ones.
    """

    def __init__(
        self, trial: SplitData, *, threads: int | None, documents: int | None = None
    ) -> None:
        self._trial = trial
        self._threads = threads or os.cpu_count() or 1
        self._documents = documents or trial.train.n_docs
        self._processor, self._clock = 0.0, 0.0
        self._speed_ups: dict[type[Ranker], float] = {}
        """What all threads win, by kind of model."""

    @property
    def slowdown(self) -> float:
        """How many times longer looks took by the clock, since other programs run beside them."""
        return max(self._clock / self._processor, 1.0) if self._processor > 0 else 1.0

    def __call__(self, system: System, *, trials: int = 1) -> float:
        """Seconds of a whole fit, of which there will be so many."""
        looks: list[_Look] = []
        documents, seconds = _FIRST, 0.0
        while self._worthwhile(looks, seconds * trials):
            looks.append(self._look(system, documents, threads=1))
            seconds = _drawn_out(looks[-2:], self._documents)
            documents *= _FACTOR
        if self._threads == 1 or seconds * trials < _LITTLE:
            return seconds
        kind = type(system.ranker)
        if kind not in self._speed_ups:
            together = self._look(system, looks[-1].documents, threads=self._threads)
            found = looks[-1].steps / together.steps if together.steps > 0 else 1.0
            self._speed_ups[kind] = min(max(found, 1.0), self._threads)
        return seconds / self._speed_ups[kind]

    def _worthwhile(self, looks: list[_Look], foreseen: float) -> bool:
        if not looks:
            return True
        if looks[-1].documents >= self._trial.train.n_docs:
            return False
        # The first look may have waited for compilers, and says nothing of the next one's cost.
        spent = sum(look.spent for look in looks[1:])
        ahead = spent + _FACTOR * looks[-1].spent
        return len(looks) == 1 or ahead < min(_WORTH * foreseen, _MOST)

    def _look(self, system: System, documents: int, *, threads: int) -> _Look:
        ranker = system.build(seed=0, threads=threads)
        train = _some_lists(self._trial.train, documents)
        share = train.n_docs / self._trial.train.n_docs
        validation = _some_lists(self._trial.validation, share * self._trial.validation.n_docs)
        ticks: list[tuple[float, int, int]] = []
        start, clock = time.perf_counter(), _Clock(threads)

        def tick(_: str, done: int, steps: int) -> None:
            ticks.append((clock(), done, steps))
            seconds = ticks[-1][0] - ticks[0][0]
            if seconds > _LONGEST or (seconds > _SECONDS and len(ticks) > _LEAST):
                raise _Enough

        try:
            with warnings.catch_warnings():
                # A solver that is stopped at once has not converged.
                warnings.simplefilter("ignore", ConvergenceWarning)
                ranker.fit(train, validation, progress=tick)
        except _Enough:
            pass
        end = clock()
        self._processor += end
        self._clock += time.perf_counter() - start
        beginning = ticks[0][0] if ticks else end
        return _Look(train.n_docs, beginning, _all_steps(ticks, end), end)


class _Clock:
    """Processor time since it was made, as if the machine had nothing else to do."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._start = time.thread_time(), time.process_time()

    def __call__(self) -> float:
        own = time.thread_time() - self._start[0]
        return max(own, (time.process_time() - self._start[1]) / self._threads)


def _all_steps(ticks: list[tuple[float, int, int]], end: float) -> float:
    """Seconds from the first step to the last there may be; ticks: seconds, steps done, steps."""
    if len(ticks) < 2:
        return end - ticks[0][0] if ticks else 0.0
    paces = [(b[0] - a[0]) / max(b[1] - a[1], 1) for a, b in pairwise(ticks)]
    return min(paces[len(paces) // 2 :]) * (ticks[-1][2] - ticks[0][1])


def _drawn_out(looks: list[_Look], documents: int) -> float:
    """Seconds for all documents; no more than in proportion to the last look's."""
    last = looks[-1]
    more = documents - last.documents
    if len(looks) == 1:
        return last.steps * max(documents / last.documents, 1.0)
    before = looks[0]
    slope = (last.steps - before.steps) / (last.documents - before.documents)
    steps = last.steps + max(more, 0) * min(max(slope, 0.0), last.steps / last.documents)
    return steps + last.beginning * max(documents / last.documents, 1.0)


def _some_lists(data: Dataset, documents: float) -> Dataset:
    share = min(1.0, documents / data.n_docs)
    return data.lists(0, max(1, round(share * data.n_lists)))


@dataclass(frozen=True)
class Expected:
    """A time, and how far it can be trusted."""

    seconds: float
    """About, on a machine with nothing else to do."""
    slowdown: float
    """How many times longer it takes now, since other programs are running; 1 if not measured."""


def expected_time(
    jobs: Sequence[Trial],
    *,
    store: RunStore,
    trial: SplitData,
    threads: int | None,
    slots: int,
    documents: int | None = None,
) -> Expected:
    """How long the missing trials will take.

    Parameters
    ----------
    jobs
        All trials; those that the store has cost nothing.
    store
        Of finished trials.
    trial
        The data of one of them.
    threads
        Of each trial.
    slots
        Trials that run at the same time.
    documents
        Training documents of each, if the trial's data only stand in for larger ones.
    """
    known = store.finished(job.identity for job in jobs)
    probe = Probe(trial, threads=threads, documents=documents)
    total = 0.0
    for name in dict.fromkeys(job.system.name for job in jobs):
        own = [job for job in jobs if job.system.name == name]
        missing = [job for job in own if job.identity.digest not in known]
        times = [known[job.identity.digest] for job in own if job.identity.digest in known]
        if not missing:
            continue
        each = sum(times) / len(times) if times else probe(own[0].system, trials=len(missing))
        total += each * len(missing)
    return Expected(total / slots, probe.slowdown)


METRICS = ("ndcg@5", "ndcg@10", "err@10")
"""What is measured unless something else is asked for."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A comparison before it is run."""

    source: DataSource
    systems: tuple[System, ...]
    protocol: Protocol
    metrics: tuple[str, ...]
    select: str
    baseline: str
    jobs: tuple[Trial, ...]
    """Its trials."""

    @cached_property
    def trial(self) -> Callable[[Split], SplitData]:
        """Makes the data of a trial; those made last are kept, since systems share them."""
        return lru_cache(maxsize=1)(partial(self.protocol.trial, self.source))


@dataclass(frozen=True)
class Forecast:
    """What is about to be done."""

    trials: int
    finished: int
    """Trials that the store has already."""
    seconds: float
    """What the rest will take, about, on a machine with nothing else to do."""
    slowdown: float = 1.0
    """How many times longer it takes now, since other programs are running."""


def plan_comparison(
    data: Dataset | Fold | Sequence[Fold] | DataSource,
    models: Sequence[str] | Mapping[str, Ranker],
    *,
    protocol: str | Protocol = "holdout",
    metrics: Sequence[str] | str = METRICS,
    baseline: str | None = None,
    select: str = "ndcg@5",
    seed: int = 0,
) -> Plan:
    """Check what was asked for, and lay out the trials.

    Parameters are those of :func:`plackett.experiments.compare.compare`.
    """
    systems = as_systems(models)
    names = [system.name for system in systems]
    chosen = names[0] if baseline is None else baseline
    if chosen not in names:
        raise UsageError(f"the baseline {chosen!r} is not among the models {', '.join(names)}.")
    source, way = as_source(data), as_protocol(protocol, seed=seed)
    listed = metrics.split(",") if isinstance(metrics, str) else metrics
    spelt = tuple(dict.fromkeys(str(metric(each.strip())) for each in listed))
    by = ",".join(str(metric(each.strip())) for each in select.split(","))
    jobs = plan_trials(systems, way.plan(source), select=by)
    return Plan(source, systems, way, spelt, by, chosen, tuple(jobs))


def forecast(plan: Plan, *, store: RunStore, jobs: int = 1, threads: int | None = None) -> Forecast:
    """How many trials there are, how many are done, and how long the rest will take."""
    finished = store.finished(job.identity for job in plan.jobs)
    missing = [job for job in plan.jobs if job.identity.digest not in finished]
    if not missing:
        return Forecast(len(plan.jobs), len(plan.jobs), 0.0)
    expected = expected_time(
        plan.jobs,
        store=store,
        trial=plan.trial(missing[0].part),
        threads=threads_per_trial(jobs, threads),
        slots=jobs,
    )
    finished_jobs = len(plan.jobs) - len(missing)
    return Forecast(len(plan.jobs), finished_jobs, expected.seconds, expected.slowdown)


def threads_per_trial(jobs: int, threads: int | None) -> int | None:
    """Threads of each trial: several trials at a time share the cores instead of fighting."""
    if jobs < 1:
        raise UsageError(f"jobs must be at least 1, got {jobs}.")
    return 1 if threads is None and jobs > 1 else threads


def forecast_plans(
    plans: Iterable[Plan], *, store: RunStore, jobs: int = 1, threads: int | None = None
) -> Forecast:
    """How many trials there are, how many the store has, and seconds for the rest.

    Parameters
    ----------
    plans
        Comparisons that will be run one after the other on one store.
    store
        Of finished trials.
    jobs, threads
        Trials at the same time, and threads of each.
    """
    costs: dict[str, Expected] = {}
    seen: set[str] = set()
    finished, seconds, slow = 0, 0.0, 0.0
    for plan in plans:
        fresh = {j.identity.digest: j for j in plan.jobs if j.identity.digest not in seen}
        seen |= fresh.keys()
        known = store.finished(job.identity for job in fresh.values())
        finished += len(known)
        for digest, job in fresh.items():
            if digest not in known:
                each = trial_seconds(plan, job, store, threads_per_trial(jobs, threads), costs)
                seconds, slow = seconds + each.seconds, slow + each.seconds * each.slowdown
    return Forecast(len(seen), finished, seconds / jobs, slow / seconds if seconds > 0 else 1.0)


def trial_seconds(
    plan: Plan,
    job: Trial,
    store: RunStore,
    threads: int | None,
    costs: dict[str, Expected],
    scale: float = 1.0,
) -> Expected:
    """How long one trial takes that is missing.

    Parameters
    ----------
    plan, job
        The trial and the comparison it is of.
    store
        Of finished trials, whose times count.
    threads
        Of the trial.
    costs
        What is known already by data and settings; added to.
    scale
        How many times more documents there are than the plan's data have, which stand in for them.
    """
    key = f"{plan.source.name} {json.dumps(job.system.settings(0), sort_keys=True)}"
    if key not in costs:
        same = [other for other in plan.jobs if other.system is job.system]
        known = store.finished(other.identity for other in same)
        own = [other for other in same if other.identity.digest in known]
        trial = plan.protocol.trial(plan.source, plan.jobs[0].part)
        costs[key] = expected_time(
            [*own, job],
            store=store,
            trial=trial,
            threads=threads,
            slots=1,
            documents=round(scale * trial.train.n_docs),
        )
    return costs[key]


def drop_features(source: DataSource, protocol: Protocol) -> DataSource:
    """The same lists in the same order and division, with no features to be copied.

    Given back as it is where the division needs features: protocols of other kinds, which may
    change lists, and folds that are pooled, whose lists are put in order by their contents.
    """
    pools = isinstance(protocol, Splits) or (isinstance(protocol, Folds) and protocol.count)
    if not isinstance(protocol, (Folds, Splits, Seeds, Holdout)) or (source.folds and pools):
        return source
    whole = None if source.whole is None else _bare(source.whole)
    return DataSource(source.name, whole, tuple(_bare_fold(fold) for fold in source.folds))


def _bare_fold(fold: Fold) -> Fold:
    validation = None if fold.validation is None else _bare(fold.validation)
    return Fold(fold.name, _bare(fold.train), validation, _bare(fold.test))


def _bare(data: Dataset) -> Dataset:
    nothing = np.empty((data.n_docs, 0), dtype=np.float32)
    return replace(data, features=nothing, feature_names=None)
