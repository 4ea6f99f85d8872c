"""Reproduce tables and figures of a paper: find the data, plan, run, show."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from plackett.base.errors import ConvergenceWarning, DataError, Message, Parameter
from plackett.data.dataset import Dataset
from plackett.data.folds import Fold
from plackett.distributed import Cluster
from plackett.experiments.compare import run_trials
from plackett.experiments.forecast import Forecast, estimate_seconds, forecast
from plackett.experiments.papers.datasets import (
    DATASETS,
    DatasetLocation,
    View,
    compare_with_published,
    find_datasets,
    load,
    reduce_source,
    stand_in,
)
from plackett.experiments.papers.datasets import Progress as ReadProgress
from plackett.experiments.papers.paper import (
    Budget,
    FinishedStudy,
    ItemContent,
    ItemInputs,
    Paper,
    PaperItem,
    Study,
)
from plackett.experiments.plan import Plan, threads_per_trial
from plackett.experiments.protocols import DataSource
from plackett.experiments.store import RunStore
from plackett.models.ranker import Progress

ReadProgressBar = Callable[[str], AbstractContextManager[ReadProgress]]
"""Given what is being read, a context that takes bytes done and bytes in all."""


def silent_progress_bar(_: str) -> AbstractContextManager[ReadProgress]:
    """No-op progress bar."""
    return nullcontext(lambda *_: None)


@dataclass(eq=False)
class PaperDatasets:
    """The data sets of a paper, each read once and prepared as the paper does.

    Parameters
    ----------
    paper, budget
        Whose data, and how much of them.
    folder
        Folder with the user's data sets; None: there are none.
    progress_bar
        Makes a progress bar for each data set that is read.
    """

    paper: Paper
    budget: Budget
    folder: Path | None
    progress_bar: ReadProgressBar
    locations: dict[str, DatasetLocation] = field(init=False)
    notes: list[str] = field(default_factory=list, init=False)
    """What the data are, a sentence per data set."""
    _sources: dict[str, DataSource] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.locations = {} if self.folder is None else find_datasets(self.folder)

    def state(self, name: str) -> State:
        """Whether a data set was found, or synthetic data are used in its place."""
        if name in self.locations:
            return "found"
        return "stand-in" if self.budget.quick else "missing"

    def source(self, name: str) -> DataSource:
        """The data of a data set, prepared."""
        if name not in self._sources:
            source = self._read(name) if name in self.locations else self._stand_in(name)
            self._sources[name] = self.prepare(source)
        return self._sources[name]

    def prepare(self, source: DataSource) -> DataSource:
        """Data as the paper prepares them."""
        return source if self.paper.prepare is None else self.paper.prepare(source)

    def _read(self, name: str) -> DataSource:
        location = self.locations[name]
        with self.progress_bar(f"reading {name}") as progress:
            source = load(location, self.paper.view, progress)
        self.notes.append(compare_with_published(location.known, source))
        return reduce_source(source, location.known) if self.budget.quick else source

    def _stand_in(self, name: str) -> DataSource:
        known = DATASETS[name]
        if not self.budget.quick:
            raise DataError(f"{name} was not found: {known.where}.", path=str(self.folder))
        self.notes.append(
            f"{name} is not here: {known.quick_lists} synthetic lists of the kind "
            f"{known.stand_in!r} stand in for it, and the paper's numbers do not apply."
        )
        return stand_in(known, self.paper.view)


State = Literal["found", "stand-in", "missing"]


@dataclass(frozen=True, eq=False)
class PlannedItem:
    """A table or figure with the studies it needs, by data set."""

    item: PaperItem
    studies: dict[str, list[tuple[Study, Plan]]]


@dataclass(frozen=True, eq=False)
class ReproductionPlan:
    """What is going to be reproduced."""

    paper: Paper
    items: tuple[PlannedItem, ...]
    missing: tuple[str, ...]
    """Sentences that say which data are missing, and for what."""
    datasets: PaperDatasets

    def plans(self) -> Iterator[Plan]:
        """All comparisons; some may share trials."""
        for planned in self.items:
            for studies in planned.studies.values():
                yield from (plan for _, plan in studies)

    def caveats(self) -> tuple[str, ...]:
        """How this run differs from the paper's: budget, data, what is missing."""
        return (*self.datasets.budget.describe(), *self.datasets.notes, *self.missing)


@dataclass(frozen=True, eq=False)
class Reproduction:
    """Tables and figures of a paper, reproduced."""

    plan: ReproductionPlan
    contents: tuple[tuple[PaperItem, ItemContent], ...]
    ran: int
    """Number of trials that were run now; the others were in the store."""


def plan_reproduction(datasets: PaperDatasets, items: Sequence[PaperItem]) -> ReproductionPlan:
    """Lay out the trials of tables and figures on the data that are available.

    An item on several data sets is made on those that were found. An item that has none is left
    out, and the plan says what is missing. If nothing can be made at all, that is an error.
    """
    planned: list[PlannedItem] = []
    missing: list[str] = []
    for item in items:
        available = [name for name in item.datasets if datasets.state(name) != "missing"]
        absent = [name for name in item.datasets if datasets.state(name) == "missing"]
        if absent:
            wanted = "; ".join(f"{name} ({DATASETS[name].where})" for name in absent)
            left = "left out" if not available else f"on {', '.join(available)} only"
            missing.append(f"{item.name} {left}: missing {wanted}")
        if available or not item.datasets:
            studies = {
                name: [
                    (study, study.plan(datasets.source(name)))
                    for study in item.studies(name, datasets.budget)
                ]
                for name in available
            }
            planned.append(PlannedItem(item, studies))
    if not planned:
        place = f"in {datasets.folder}" if datasets.folder else "(no folder was given)"
        raise DataError(
            Message(
                f"none of the data that paper {datasets.paper.letter} needs are there {place}. "
                f"{'. '.join(missing)}. Give their folder with ",
                Parameter("folder"),
                ", or use ",
                Parameter("quick", True),
                " for synthetic data in their place.",
            )
        )
    return ReproductionPlan(datasets.paper, tuple(planned), tuple(missing), datasets)


def forecast_reproduction(
    plan: ReproductionPlan, *, store: RunStore, jobs: int = 1, threads: int | None = None
) -> Forecast:
    """Trials, those that the store has, and seconds for the rest; shared trials count once."""
    return forecast(*plan.plans(), store=store, jobs=jobs, threads=threads)


def run_reproduction(
    plan: ReproductionPlan,
    *,
    store: RunStore,
    scratch: Path,
    jobs: int = 1,
    threads: int | None = None,
    cluster: Cluster | str | None = None,
    progress: Progress = lambda *_: None,
) -> Reproduction:
    """Run the trials that are not in the store, and show every table and figure.

    Parameters
    ----------
    plan
        What to reproduce.
    store
        Store of finished trials: each is durable as soon as it is finished.
    scratch
        Folder in which the data may be written for several processes to see.
    jobs, threads
        Trials at the same time, and threads of each.
    cluster
        Run the trials as tasks on Ray.
    progress
        Called with what is being done, trials done and trials in all.
    """
    total = len({trial.identity.digest for each in plan.plans() for trial in each.trials})
    done: set[str] = set()
    ran = 0
    for comparison in plan.plans():
        digests = {trial.identity.digest for trial in comparison.trials}
        before = len(done - digests)

        def report(text: str, finished: int, _: int, before: int = before) -> None:
            progress(text, before + finished, total)

        with _without_convergence_warnings():
            ran += run_trials(
                comparison,
                store=store,
                scratch=scratch,
                jobs=jobs,
                threads=threads,
                cluster=cluster,
                progress=report,
            )
        done |= digests
    contents = tuple((each.item, _show(plan.datasets, each, store)) for each in plan.items)
    return Reproduction(plan, contents, ran)


def _show(datasets: PaperDatasets, planned: PlannedItem, store: RunStore) -> ItemContent:
    studies = {
        name: [FinishedStudy(study, plan, store) for study, plan in pairs]
        for name, pairs in planned.studies.items()
    }
    sources = {name: datasets.source(name) for name in studies}
    with _without_convergence_warnings():
        return planned.item.show(ItemInputs(studies, sources, datasets.budget))


@contextmanager
def _without_convergence_warnings() -> Iterator[None]:
    """Solvers that stop at their limit of iterations are part of the papers' protocols."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@dataclass(frozen=True)
class ListedItem:
    """A table or figure in a list of what can be reproduced."""

    item: PaperItem
    datasets: dict[str, State]
    """Its data sets, and whether they are there."""
    trials: int
    """On all its data sets, there or not."""
    seconds: float
    """Rough time on this machine."""


def list_items(
    datasets: PaperDatasets,
    items: Sequence[PaperItem],
    *,
    jobs: int = 1,
    threads: int | None = None,
    progress: Progress = lambda *_: None,
) -> list[ListedItem]:
    """Tables and figures, their data and their cost; the user's data are not read.

    Parameters
    ----------
    datasets
        What data are there, and the budget.
    items
        What to list.
    jobs, threads
        Trials at the same time, and threads of each.
    progress
        Called before each item.
    """
    costs = _Costs(datasets, jobs, threads)
    listed = []
    for i, item in enumerate(items):
        progress(f"estimating the time of {item.name}", i, len(items))
        trials, seconds = costs.of(item)
        states = {name: datasets.state(name) for name in item.datasets}
        listed.append(ListedItem(item, states, trials, seconds))
    return listed


_FEATURES = {"letor": 46, "binary": 64, "web": 136, "yahoo": 519}
"""Number of features by kind of data set."""
_TRAINING_SHARE = 0.6  # of the documents, in folds and in random splits


class _Costs:
    """Number of trials and rough time of tables and figures, from the published sizes alone."""

    def __init__(self, datasets: PaperDatasets, jobs: int, threads: int | None) -> None:
        self._budget, self._jobs = datasets.budget, jobs
        self._threads = threads_per_trial(jobs, threads)
        self._source = datasets.prepare(_tiny_source(datasets.paper.view))

    def of(self, item: PaperItem) -> tuple[int, float]:
        """Trials and seconds of one item."""
        trials, seconds = 0, 0.0
        for name in item.datasets:
            known, features = DATASETS[name], _FEATURES[DATASETS[name].stand_in]
            share = known.quick_lists / known.lists if self._budget.quick else 1.0
            documents = round(_TRAINING_SHARE * min(share, 1.0) * known.documents)
            for study in item.studies(name, self._budget):
                count = len(study.protocol.splits(self._source))
                trials += count * len(study.systems)
                for ranker in study.systems.values():
                    one = estimate_seconds(ranker, documents, features, threads=self._threads)
                    seconds += count * one
        return trials, seconds / self._jobs


def _tiny_source(view: View) -> DataSource:
    """Data of which protocols make as many splits as of the real ones."""
    lists = np.repeat(np.arange(10), 2)
    data = Dataset.from_arrays(np.arange(20.0).reshape(20, 1), np.arange(20) % 2, lists)
    if view == "first":
        return DataSource("data", whole=data)
    return DataSource("data", folds=tuple(Fold(f"Fold{i + 1}", data, data, data) for i in range(5)))
