"""What a paper's tables and figures are made of: studies to run, and content to show.

A :class:`Paper` has items: :class:`PaperTable` and :class:`PaperFigure`. An item names the studies
it needs on each data set, and turns their results into tables, charts and claims.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from plackett.base.errors import UsageError
from plackett.experiments.figures import Chart
from plackett.experiments.papers.datasets import View
from plackett.experiments.plan import Plan, plan_comparison
from plackett.experiments.protocols import DataSource, Protocol
from plackett.experiments.results import ComparisonResults, read_results
from plackett.experiments.robustness import RobustnessCurves, read_curves
from plackett.experiments.store import RunStore
from plackett.experiments.tables import TextTable
from plackett.models import RECIPES, recipe
from plackett.models.ranker import Ranker
from plackett.models.recipes.search_spaces import get_setting, with_settings

_QUICK_TREES: dict[str, Any] = {
    "trees": 25,
    "learning_rate": 0.15,
    "leaves": 15,
    "min_documents": 20,
    "patience": 15,
    "lightgbm": {"max_bin": 63},
}
_QUICK_NETS: dict[str, Any] = {
    "layers": (64, 32),
    "epochs": 15,
    "patience": 5,
    "batch_lists": 16,
    "learning_rate": 0.005,
    "learners": 2,
}
_QUICK_LINEAR: dict[str, Any] = {"C": (1e-5, 1e-3, 1e-1, 10.0), "rounds": 50}


def has_setting(ranker: Ranker, path: str) -> bool:
    """Whether a ranker, or its objective, has a setting: ``trees``, ``objective.beta``, ``lightgbm.max_bin``."""
    try:
        get_setting(ranker, path)
    except UsageError:
        return False
    return True


@dataclass(frozen=True)
class Budget:
    """How much a reproduction runs: the paper's settings, or less.

    Parameters
    ----------
    quick
        Use small models, few trials and few lists.
    trials
        Number of repeated trials, instead of the paper's.
    settings
        Parameters to change in every system that has them.
    seed
        Random seed of splits, models and synthetic data.
    systems
        Names of the systems to run, as the paper has them; () for all.
    """

    quick: bool = False
    trials: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    systems: tuple[str, ...] = ()

    def ranker(self, name: str, preset: str | None = None) -> Ranker:
        """A recipe with the paper's settings, reduced as this budget says.

        A preset that the recipe does not have is ignored.
        """
        known = preset if preset in RECIPES[name].presets else None
        return self.reduce(recipe(name, preset=known))

    def reduce(self, ranker: Ranker) -> Ranker:
        """Change the settings of a ranker as this budget says."""
        parameters = ranker.get_params()
        if self.quick:
            small = _QUICK_TREES if "trees" in parameters else _QUICK_NETS
            small = small if {"trees", "layers"} & set(parameters) else _QUICK_LINEAR
            ranker.set_params(**{k: v for k, v in small.items() if k in parameters})
        return with_settings(ranker, {k: v for k, v in self.settings.items() if has_setting(ranker, k)})

    def count_trials(self, paper: int, quick: int) -> int:
        """Number of trials of a protocol that repeats."""
        return self.trials or (quick if self.quick else paper)

    def describe(self) -> tuple[str, ...]:
        """What differs from the papers, a sentence each; empty if nothing does."""
        notes = []
        if self.quick:
            notes.append(
                "QUICK: few lists, few trials, and small models (at most "
                f"{_QUICK_TREES['trees']} trees of {_QUICK_TREES['leaves']} leaves, nets of layers "
                f"{_QUICK_NETS['layers']} for {_QUICK_NETS['epochs']} epochs, four values of C). "
                "It shows how the results look, not what they are."
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
    """A comparison on one data set that a table or figure rests on.

    Studies may share trials: the store runs a trial once.
    """

    systems: Mapping[str, Ranker]
    """Systems by the names that the paper gives them."""
    protocol: Protocol
    metrics: tuple[str, ...]
    select: str
    """Metric that selects models on the validation lists; several are separated by commas."""
    baseline: str | None = None
    prepare: Callable[[DataSource], DataSource] | None = None
    """What is done to the data first, if not what the paper does."""

    def restrict(self, names: Sequence[str]) -> Study:
        """The same with these systems only; with none of them, as it is."""
        systems = {name: ranker for name, ranker in self.systems.items() if name in names}
        if not systems:
            return self
        return replace(self, systems=systems, baseline=self.baseline if self.baseline in systems else None)

    def plan(self, source: DataSource) -> Plan:
        """The trials on these data."""
        return plan_comparison(
            source,
            self.systems,
            protocol=self.protocol,
            metrics=self.metrics,
            baseline=self.baseline,
            metric=self.select,
        )


@dataclass(frozen=True, eq=False)
class FinishedStudy:
    """A study whose trials are all in the store."""

    study: Study
    plan: Plan
    store: RunStore

    @cached_property
    def results(self) -> ComparisonResults:
        """Values of its systems."""
        return read_results(
            self.plan.trials,
            store=self.store,
            source=self.plan.source,
            protocol=self.plan.protocol,
            metrics=self.plan.metrics,
            select=self.plan.select.split(",")[0],
        )

    @cached_property
    def noise_curves(self) -> RobustnessCurves:
        """Its curves, if it is a study under noise."""
        return read_curves(self.plan, store=self.store)


Kind = Literal["table", "figure"]


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, checked in our numbers."""

    text: str
    here: str
    """Our numbers."""
    holds: bool | None
    """None if what was run cannot decide it, or if it was not tested."""
    p: float | None = None
    test: str = ""
    """The test; without a p-value, the reason why there is none."""

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


def format_p(p: float) -> str:
    """A p-value for people.

    >>> format_p(0.0312), format_p(1e-9)
    ('0.031', '<.0001')
    """
    return "<.0001" if p < 1e-4 else f"{p:.2g}"


@dataclass(frozen=True)
class ItemContent:
    """A table or figure as we reproduce it."""

    tables: tuple[TextTable, ...] = ()
    charts: Mapping[str, Chart] = field(default_factory=dict)
    """By file name, without suffix."""
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    """How the numbers were made, a sentence each."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """The same as plain data."""


@dataclass(frozen=True, eq=False)
class ItemInputs:
    """What an item is made from, by the name of the data."""

    studies: Mapping[str, Sequence[FinishedStudy]]
    sources: Mapping[str, DataSource]
    budget: Budget
    roles: Mapping[str, str]
    """The paper's data set that the data are, or stand for."""
    published: frozenset[str] = frozenset()
    """Names of the data that the paper's numbers may be shown beside."""

    def single_studies(self) -> list[tuple[str, FinishedStudy]]:
        """Data set and study, for items with one study per data set."""
        return [(data, study) for data, (study,) in self.studies.items()]


@dataclass(frozen=True)
class PaperItem(ABC):
    """A table or figure of a paper."""

    number: int
    title: str
    datasets: tuple[str, ...]
    """Data sets it uses; it is made on those that are available."""
    kind: Kind = field(default="table", kw_only=True)
    exclusive: bool = field(default=False, kw_only=True)
    """Whether another item of the paper shows the same for other data sets."""
    needs_data: bool = field(default=True, kw_only=True)
    """Whether it is left out where none of its data sets is there."""

    @property
    def name(self) -> str:
        """For people: ``Table 2``."""
        return f"{self.kind.title()} {self.number}"

    def file_name(self, *parts: str) -> str:
        """Name of a file without suffix: ``table-2``, ``figure-1-ohsumed``."""
        words = " ".join([self.kind, str(self.number), *parts])
        return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")

    @abstractmethod
    def studies(self, data: str, budget: Budget) -> Sequence[Study]:
        """Studies to run on one of its data sets, or on data that stand for it."""

    @abstractmethod
    def show(self, inputs: ItemInputs) -> ItemContent:
        """The content, once its studies have been run."""


@dataclass(frozen=True)
class PaperTable(PaperItem):
    """A table of a paper."""


@dataclass(frozen=True)
class PaperFigure(PaperItem):
    """A figure of a paper."""

    kind: Kind = field(default="figure", kw_only=True)


@dataclass(frozen=True)
class Paper:
    """One of the four papers."""

    letter: str
    authors: str
    """With the year."""
    title: str
    items: tuple[PaperItem, ...]
    convention: str
    """How its metrics are computed, a sentence or two."""
    left_out: str = ""
    """Tables and figures that are not reproduced, and why."""
    view: View = "all"
    """Which folds of the data it uses."""
    prepare: Callable[[DataSource], DataSource] | None = None
    """What it does to the data first."""

    def item(self, kind: Kind, number: int) -> PaperItem:
        """One of its tables or figures."""
        for item in self.items:
            if (item.kind, item.number) == (kind, number):
                return item
        names = ", ".join(item.name for item in self.items)
        raise UsageError(
            f"paper {self.letter} has no {kind} {number} to reproduce. There are: {names}."
            + (f" {self.left_out}" if self.left_out else "")
        )
