"""What a paper's tables and figures are made of: studies to run, and content to show.

A :class:`Paper` has items: tables and figures. An item names the studies it needs on each data set, and turns their
results into tables, charts and claims.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from plackett.base.errors import UsageError
from plackett.experiments.figures import Chart
from plackett.experiments.papers.datasets import View
from plackett.experiments.plan import Plan, plan_comparison
from plackett.experiments.protocols import DataSource, Protocol
from plackett.experiments.results import ComparisonResults, read_results
from plackett.experiments.significance import decide
from plackett.experiments.store import RunStore
from plackett.experiments.tables import TextTable
from plackett.models import RECIPES, Ranker, recipe
from plackett.models.recipes.search_spaces import get_setting, with_settings

_QUICK: dict[str, dict[str, Any]] = {
    "trees": {
        "trees": 25,
        "learning_rate": 0.15,
        "leaves": 15,
        "min_documents": 20,
        "patience": 15,
        "lightgbm": {"max_bin": 63},
    },
    "layers": {
        "layers": (64, 32),
        "epochs": 15,
        "patience": 5,
        "batch_lists": 16,
        "learning_rate": 0.005,
        "learners": 2,
    },
    "C": {"C": (1e-5, 1e-3, 1e-1, 10.0)},
    "rounds": {"rounds": 50},
}
"""Settings of a quick run, by the parameter that tells the kind of model."""


def has_setting(ranker: Ranker, path: str) -> bool:
    """Whether a ranker, or its objective, has a setting: ``trees``, ``objective.beta``, ``lightgbm.max_bin``."""
    try:
        get_setting(ranker, path)
    except UsageError:
        return False
    return True


@dataclass(frozen=True)
class Budget:
    """How much a reproduction runs: the paper's settings, or less."""

    quick: bool = False  # small models, few trials and few lists
    trials: int | None = None  # number of repeated trials, instead of the paper's
    settings: Mapping[str, Any] = field(default_factory=dict)  # parameters to change in every system that has them
    seed: int = 0  # of splits, models and synthetic data
    systems: tuple[str, ...] = ()  # names of the systems to run, as the paper has them; () for all

    def ranker(self, name: str, preset: str | None = None) -> Ranker:
        """A recipe with the paper's settings, if it has them, reduced as this budget says."""
        known = preset if preset in RECIPES[name].presets else None
        return self.reduce(recipe(name, preset=known))

    def reduce(self, ranker: Ranker) -> Ranker:
        """Change the settings of a ranker as this budget says."""
        parameters = ranker.get_params()
        if self.quick:
            small = next((settings for name, settings in _QUICK.items() if name in parameters), {})
            ranker.set_params(**{k: v for k, v in small.items() if k in parameters})
        return with_settings(ranker, {k: v for k, v in self.settings.items() if has_setting(ranker, k)})

    def count_trials(self, paper: int, quick: int) -> int:
        """Number of trials of a protocol that repeats."""
        return self.trials or (quick if self.quick else paper)

    def describe(self) -> tuple[str, ...]:
        """What differs from the papers, a sentence each; empty if nothing does."""
        notes = []
        if self.quick:
            trees, nets = _QUICK["trees"], _QUICK["layers"]
            notes.append(
                f"QUICK: few lists, few trials, and small models (at most {trees['trees']} trees of {trees['leaves']} "
                f"leaves, nets of layers {nets['layers']} for {nets['epochs']} epochs, four values of C). It shows how "
                "the results look, not what they are."
            )
        if self.trials:
            notes.append(f"{self.trials} trials instead of the paper's number of repetitions.")
        if self.systems:
            notes.append(f"Only these systems: {', '.join(self.systems)}.")
        if self.settings:
            changed = ", ".join(f"{key} = {value}" for key, value in self.settings.items())
            notes.append(f"Settings changed in every system that has them: {changed}.")
        return tuple(notes)


@dataclass(frozen=True, eq=False)
class Study:
    """A comparison on one data set that a table or figure rests on; trials that studies share are run once."""

    systems: Mapping[str, Ranker]  # systems by the names that the paper gives them
    protocol: Protocol
    metrics: tuple[str, ...]
    select: str  # metric that selects models on the validation lists; several are separated by commas
    baseline: str | None = None
    prepare: Callable[[DataSource], DataSource] | None = None
    """A preparation of the data that replaces the paper's."""

    def restrict(self, names: Sequence[str]) -> Study:
        """The same study with these systems only; unchanged if it has none of them."""
        systems = {name: ranker for name, ranker in self.systems.items() if name in names}
        if not systems:
            return self
        return replace(self, systems=systems, baseline=self.baseline if self.baseline in systems else None)

    def plan(self, source: DataSource) -> Plan:
        """The trials on these data."""
        options: dict[str, Any] = {"metrics": self.metrics, "baseline": self.baseline, "metric": self.select}
        return plan_comparison(source, self.systems, protocol=self.protocol, **options)


@dataclass(frozen=True, eq=False)
class FinishedStudy:
    """A study whose trials are all in the store."""

    plan: Plan
    store: RunStore

    @cached_property
    def results(self) -> ComparisonResults:
        """Values of its systems."""
        return read_results(self.plan, self.store)


ItemKind = Literal["table", "figure"]


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, checked in our numbers."""

    text: str
    here: str  # our numbers
    holds: bool | None  # None if what was run cannot decide it, or if it was not tested
    p: float | None = None
    test: str = ""  # the test; without a p-value, the reason why there is none

    @property
    def verdict(self) -> str:
        """For people."""
        if self.holds is None:
            return "not tested" if self.p is None else "undecided"
        return "yes" if self.holds else "no"

    @property
    def p_text(self) -> str:
        """The p-value for people."""
        return "–" if self.p is None else format_p(self.p)


def claim_positive(
    text: str, here: str, tested: Sequence[tuple[float, float]], test: str, alpha: float = 0.05
) -> Claim:
    """The claim that all differences, each with its p-value, are above 0; the largest p-value decides."""
    return Claim(text, here, decide(tested, alpha), max(p for _, p in tested), test)


def format_p(p: float) -> str:
    """A p-value for people.

    >>> format_p(0.0312), format_p(1e-9)
    ('0.031', '<.0001')
    """
    return "<.0001" if p < 1e-4 else f"{p:.2g}"


@dataclass
class ItemContent:
    """A table or figure as we reproduce it."""

    budget: Budget
    notes: list[str]  # how the numbers were made, a sentence each
    tables: list[TextTable] = field(default_factory=list)
    charts: dict[str, Chart] = field(default_factory=dict)  # by file name, without suffix
    claims: list[Claim] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)  # the same as plain data


@dataclass(frozen=True, eq=False)
class ItemData:
    """Data that an item uses, and the trials on them."""

    role: str  # the paper's data set that the data are, or stand for
    source: DataSource
    plans: Sequence[Plan]
    published: bool  # whether the paper's numbers may be shown next to ours
    store: RunStore | None = None  # None before the trials have been run

    @property
    def name(self) -> str:
        """Name of the data."""
        return self.source.name

    @cached_property
    def studies(self) -> list[FinishedStudy]:
        """The studies, once their trials are in the store."""
        assert self.store is not None
        return [FinishedStudy(plan, self.store) for plan in self.plans]


@dataclass(frozen=True)
class PaperItem(ABC):
    """A table or figure of a paper."""

    number: int
    title: str
    datasets: tuple[str, ...]  # data sets it uses; it is made on those that are available
    _: KW_ONLY
    kind: ItemKind = "table"
    exclusive: bool = False  # whether another item of the paper shows the same for other data sets
    needs_data: bool = True  # whether it is left out where none of its data sets is there
    study: Callable[[str, Budget], Study] | None = None  # what is run on a data set; None: nothing is trained
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """For people: ``Table 2``."""
        return f"{self.kind.title()} {self.number}"

    def file_name(self, *parts: str) -> str:
        """Name of a file without suffix: ``table-2``, ``figure-1-ohsumed``."""
        words = " ".join([self.kind, str(self.number), *parts])
        return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:
        """Studies to run on one of its data sets, or on data that stand for it."""
        return () if self.study is None else (self.study(data, budget),)

    @abstractmethod
    def show(self, content: ItemContent, data: Sequence[ItemData]) -> None:
        """Fill in the content, once the studies have been run."""


@dataclass(frozen=True, kw_only=True)
class PaperFigure(PaperItem):
    """A figure of a paper."""

    kind: ItemKind = "figure"


@dataclass(frozen=True)
class Paper:
    """One of the four papers."""

    letter: str
    authors: str  # with the year
    title: str
    items: tuple[PaperItem, ...]
    convention: str  # how its metrics are computed, a sentence or two
    left_out: str = ""  # tables and figures that are not reproduced, and why
    view: View = "all"  # which folds of the data it uses
    prepare: Callable[[DataSource], DataSource] | None = None  # what it does to the data first

    def item(self, kind: ItemKind, number: int) -> PaperItem:
        """One of its tables or figures."""
        for item in self.items:
            if (item.kind, item.number) == (kind, number):
                return item
        names = ", ".join(item.name for item in self.items)
        text = f"paper {self.letter} has no {kind} {number} to reproduce. There are: {names}. {self.left_out}"
        raise UsageError(text.rstrip())
