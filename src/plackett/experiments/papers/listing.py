"""What there is to reproduce of a paper, on what data, and how long it takes, before any is read.

The time of a trial is measured on a few synthetic lists of the kind of each set, and drawn out to
the documents that the set has: right by a factor of two or three, and less where models stop early.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from plackett.experiments.forecasting import one_trial
from plackett.experiments.papers.exhibit import Exhibit, Paper
from plackett.experiments.papers.sets import SETS, KnownSet
from plackett.experiments.papers.shelf import Shelf
from plackett.experiments.papers.standing import stand_in
from plackett.experiments.planning import threads_of
from plackett.experiments.protocols import Source
from plackett.experiments.running import Expected
from plackett.experiments.running.schedule import Progress
from plackett.experiments.store import RunStore

State = Literal["found", "stand-in", "missing"]


@dataclass(frozen=True)
class Listed:
    """An exhibit as a list shows it."""

    exhibit: Exhibit
    sets: dict[str, State]
    """Its data, and whether they are there."""
    trials: int
    """On all its sets, there or not."""
    seconds: float
    """About, on this machine with nothing else to do."""


def list_exhibits(
    shelf: Shelf,
    exhibits: Sequence[Exhibit],
    *,
    jobs: int = 1,
    threads: int | None = None,
    progress: Progress = lambda *_: None,
) -> list[Listed]:
    """Tables and figures, their data and their cost; nothing of the user's data is read.

    Parameters
    ----------
    shelf
        What data are there, and the budget.
    exhibits
        Which ones.
    jobs, threads
        Trials at the same time, and threads of each.
    progress
        Called before each exhibit is looked at.
    """
    costs = _Costs(shelf, jobs, threads)
    listed = []
    with tempfile.TemporaryDirectory() as folder, RunStore(Path(folder) / "runs.db") as store:
        for i, exhibit in enumerate(exhibits):
            progress(f"judging the time of {exhibit.name}", i, len(exhibits))
            trials, seconds = costs.of(exhibit, store)
            states = {name: _state(shelf, name) for name in exhibit.sets}
            listed.append(Listed(exhibit, states, trials, seconds))
    return listed


def _state(shelf: Shelf, name: str) -> State:
    if name in shelf.places:
        return "found"
    return "stand-in" if shelf.budget.quick else "missing"


class _Costs:
    """Seconds of trials, measured once per set and system."""

    def __init__(self, shelf: Shelf, jobs: int, threads: int | None) -> None:
        self._shelf, self._jobs, self._threads = shelf, jobs, threads_of(jobs, threads)
        self._kinds: dict[str, tuple[KnownSet, Source]] = {}
        """By what stands in: the first set of the kind, on which times are measured."""
        self._times: dict[str, Expected] = {}

    def of(self, exhibit: Exhibit, store: RunStore) -> tuple[int, float]:
        """Trials and seconds of one exhibit."""
        trials, seconds = 0, 0.0
        for name in exhibit.sets:
            known, source = self._stand_in(name)
            quick = self._shelf.budget.quick
            scale = 1.0 if quick else known.documents / source.pooled.n_docs
            more = 1.0 if quick else SETS[name].documents / known.documents
            studies = exhibit.studies(name, self._shelf.budget)
            for plan in (study.plan(source) for study in studies):
                for job in plan.jobs:
                    each = one_trial(plan, job, store, self._threads, self._times, scale=scale)
                    trials, seconds = trials + 1, seconds + more * each.seconds
        return trials, seconds / self._jobs

    def _stand_in(self, name: str) -> tuple[KnownSet, Source]:
        known = SETS[name]
        if known.stand_in not in self._kinds:
            paper: Paper = self._shelf.paper
            found = stand_in(known, paper.view)
            source = found if paper.prepare is None else paper.prepare(found)
            self._kinds[known.stand_in] = known, source
        return self._kinds[known.stand_in]
