r"""How long a whole fit will take, judged by the beginnings of small ones.

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
"""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import dataclass
from itertools import pairwise

from plackett.base.errors import ConvergenceWarning
from plackett.data.dataset import Dataset
from plackett.experiments.protocols import Trial
from plackett.experiments.running.system import System
from plackett.models.ranker import Ranker

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

    def __init__(self, trial: Trial, *, threads: int | None, documents: int | None = None) -> None:
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
        ranker = system.configured(seed=0, threads=threads)
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
