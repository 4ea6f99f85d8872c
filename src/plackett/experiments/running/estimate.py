"""How long a comparison will take, said before it starts.

Where the store has trials of a system, their times count. Else the system is fitted for a moment to
some of the first trial's lists, and the time of a step is drawn out to all documents and steps. The
part of a step that does not grow with documents is that of the kind of model: it is found once for
each kind, by a fit to fewer lists. Models that stop early need less.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from plackett.data.dataset import Dataset
from plackett.experiments.protocols import Trial
from plackett.experiments.running.jobs import Job
from plackett.experiments.store import RunStore
from plackett.models.ranker import Ranker

_BUDGET = 0.04
"""Seconds of training to look at."""
_DOCUMENTS = (500, 2_500)
"""Of two small fits: a part of the time of a step grows with documents, and a part does not."""


class _Enough(Exception):  # noqa: N818 - not an error
    """Ends a fit that has been looked at for long enough."""


def expected_seconds(
    jobs: Sequence[Job], *, store: RunStore, trial: Trial, threads: int | None, slots: int
) -> float:
    """Seconds that the missing trials will take, about.

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
    """
    known = store.finished(job.identity for job in jobs)
    probe = _Probe(trial)
    total = 0.0
    for name in dict.fromkeys(job.system.name for job in jobs):
        own = [job for job in jobs if job.system.name == name]
        missing = [job for job in own if job.identity.digest not in known]
        times = [known[job.identity.digest] for job in own if job.identity.digest in known]
        if not missing:
            continue
        if times:
            each = sum(times) / len(times)
        else:
            each = probe(own[0].system.configured(seed=0, threads=threads))
        total += each * len(missing)
    return total / slots


class _Probe:
    """Judges whole fits by the beginnings of small ones."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._few, self._some = (
            (_some_lists(trial.train, count), _some_lists(trial.validation, _beside(trial, count)))
            for count in _DOCUMENTS
        )
        self._fixed: dict[type[Ranker], float] = {}
        """By kind: the share of a small fit's time that is there however small it is."""

    def __call__(self, ranker: Ranker) -> float:
        """Seconds of a whole fit."""
        few, some = self._few[0].n_docs, self._some[0].n_docs
        slow = _judged(ranker.clone(), *self._some)
        growth = self._trial.train.n_docs / some - 1.0
        if few == some or growth <= 0:
            return slow
        kind = type(ranker)
        if kind not in self._fixed:
            quick = _judged(ranker.clone(), *self._few)
            fixed = (quick * some - slow * few) / (some - few)
            self._fixed[kind] = min(max(fixed / slow, 0.0), 1.0) if slow > 0 else 0.0
        return slow * (1.0 + growth * (1.0 - self._fixed[kind]))


def _beside(trial: Trial, documents: int) -> int:
    """Validation documents in the proportion of the whole trial."""
    return max(1, round(documents * trial.validation.n_docs / trial.train.n_docs))


def _judged(ranker: Ranker, train: Dataset, validation: Dataset) -> float:
    """Seconds of a fit, judged by its beginning."""
    ticks: list[tuple[float, int, int]] = []

    def tick(_: str, done: int, steps: int) -> None:
        ticks.append((time.perf_counter(), done, steps))
        if ticks[-1][0] - ticks[0][0] > _BUDGET:
            raise _Enough

    start = time.perf_counter()
    try:
        ranker.fit(train, validation, progress=tick)
    except _Enough:
        # The first step waits for compilers and is left out. The median, because a machine that is
        # busy with other things makes single steps last long.
        paces = [(b[0] - a[0]) / max(b[1] - a[1], 1) for a, b in pairwise(ticks)]
        return median(paces) * ticks[-1][2]
    return time.perf_counter() - (ticks[0][0] if len(ticks) > 1 else start)


def _some_lists(data: Dataset, documents: int) -> Dataset:
    share = min(1.0, documents / data.n_docs)
    return data.lists(0, max(1, round(share * data.n_lists)))
