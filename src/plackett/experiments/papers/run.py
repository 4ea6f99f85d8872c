"""Reproduce tables and figures of a paper: find the data, plan, run, show."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from plackett.base.errors import ConvergenceWarning, DataError, Message, Parameter, unknown_name
from plackett.base.files import write_json, write_text
from plackett.data import ByteProgress, Dataset, Fold
from plackett.experiments.compare import run_trials
from plackett.experiments.figures import FORMATS, can_draw, write_figure
from plackett.experiments.papers import datasets as sets
from plackett.experiments.papers.paper import Budget, ItemContent, ItemData, Paper, PaperItem
from plackett.experiments.plan import Plan, estimate_seconds, threads_per_trial
from plackett.experiments.protocols import DataSource
from plackett.experiments.report.page import write_page
from plackett.experiments.report.write import WrittenFiles
from plackett.experiments.store import RunStore
from plackett.experiments.systems import environment
from plackett.models import Progress, no_progress

ReadProgressBar = Callable[[str], AbstractContextManager[ByteProgress]]
"""Given the name of what is read, a context whose function takes the bytes done and the total bytes."""


def silent_progress_bar(_: str) -> AbstractContextManager[ByteProgress]:
    """No-op progress bar."""
    return nullcontext(lambda *_: None)


@dataclass(eq=False)
class PaperDatasets:
    """The data sets of a paper, each read once and prepared as the paper does.

    ``folder`` holds the user's data sets; ``on`` names some of them, or paths, to use instead of the paper's.
    """

    paper: Paper
    budget: Budget
    folder: Path | None
    progress_bar: ReadProgressBar
    on: Sequence[str] = ()
    paths: dict[str, Path] = field(init=False)  # where the data sets are that were found
    notes: list[str] = field(default_factory=list, init=False)  # what the data are, a sentence per data set
    others: set[str] = field(default_factory=set, init=False)
    """Names of real data that the paper's numbers do not apply to."""
    _sources: dict[tuple[str, Prepare | None], DataSource] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.paths = {name: sets.find_named(name, self.folder) for name in self.on}
        if self.folder is not None and not self.on:
            self.paths = sets.find_datasets(self.folder)

    def roles(self, item: PaperItem) -> dict[str, str]:
        """The data sets that an item uses, and the paper's data set that each of them replaces.

        A user's set replaces the one with the same name, else the first one of the item.
        Items that show the same for several sets (``exclusive``) get each set once.
        """
        if not self.on:
            return {name: name for name in item.datasets}
        others = [other for other in self.paper.items if other.exclusive]
        shown = {name for other in others for name in other.datasets}
        roles: dict[str, str] = {}
        for name in self.on if item.datasets else ():
            role = sets.role_of(Path(name).name)
            if role in item.datasets:
                roles[name] = str(role)
            elif not item.exclusive or (role not in shown and item is others[0]):
                roles[name] = item.datasets[0]
        return roles

    def state(self, name: str) -> Availability:
        """Whether a data set was found, or synthetic data are used in its place."""
        if name in self.paths:
            return "found"
        return "stand-in" if self.budget.quick else "missing"

    def source(self, name: str, prepare: Prepare | None = None) -> DataSource:
        """The data of a data set, prepared as the paper does, or as a study of it does."""
        change = prepare or self.paper.prepare
        if (name, None) not in self._sources:
            self._sources[name, None] = self._read(name) if name in self.paths else self._stand_in(name)
        if (name, change) not in self._sources:
            self._sources[name, change] = change(self._sources[name, None])  # type: ignore[misc] # not None here
        return self._sources[name, change]

    def _read(self, name: str) -> DataSource:
        with self.progress_bar(f"reading {name}") as progress:
            source = sets.load(self.paths[name], self.paper.view, progress)
        role = sets.role_of(source.name) if self.on else name
        known = sets.DATASETS[role or "OHSUMED"]
        there = known.published
        lists, documents = sets.sizes(source)
        is_published = role is not None and (lists, documents) == (there.lists, there.documents)
        if is_published and not self.on:
            source = replace(source, name=name)
        text = f"{source.name}: {lists:,} lists, {documents:,} documents"
        if is_published:
            text += ", as published."
        elif self.on:
            text += "; not a set of the paper's, so its numbers do not apply, only what it says about systems."
        else:
            text += (
                f", where {name} has {there.lists:,} and {there.documents:,}: the paper's numbers do not apply to "
                "these data; comparisons between our own do."
            )
        self.notes.append(text)
        if self.budget.quick and source.whole is None:
            source = sets.reduce_source(source, known)
        if not is_published:
            self.others.add(source.name)
        return source

    def _stand_in(self, name: str) -> DataSource:
        known = sets.DATASETS[name]
        self.notes.append(
            f"{name} is not here: {known.quick_lists} synthetic lists of the kind "
            f"{known.stand_in!r} stand in for it, and the paper's numbers do not apply."
        )
        return sets.stand_in(known, self.paper.view)


Availability = Literal["found", "stand-in", "missing"]
Prepare = Callable[[DataSource], DataSource]


@dataclass(frozen=True, eq=False)
class PlannedItem:
    """A table or figure, and the data that it is made on with the plans of its studies."""

    item: PaperItem
    data: tuple[ItemData, ...]


@dataclass(frozen=True, eq=False)
class ReproductionPlan:
    """What is going to be reproduced."""

    paper: Paper
    items: tuple[PlannedItem, ...]
    missing: tuple[str, ...]  # sentences that say which data are missing, and for what
    datasets: PaperDatasets

    def plans(self) -> Iterator[Plan]:
        """All comparisons; some may share trials."""
        return (plan for planned in self.items for data in planned.data for plan in data.plans)

    def caveats(self) -> tuple[str, ...]:
        """How this run differs from the paper's: budget, data, what is missing."""
        return (*self.datasets.budget.describe(), *self.datasets.notes, *self.missing)


@dataclass(frozen=True, eq=False)
class Reproduction:
    """Tables and figures of a paper, reproduced."""

    plan: ReproductionPlan
    contents: tuple[tuple[PaperItem, ItemContent], ...]
    ran: int  # number of trials that were run now; the others were in the store


def plan_reproduction(datasets: PaperDatasets, items: Sequence[PaperItem]) -> ReproductionPlan:
    """Plan the trials of tables and figures on the available data, and say what is missing."""
    _check_systems(datasets, items)
    planned: list[PlannedItem] = []
    missing: list[str] = []
    for item in items:
        roles = datasets.roles(item)
        available = [name for name in roles if datasets.state(name) != "missing"]
        absent = [name for name in roles if datasets.state(name) == "missing"]
        if absent:
            wanted = "; ".join(f"{name} ({sets.DATASETS[name].where})" for name in absent)
            left = f"on {', '.join(available)} only" if available else "left out" if item.needs_data else "in part"
            missing.append(f"{item.name} {left}: missing {wanted}")
        if not available and not absent and item.datasets:
            missing.append(f"{item.name} left out: it is on {', '.join(item.datasets)}")
        if available or not item.datasets or not item.needs_data:
            planned.append(_plan_item(datasets, item, {name: roles[name] for name in available}))
    if not planned:
        searched = f"in {datasets.folder}" if datasets.folder else "(no folder was given)"
        raise DataError(
            Message(
                f"none of the data that paper {datasets.paper.letter} needs are there {searched}. "
                f"{'. '.join(missing)}. Give their folder with ",
                Parameter("folder"),
                ", or use ",
                Parameter("quick", True),
                " for synthetic data in their place.",
            )
        )
    return ReproductionPlan(datasets.paper, tuple(planned), tuple(missing), datasets)


def _check_systems(datasets: PaperDatasets, items: Sequence[PaperItem]) -> None:
    """Raise if the budget names a system that no item has; items without systems ignore the names."""
    studies = [s for i in items for role in datasets.roles(i).values() for s in i.studies(role, datasets.budget)]
    known = dict.fromkeys(name for study in studies for name in study.systems)
    for name in datasets.budget.systems:
        if known and name not in known:
            raise unknown_name("system", name, known)


def _plan_item(datasets: PaperDatasets, item: PaperItem, roles: dict[str, str]) -> PlannedItem:
    data = []
    for name, role in roles.items():
        source = datasets.source(name)
        # The paper's numbers do not apply to data that replace its own.
        is_own = source.name not in datasets.others and (not datasets.on or sets.role_of(source.name) == role)
        plans = [
            study.restrict(datasets.budget.systems).plan(datasets.source(name, study.prepare))
            for study in item.studies(role, datasets.budget)
        ]
        data.append(ItemData(role, source, plans, published=is_own))
    return PlannedItem(item, tuple(data))


def run_reproduction(
    plan: ReproductionPlan, *, store: RunStore, progress: Progress = no_progress, **running: Any
) -> Reproduction:
    """Run the trials that are not in the store as ``run_trials`` does, and show every table and figure."""
    total = len({trial.identity.digest for each in plan.plans() for trial in each.trials})
    done: set[str] = set()
    ran = 0
    contents = []
    with warnings.catch_warnings():
        # Solvers that stop at their limit of iterations are part of the papers' protocols.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for comparison in plan.plans():
            digests = {trial.identity.digest for trial in comparison.trials}
            before = len(done - digests)

            def report(text: str, finished: int, _: int, before: int = before) -> None:
                progress(text, before + finished, total)

            ran += run_trials(comparison, store=store, progress=report, **running)
            done |= digests
        for planned in plan.items:
            content = ItemContent(plan.datasets.budget, list(planned.item.notes))
            planned.item.show(content, [replace(one, store=store) for one in planned.data])
            contents.append((planned.item, content))
    return Reproduction(plan, tuple(contents), ran)


@dataclass(frozen=True)
class ListedItem:
    """A table or figure in a list of what can be reproduced."""

    item: PaperItem
    datasets: dict[str, Availability]  # its data sets, and whether they are there
    trials: int  # on all its data sets, there or not
    seconds: float  # rough time on this machine


def list_items(
    datasets: PaperDatasets,
    items: Sequence[PaperItem],
    *,
    jobs: int = 1,
    threads: int | None = None,
    progress: Progress = no_progress,
) -> list[ListedItem]:
    """Tables and figures, their data and their cost; the user's data are not read."""
    threads = threads_per_trial(jobs, threads)
    tiny = _tiny_source(datasets.paper.view)
    tiny = tiny if datasets.paper.prepare is None else datasets.paper.prepare(tiny)
    listed = []
    for i, item in enumerate(items):
        progress(f"estimating the time of {item.name}", i, len(items))
        trials, seconds = _estimate(datasets, item, tiny, threads)
        states = {name: datasets.state(name) for name in datasets.roles(item)}
        listed.append(ListedItem(item, states, trials, seconds / jobs))
    return listed


_FEATURES = {"letor": 46, "binary": 64, "web": 136, "yahoo": 519}  # number of features by kind of data set
_TRAINING_SHARE = 0.6  # of the documents, in folds and in random splits


def _estimate(datasets: PaperDatasets, item: PaperItem, tiny: DataSource, threads: int | None) -> tuple[int, float]:
    """Trials and rough seconds of one item, from the published sizes alone."""
    budget = datasets.budget
    trials, seconds = 0, 0.0
    for name, role in datasets.roles(item).items():
        known, features = sets.DATASETS[role], _FEATURES[sets.DATASETS[role].stand_in]
        share = known.quick_lists / known.published.lists if budget.quick else 1.0
        documents = round(_TRAINING_SHARE * min(share, 1.0) * known.published.documents)
        if name in datasets.on:
            documents, features = datasets.source(name).training_size
        for study in (study.restrict(budget.systems) for study in item.studies(role, budget)):
            count = len(study.protocol.splits(tiny))
            trials += count * len(study.systems)
            for ranker in study.systems.values():
                seconds += count * estimate_seconds(ranker, documents, features, threads=threads)
    return trials, seconds


def _tiny_source(view: sets.View) -> DataSource:
    """Data that protocols divide into as many splits as the real data."""
    lists = np.repeat(np.arange(10), 2)
    data = Dataset.from_arrays(np.arange(20.0).reshape(20, 1), np.arange(20) % 2, lists)
    if view == "first":
        return DataSource("data", whole=data)
    return DataSource("data", folds=tuple(Fold(f"Fold{i + 1}", data, data, data) for i in range(5)))


_FULL = "Settings and numbers of trials are the paper's, as far as it gives them."


def write_reproduction(reproduction: Reproduction, folder: Path, *, command: str | None = None) -> WrittenFiles:
    """Write all files of a reproduction into a folder; ``command`` tells the reader how to repeat it."""
    formats = FORMATS if can_draw() else ()
    for item, content in reproduction.contents:
        page = markdown_page(reproduction, item, content, command, formats)
        write_text(folder / f"{item.file_name()}.md", page)
        if content.tables:
            latex = "\n".join(table.latex() for table in content.tables)
            write_text(folder / f"{item.file_name()}.tex", latex)
        for name, chart in content.charts.items():
            write_figure(chart, folder / name, formats)
    files = WrittenFiles(folder / "report.html", folder / "results.json")
    write_json(files.results, reproduction_payload(reproduction))
    write_text(folder / "report.md", markdown_report(reproduction, command, formats))
    paper = reproduction.plan.paper
    write_page(
        files.report,
        "reproduction.html",
        title=f"{paper.authors}, reproduced",
        lead=f"{paper.authors}: {paper.title}. {paper.convention}",
        reproduction=reproduction,
        summary=_summarize_claims(reproduction),
        command=command,
        notes=_notes(reproduction),
        settings=_settings(reproduction),
        environment=_environment(reproduction),
    )
    return files


def _summarize_claims(reproduction: Reproduction) -> str:
    claims = [claim for _, content in reproduction.contents for claim in content.claims]
    if not claims:
        return ""
    counts = Counter(claim.verdict for claim in claims)
    parts = [f"{verdict} {counts[verdict]}" for verdict in ("yes", "no", "undecided", "not tested")]
    text = f"Claims of the paper that hold here, of {len(claims)}: {', '.join(parts)}."
    if reproduction.plan.datasets.budget.quick:
        text += " On few lists or synthetic data, that says nothing about the paper."
    return text


def _notes(reproduction: Reproduction) -> tuple[str, ...]:
    """What holds for all items: the convention, the data, what was reduced and what is missing."""
    plan = reproduction.plan
    left_out = (plan.paper.left_out,) if plan.paper.left_out else ()
    reduced = plan.datasets.budget.describe() or (_FULL,)
    metrics = f"Metrics: {plan.paper.convention}"
    return (metrics, *plan.datasets.notes, *reduced, *plan.missing, *left_out)


def _settings(reproduction: Reproduction) -> dict[str, Mapping[str, Any]]:
    """Settings of every system on every data set."""
    by_name: dict[str, Mapping[str, Any]] = {}
    for plan in reproduction.plan.plans():
        for system, settings in plan.settings().items():
            name = f"{system} on {plan.source.name}"
            if by_name.get(name, settings) != settings:  # the same name with other settings
                name += f", {plan.protocol}"
            by_name[name] = settings
    return by_name


def _environment(reproduction: Reproduction) -> dict[str, str]:
    systems = [system for plan in reproduction.plan.plans() for system in plan.systems]
    return environment({name for system in systems for name in system.libraries()})


def markdown_page(
    reproduction: Reproduction, item: PaperItem, content: ItemContent, command: str | None, formats: Sequence[str]
) -> str:
    """A table or figure as a page of its own."""
    title = f"{reproduction.plan.paper.authors}, {item.name}: {item.title}"
    body = _markdown_content(content, formats, "##")
    return _markdown(reproduction, title, command, body, (*content.notes, *_notes(reproduction)))


def markdown_report(reproduction: Reproduction, command: str | None, formats: Sequence[str]) -> str:
    """All tables and figures as one page."""
    paper = reproduction.plan.paper
    on = ", ".join(reproduction.plan.datasets.on)
    body = [_summarize_claims(reproduction) + "\n"]
    for item, content in reproduction.contents:
        body += [f"## {item.name}: {item.title}\n", *_markdown_content(content, formats, "###")]
        body.append("".join(f"- {note}\n" for note in content.notes))
    title = f"{paper.authors}{f' on {on}' if on else ''}: {paper.title}"
    return _markdown(reproduction, title, command, body, _notes(reproduction))


def _markdown(
    reproduction: Reproduction, title: str, command: str | None, body: Sequence[str], notes: Sequence[str]
) -> str:
    paper = reproduction.plan.paper
    made = [f"Made by `{command}`.\n"] if command else []
    lead = f"{paper.authors}: *{paper.title}*. Rows named *paper* are its own numbers.\n"
    versions = ", ".join(f"{name} {value}" for name, value in _environment(reproduction).items())
    listed = "".join(f"- {note}\n" for note in notes)
    end = [f"## How the numbers were made\n\n{listed}", f"Environment: {versions}.\n"]
    return "\n".join([f"# {title}\n", *made, lead, *body, *end])


def _markdown_content(content: ItemContent, formats: Sequence[str], heading: str) -> list[str]:
    parts = [table.markdown() for table in content.tables]
    if "svg" in formats:
        parts += [f"![{chart.title}]({name}.svg)\n" for name, chart in content.charts.items()]
    if content.claims:
        lines = ["| claim of the paper | here | p | test | holds |", "| --- | --- | --- | --- | --- |"]
        lines += [f"| {c.text} | {c.here} | {c.p_text} | {c.test} | {c.verdict} |" for c in content.claims]
        parts.append(f"{heading} What the paper says, in our numbers\n\n" + "\n".join(lines) + "\n")
    return parts


def reproduction_payload(reproduction: Reproduction) -> dict[str, Any]:
    """A reproduction as plain data."""
    plan = reproduction.plan
    return {
        "paper": plan.paper.letter,
        "convention": plan.paper.convention,
        "quick": plan.datasets.budget.quick,
        "cut": list(plan.datasets.budget.describe()),
        "data": list(plan.datasets.notes),
        "missing": list(plan.missing),
        "ran": reproduction.ran,
        "exhibits": [
            {
                "name": item.name,
                "title": item.title,
                "numbers": content.numbers,
                "claims": [vars(claim) for claim in content.claims],
                "notes": list(content.notes),
            }
            for item, content in reproduction.contents
        ],
        "settings": _settings(reproduction),
        "environment": _environment(reproduction),
    }
