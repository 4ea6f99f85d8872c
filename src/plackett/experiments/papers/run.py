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
from plackett.experiments.papers.datasets import (
    DATASETS,
    DatasetLocation,
    Progress as ReadProgress,
    View,
    compare_with_published,
    find_datasets,
    find_named,
    is_published,
    load,
    load_named,
    reduce_source,
    role_of,
    sizes,
    stand_in,
)
from plackett.experiments.papers.paper import Budget, FinishedStudy, ItemContent, ItemInputs, Paper, PaperItem, Study
from plackett.experiments.plan import Plan, estimate_seconds, threads_per_trial
from plackett.experiments.protocols import DataSource
from plackett.experiments.store import RunStore
from plackett.models.fit_context import Progress

ReadProgressBar = Callable[[str], AbstractContextManager[ReadProgress]]
"""Given what is being read, a context that takes bytes done and bytes in all."""


def silent_progress_bar(_: str) -> AbstractContextManager[ReadProgress]:
    """No-op progress bar."""
    return nullcontext(lambda *_: None)


@dataclass(eq=False)
class PaperDatasets:
    """The data sets of a paper, each read once and prepared as the paper does.

    ``folder`` holds the user's data sets; ``on`` names some of them, or paths, that take the place of the paper's.
    """

    paper: Paper
    budget: Budget
    folder: Path | None
    progress_bar: ReadProgressBar
    on: Sequence[str] = ()
    locations: dict[str, DatasetLocation] = field(init=False)
    notes: list[str] = field(default_factory=list, init=False)
    """What the data are, a sentence per data set."""
    others: set[str] = field(default_factory=set, init=False)
    """Names of real data that the paper's numbers do not apply to."""
    _raw: dict[str, DataSource] = field(default_factory=dict, init=False)
    _prepared: dict[tuple[str, Prepare | None], DataSource] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.locations = {} if self.folder is None or self.on else find_datasets(self.folder)
        self._paths = {name: find_named(name, self.folder) for name in self.on}

    def roles(self, item: PaperItem) -> dict[str, str]:
        """The data sets that an item is made on, and for which of the paper's each stands.

        A set of the user's stands for the one whose name it has, else for the first of the item.
        Items that show the same for several sets (``exclusive``) get each set once.
        """
        if not self.on:
            return {name: name for name in item.datasets}
        others = [other for other in self.paper.items if other.exclusive]
        shown = {name for other in others for name in other.datasets}
        roles: dict[str, str] = {}
        for name in self.on if item.datasets else ():
            role = role_of(Path(name).name)
            if role in item.datasets:
                roles[name] = str(role)
            elif not item.exclusive or (role not in shown and item is others[0]):
                roles[name] = item.datasets[0]
        return roles

    def state(self, name: str) -> State:
        """Whether a data set was found, or synthetic data are used in its place."""
        if name in self.locations or name in self.on:
            return "found"
        return "stand-in" if self.budget.quick else "missing"

    def source(self, name: str, prepare: Prepare | None = None) -> DataSource:
        """The data of a data set, prepared as the paper does, or as a study of it does."""
        change = prepare or self.paper.prepare
        if (name, change) not in self._prepared:
            if name not in self._raw:
                known = name in self.locations or name in self.on
                self._raw[name] = self._read(name) if known else self._stand_in(name)
            self._prepared[name, change] = self._raw[name] if change is None else change(self._raw[name])
        return self._prepared[name, change]

    def _read(self, name: str) -> DataSource:
        if name in self.on:
            return self._read_named(name)
        location = self.locations[name]
        with self.progress_bar(f"reading {name}") as progress:
            source = load(location, self.paper.view, progress)
        self.notes.append(compare_with_published(location.known, source))
        reduced = reduce_source(source, location.known) if self.budget.quick else source
        if not is_published(location.known, source):
            self.others.add(reduced.name)
        return reduced

    def _read_named(self, name: str) -> DataSource:
        with self.progress_bar(f"reading {name}") as progress:
            source = load_named(self._paths[name], self.paper.view, progress)
        role = role_of(source.name)
        if role is not None and is_published(DATASETS[role], source):
            self.notes.append(compare_with_published(DATASETS[role], source))
        else:
            self.others.add(source.name)
            lists, documents = sizes(source)
            self.notes.append(
                f"{source.name}: {lists:,} lists, {documents:,} documents; not a set of the paper's, so its "
                "numbers do not apply, only what it says of systems."
            )
        if not self.budget.quick or source.whole is not None:
            return source
        return reduce_source(source, DATASETS[role or "OHSUMED"])

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
Prepare = Callable[[DataSource], DataSource]


@dataclass(frozen=True, eq=False)
class PlannedItem:
    """A table or figure with its data and the studies it needs, by the name of the data."""

    item: PaperItem
    sources: dict[str, DataSource]
    roles: dict[str, str]
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
        roles = datasets.roles(item)
        available = [name for name in roles if datasets.state(name) != "missing"]
        absent = [name for name in roles if datasets.state(name) == "missing"]
        if absent:
            wanted = "; ".join(f"{name} ({DATASETS[name].where})" for name in absent)
            left = f"on {', '.join(available)} only" if available else "left out" if item.needs_data else "in part"
            missing.append(f"{item.name} {left}: missing {wanted}")
        if not available and not absent and item.datasets:
            missing.append(f"{item.name} left out: it is on {', '.join(item.datasets)}")
        if available or not item.datasets or not item.needs_data:
            planned.append(_plan_item(datasets, item, {name: roles[name] for name in available}))
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


def _studies(item: PaperItem, role: str, budget: Budget) -> list[Study]:
    studies = item.studies(role, budget)
    return [study.restrict(budget.systems) for study in studies] if budget.systems else list(studies)


def _plan_item(datasets: PaperDatasets, item: PaperItem, roles: dict[str, str]) -> PlannedItem:
    sources = {name: datasets.source(name) for name in roles}
    return PlannedItem(
        item,
        {source.name: source for source in sources.values()},
        {source.name: roles[name] for name, source in sources.items()},
        {
            sources[name].name: [
                (study, study.plan(datasets.source(name, study.prepare)))
                for study in _studies(item, role, datasets.budget)
            ]
            for name, role in roles.items()
        },
    )


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

    Each trial is durable in the store as soon as it is finished. The data may be written to ``scratch``, for several
    processes to see.
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
                comparison, store=store, scratch=scratch, jobs=jobs, threads=threads, cluster=cluster, progress=report
            )
        done |= digests
    contents = tuple((each.item, _show(plan.datasets, each, store)) for each in plan.items)
    return Reproduction(plan, contents, ran)


def _show(datasets: PaperDatasets, planned: PlannedItem, store: RunStore) -> ItemContent:
    studies = {
        name: [FinishedStudy(study, plan, store) for study, plan in pairs] for name, pairs in planned.studies.items()
    }
    # The paper's numbers are not for data that only take the place of its own.
    published = frozenset(
        name
        for name, role in planned.roles.items()
        if name not in datasets.others and (not datasets.on or role_of(name) == role)
    )
    inputs = ItemInputs(studies, planned.sources, datasets.budget, planned.roles, published)
    with _without_convergence_warnings():
        return planned.item.show(inputs)


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
    """Tables and figures, their data and their cost; the user's data are not read."""
    costs = _Costs(datasets, jobs, threads)
    listed = []
    for i, item in enumerate(items):
        progress(f"estimating the time of {item.name}", i, len(items))
        trials, seconds = costs.of(item)
        states = {name: datasets.state(name) for name in datasets.roles(item)}
        listed.append(ListedItem(item, states, trials, seconds))
    return listed


_FEATURES = {"letor": 46, "binary": 64, "web": 136, "yahoo": 519}
"""Number of features by kind of data set."""
_TRAINING_SHARE = 0.6  # of the documents, in folds and in random splits


class _Costs:
    """Number of trials and rough time of tables and figures, from the published sizes alone."""

    def __init__(self, datasets: PaperDatasets, jobs: int, threads: int | None) -> None:
        self._datasets, self._budget, self._jobs = datasets, datasets.budget, jobs
        self._threads = threads_per_trial(jobs, threads)
        prepare = datasets.paper.prepare
        tiny = _tiny_source(datasets.paper.view)
        self._source = tiny if prepare is None else prepare(tiny)

    def of(self, item: PaperItem) -> tuple[int, float]:
        """Trials and seconds of one item."""
        trials, seconds = 0, 0.0
        for name, role in self._datasets.roles(item).items():
            known, features = DATASETS[role], _FEATURES[DATASETS[role].stand_in]
            share = known.quick_lists / known.lists if self._budget.quick else 1.0
            documents = round(_TRAINING_SHARE * min(share, 1.0) * known.documents)
            if name in self._datasets.on:
                documents, features = self._datasets.source(name).training_size
            for study in _studies(item, role, self._budget):
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
