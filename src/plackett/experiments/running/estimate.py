"""How long a comparison will take, said before it starts.

Where the store has trials of a system, their times count. Else the system is fitted for a moment to
a few and to some more of the first trial's lists, and the time of a step is drawn out to all
documents and steps. Models that stop early need less.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from plackett.data.dataset import Dataset
from plackett.experiments.protocols import Trial
from plackett.experiments.running.jobs import Job
from plackett.experiments.store import RunStore
from plackett.models.ranker import Ranker

_BUDGET = 0.06
"""Seconds of training to look at."""
_DOCUMENTS = (1_000, 5_000)
"""Of the two fits: a part of the time of a step grows with documents, and a part does not."""


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
            each = _probe(own[0].system.configured(seed=0, threads=threads), trial)
        total += each * len(missing)
    return total / slots


def _probe(ranker: Ranker, trial: Trial) -> float:
    """Seconds of a whole fit, on a straight line through the times of two small ones."""
    few, some = (_some_lists(trial.train, count) for count in _DOCUMENTS)
    watched = _some_lists(trial.validation, _DOCUMENTS[-1])
    quick = _judged(ranker.clone(), few, watched)
    if some.n_docs == few.n_docs:
        return quick
    slow = _judged(ranker.clone(), some, watched)
    slope = max(slow - quick, 0.0) / (some.n_docs - few.n_docs)
    return slow + slope * (trial.train.n_docs - some.n_docs)


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
        (first, before, _), (last, after, steps) = ticks[0], ticks[-1]
        # The first step waits for compilers and is left out.
        return (last - first) / max(after - before, 1) * steps
    return time.perf_counter() - (ticks[0][0] if len(ticks) > 1 else start)


def _some_lists(data: Dataset, documents: int) -> Dataset:
    share = min(1.0, documents / data.n_docs)
    return data.lists(0, max(1, round(share * data.n_lists)))
