"""Reproduce tables and figures of a paper: plan, say how long it takes, run, show.

The data of a reproduction: what was found, or what stands in for it.

What there is to reproduce of a paper, on what data, and how long it takes, before any is read.

The time of a trial is measured on a few synthetic lists of the kind of each set, and drawn out to
the documents that the set has: right by a factor of two or three, and less where models stop early.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from plackett.base.errors import ConvergenceWarning, DataError
from plackett.data.dataset import Dataset
from plackett.data.folds import Fold
from plackett.distributed import Cluster
from plackett.experiments.compare import run_trials
from plackett.experiments.forecast import Forecast, estimate_seconds, forecast
from plackett.experiments.papers.datasets import (
    DATASETS,
    Place,
    compared_with_published,
    find_datasets,
    load,
    reduced,
    stand_in,
)
from plackett.experiments.papers.datasets import Progress as ReadProgress
from plackett.experiments.papers.paper import (
    Budget,
    Done,
    Findings,
    ItemContent,
    Paper,
    PaperItem,
    Study,
)
from plackett.experiments.plan import Plan, threads_per_trial
from plackett.experiments.protocols import DataSource
from plackett.experiments.store import RunStore
from plackett.models.ranker import Progress

Reading = Callable[[str], AbstractContextManager[ReadProgress]]
"""Given what is being read, a context that takes bytes done and bytes in all."""


@dataclass(eq=False)
class PaperDatasets:
    """Data sets by name, each read once and prepared as the paper does.

    Parameters
    ----------
    paper, budget
        Whose data, and how much of them.
    folder
        Where the user's data sets are, if anywhere.
    reading
        Makes a bar for each set that is read.
    """

    paper: Paper
    budget: Budget
    folder: Path | None
    reading: Reading
    places: dict[str, Place] = field(init=False)
    notes: list[str] = field(default_factory=list, init=False)
    """What the data are, a sentence per set."""
    _sources: dict[str, DataSource] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.places = {} if self.folder is None else find_datasets(self.folder)

    def has(self, name: str) -> bool:
        """Whether there is something to run on."""
        return name in self.places or self.budget.quick

    def source(self, name: str) -> DataSource:
        """The data, prepared."""
        if name not in self._sources:
            found = self._found(name) if name in self.places else self._stand_in(name)
            prepare = self.paper.prepare
            self._sources[name] = found if prepare is None else prepare(found)
        return self._sources[name]

    def _found(self, name: str) -> DataSource:
        place = self.places[name]
        with self.reading(f"reading {name}") as progress:
            source = load(place, self.paper.view, progress)
        self.notes.append(compared_with_published(place.known, source))
        return reduced(source, place.known) if self.budget.quick else source

    def _stand_in(self, name: str) -> DataSource:
        if not self.budget.quick:
            raise DataError(f"{name} was not found: {DATASETS[name].where}.", path=str(self.folder))
        source = stand_in(DATASETS[name], self.paper.view)
        self.notes.append(
            f"{name} is not here: {DATASETS[name].quick_lists} synthetic lists of the kind "
            f"{DATASETS[name].stand_in!r} stand in for it, and the paper's numbers do not apply."
        )
        return source

    def lacking(self, name: str) -> str:
        """What to look for, of a set that is not there."""
        return f"{name} ({DATASETS[name].where})"


@dataclass(frozen=True, eq=False)
class Item:
    """An exhibit with the studies it rests on, by data set."""

    exhibit: PaperItem
    studies: dict[str, list[tuple[Study, Plan]]]


@dataclass(frozen=True, eq=False)
class ReproductionPlan:
    """What is going to be reproduced."""

    paper: Paper
    items: tuple[Item, ...]
    missing: tuple[str, ...]
    """Data that exhibits would need and that are not there, in words."""
    shelf: PaperDatasets

    def plans(self) -> Iterator[Plan]:
        """All comparisons; some may share trials."""
        for item in self.items:
            for studies in item.studies.values():
                yield from (plan for _, plan in studies)


@dataclass(frozen=True, eq=False)
class Reproduction:
    """Exhibits of a paper, made anew."""

    agenda: ReproductionPlan
    shown: tuple[tuple[PaperItem, ItemContent], ...]
    ran: int
    """Trials that were run now; the others were in the store."""


def plan_reproduction(shelf: PaperDatasets, exhibits: Sequence[PaperItem]) -> ReproductionPlan:
    """Lay out the trials of exhibits on the data that are there.

    An exhibit on several sets is made on those that were found; one that has none is left out, and
    what is missing is said. If nothing can be made at all, that is an error.
    """
    items: list[Item] = []
    missing: list[str] = []
    for exhibit in exhibits:
        there = [name for name in exhibit.sets if shelf.has(name)]
        absent = [name for name in exhibit.sets if not shelf.has(name)]
        if absent:
            what = "; ".join(shelf.lacking(name) for name in absent)
            left = "left out" if not there else f"on {', '.join(there)} only"
            missing.append(f"{exhibit.name} {left}: missing {what}")
        if there or not exhibit.sets:
            items.append(_item(shelf, exhibit, there))
    if not items:
        looked = f"in {shelf.folder}" if shelf.folder else "(no --data DIR was given)"
        raise DataError(
            f"none of the data that paper {shelf.paper.letter} needs here are there {looked}. "
            f"{'. '.join(missing)}. Give their folder with --data DIR, or use --quick for "
            "synthetic data in their place."
        )
    return ReproductionPlan(shelf.paper, tuple(items), tuple(missing), shelf)


def _item(shelf: PaperDatasets, exhibit: PaperItem, sets: Sequence[str]) -> Item:
    return Item(
        exhibit,
        {
            name: [
                (study, study.plan(shelf.source(name)))
                for study in exhibit.studies(name, shelf.budget)
            ]
            for name in sets
        },
    )


def forecast_reproduction(
    agenda: ReproductionPlan, *, store: RunStore, jobs: int = 1, threads: int | None = None
) -> Forecast:
    """Trials, those that the store has, and seconds for the rest; shared trials count once."""
    return forecast(*agenda.plans(), store=store, jobs=jobs, threads=threads)


def run_reproduction(
    agenda: ReproductionPlan,
    *,
    store: RunStore,
    scratch: Path,
    jobs: int = 1,
    threads: int | None = None,
    cluster: Cluster | str | None = None,
    progress: Progress = lambda *_: None,
) -> Reproduction:
    """Run the trials that the store has not, and show every exhibit.

    Parameters
    ----------
    agenda
        What is to be done.
    store
        Of finished trials: each is durable as soon as it is finished.
    scratch
        A folder in which the data may be written for several processes to see.
    jobs, threads
        Trials at the same time, and threads of each.
    cluster
        Run the trials as tasks on Ray.
    progress
        Called with what is being done, trials done and trials in all.
    """
    total = len({job.identity.digest for plan in agenda.plans() for job in plan.jobs})
    done: set[str] = set()
    ran = 0
    for plan in agenda.plans():
        own = {job.identity.digest for job in plan.jobs}
        before, shared = len(done), len(own & done)

        def tell(text: str, some: int, _: int, at: int = before - shared) -> None:
            progress(text, at + some, total)

        with _quiet():
            ran += run_trials(
                plan,
                store=store,
                scratch=scratch,
                jobs=jobs,
                threads=threads,
                cluster=cluster,
                progress=tell,
            )
        done |= own
    shown = tuple((item.exhibit, _show(agenda, item, store)) for item in agenda.items)
    return Reproduction(agenda, shown, ran)


def _show(agenda: ReproductionPlan, item: Item, store: RunStore) -> ItemContent:
    done = {
        name: [Done(study, plan, store) for study, plan in studies]
        for name, studies in item.studies.items()
    }
    sources = {name: agenda.shelf.source(name) for name in item.studies}
    with _quiet():
        return item.exhibit.show(Findings(done, sources, agenda.shelf.budget))


@contextmanager
def _quiet() -> Iterator[None]:
    """Solvers that stop at their limit of iterations are part of the papers' protocols."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


State = Literal["found", "stand-in", "missing"]


@dataclass(frozen=True)
class ListedItem:
    """An exhibit as a list shows it."""

    exhibit: PaperItem
    sets: dict[str, State]
    """Its data, and whether they are there."""
    trials: int
    """On all its sets, there or not."""
    seconds: float
    """About, on this machine with nothing else to do."""


def list_items(
    shelf: PaperDatasets,
    exhibits: Sequence[PaperItem],
    *,
    jobs: int = 1,
    threads: int | None = None,
    progress: Progress = lambda *_: None,
) -> list[ListedItem]:
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
    for i, exhibit in enumerate(exhibits):
        progress(f"judging the time of {exhibit.name}", i, len(exhibits))
        trials, seconds = costs.of(exhibit)
        states = {name: _state(shelf, name) for name in exhibit.sets}
        listed.append(ListedItem(exhibit, states, trials, seconds))
    return listed


def _state(shelf: PaperDatasets, name: str) -> State:
    if name in shelf.places:
        return "found"
    return "stand-in" if shelf.budget.quick else "missing"


_FEATURES = {"letor": 46, "binary": 64, "web": 136, "yahoo": 519}
"""Number of features by kind of data set."""
_TRAINING_SHARE = 0.6  # of the documents, in folds and in random splits


class _Costs:
    """Number of trials and rough time of exhibits, from the published sizes alone."""

    def __init__(self, shelf: PaperDatasets, jobs: int, threads: int | None) -> None:
        self._shelf, self._jobs, self._threads = shelf, jobs, threads_per_trial(jobs, threads)
        self._source = _tiny_source(shelf.paper)

    def of(self, exhibit: PaperItem) -> tuple[int, float]:
        """Trials and seconds of one exhibit."""
        trials, seconds = 0, 0.0
        for name in exhibit.sets:
            known, features = DATASETS[name], _FEATURES[DATASETS[name].stand_in]
            share = known.quick_lists / known.lists if self._shelf.budget.quick else 1.0
            documents = round(_TRAINING_SHARE * min(share, 1.0) * known.documents)
            for study in exhibit.studies(name, self._shelf.budget):
                count = len(study.protocol.plan(self._source))
                trials += count * len(study.systems)
                for ranker in study.systems.values():
                    each = estimate_seconds(ranker, documents, features, threads=self._threads)
                    seconds += count * each
        return trials, seconds / self._jobs


def _tiny_source(paper: Paper) -> DataSource:
    """Data of which the protocols of a paper make as many splits as of the real ones."""
    lists = np.repeat(np.arange(10), 2)
    data = Dataset.from_arrays(np.arange(20.0).reshape(20, 1), np.arange(20) % 2, lists)
    if paper.view == "first":
        source = DataSource("data", whole=data)
    else:
        folds = tuple(Fold(f"Fold{i + 1}", data, data, data) for i in range(5))
        source = DataSource("data", folds=folds)
    return source if paper.prepare is None else paper.prepare(source)
