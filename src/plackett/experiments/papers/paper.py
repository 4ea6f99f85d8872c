"""A table or figure of a paper: what it needs, and what it shows once that has been run.

How much is spent on a reproduction: the paper's settings, or less of it, said in words.

One comparison that a table or figure rests on: which systems, on what data, measured how.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from plackett.base.errors import UsageError
from plackett.experiments.papers.datasets import View
from plackett.experiments.plan import Plan, plan_comparison
from plackett.experiments.protocols import DataSource, Protocol
from plackett.experiments.results import ComparisonResults, gather
from plackett.experiments.robustness import RobustnessCurves, read_curves
from plackett.experiments.store import RunStore
from plackett.experiments.tables import TextTable
from plackett.models import RECIPES, recipe
from plackett.models.ranker import Ranker

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


@dataclass(frozen=True)
class Budget:
    """What a reproduction may cost.

    Parameters
    ----------
    quick
        Small models, few trials and few lists.
    trials
        Instead of the paper's number of repeated trials.
    settings
        Parameters to change in every system that has them.
    seed
        Of divisions, models and synthetic data.
    """

    quick: bool = False
    trials: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    def ranker(self, name: str, preset: str | None = None, **own: Any) -> Ranker:
        """A recipe as the paper set it, or cut.

        Parameters
        ----------
        name
            Of a recipe.
        preset
            The paper's settings for the data; left out where the recipe has none of that name.
        own
            What this paper has different.
        """
        known = preset if preset in RECIPES[name].presets else None
        ranker = recipe(name, preset=known, **own)
        return self.cut(ranker)

    def cut(self, ranker: Ranker) -> Ranker:
        """The ranker with what this budget changes."""
        has = ranker.get_params()
        if self.quick:
            small = _QUICK_TREES if "trees" in has else _QUICK_NETS
            small = small if "trees" in has or "layers" in has else _QUICK_LINEAR
            ranker.set_params(**{k: v for k, v in small.items() if k in has})
        return ranker.set_params(**{k: v for k, v in self.settings.items() if k in has})

    def count(self, paper: int, quick: int) -> int:
        """Trials of a protocol that repeats."""
        return self.trials or (quick if self.quick else paper)

    def words(self) -> tuple[str, ...]:
        """What differs from the papers, a sentence each; nothing if nothing does."""
        found = []
        if self.quick:
            found.append(
                "QUICK: few lists, few trials, and small models (at most "
                f"{_QUICK_TREES['trees']} trees of {_QUICK_TREES['leaves']} leaves, nets of layers "
                f"{_QUICK_NETS['layers']} for {_QUICK_NETS['epochs']} epochs, four values of C). "
                "It shows how the results look, not what they are."
            )
        if self.trials:
            found.append(f"{self.trials} trials where the paper repeats, whatever it has.")
        if self.settings:
            changed = ", ".join(f"{key} = {value}" for key, value in self.settings.items())
            found.append(f"Settings changed in every system that has them: {changed}.")
        return tuple(found)


@dataclass(frozen=True, eq=False)
class Study:
    """What is to be run on one data set.

    Two studies may share trials: the store knows a trial by what determines it and runs it once.
    """

    data: str
    """Name of the set."""
    systems: Mapping[str, Ranker]
    """By the names that the paper gives them."""
    protocol: Protocol
    metrics: tuple[str, ...]
    select: str
    """What models are chosen by on the validation lists; several with commas between."""
    baseline: str | None = None
    name: str = ""
    """Tells the studies of one exhibit and data set apart."""

    def plan(self, source: DataSource) -> Plan:
        """Its trials on these data."""
        return plan_comparison(
            source,
            self.systems,
            protocol=self.protocol,
            metrics=self.metrics,
            baseline=self.baseline,
            select=self.select,
        )


@dataclass(frozen=True, eq=False)
class Done:
    """A study whose trials are all in the store."""

    study: Study
    plan: Plan
    store: RunStore

    @cached_property
    def gathered(self) -> ComparisonResults:
        """Values of its systems."""
        return gather(
            self.plan.jobs,
            store=self.store,
            source=self.plan.source,
            protocol=self.plan.protocol,
            metrics=self.plan.metrics,
            select=self.plan.select.split(",")[0],
        )

    @cached_property
    def under_noise(self) -> RobustnessCurves:
        """Its curves, if it is a study under noise."""
        return read_curves(self.plan, store=self.store)


Kind = Literal["table", "figure"]


@dataclass(frozen=True)
class Claim:
    """Something that the paper says, looked for in our numbers."""

    text: str
    here: str
    """What we found, in numbers."""
    holds: bool | None
    """None: it cannot be judged by what was run."""

    @property
    def verdict(self) -> str:
        """For people."""
        return "not judged" if self.holds is None else "yes" if self.holds else "no"


@dataclass(frozen=True)
class Drawing:
    """A figure: as a file of its own, and for a report that fits any screen."""

    name: str
    """Of the file, without suffix."""
    title: str
    svg: str
    html: str
    """Empty: the report takes the SVG."""


@dataclass(frozen=True)
class ItemContent:
    """What an exhibit looks like in our hands."""

    grids: tuple[TextTable, ...] = ()
    drawings: tuple[Drawing, ...] = ()
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    """How numbers came about, a sentence each."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """The same as plain data."""


@dataclass(frozen=True, eq=False)
class Findings:
    """What an exhibit has to show itself from, by data set."""

    done: Mapping[str, Sequence[Done]]
    sources: Mapping[str, DataSource]
    budget: Budget


@dataclass(frozen=True)
class PaperItem(ABC):
    """A table or figure of a paper."""

    kind: Kind
    number: int
    title: str
    sets: tuple[str, ...]
    """Data sets it is on; those that are there are enough."""

    @property
    def name(self) -> str:
        """For people: ``Table 2``."""
        return f"{self.kind.title()} {self.number}"

    @property
    def file(self) -> str:
        """For files: ``table-2``."""
        return f"{self.kind}-{self.number}"

    @abstractmethod
    def studies(self, data: str, budget: Budget) -> Sequence[Study]:
        """What is to be run on one of its sets."""

    @abstractmethod
    def show(self, found: Findings) -> ItemContent:
        """The exhibit, once its studies have been run."""


@dataclass(frozen=True)
class Paper:
    """One of the four papers."""

    letter: str
    authors: str
    """And year."""
    title: str
    exhibits: tuple[PaperItem, ...]
    convention: str
    """How its metrics are computed, a sentence or two."""
    left_out: str = ""
    """Tables and figures that are no experiments, and what cannot be done."""
    view: View = "all"
    """Which folds of the data it takes."""
    prepare: Callable[[DataSource], DataSource] | None = None
    """What it does to the data first."""

    def exhibit(self, kind: Kind, number: int) -> PaperItem:
        """One of its exhibits."""
        for each in self.exhibits:
            if (each.kind, each.number) == (kind, number):
                return each
        there = ", ".join(each.name for each in self.exhibits)
        raise UsageError(
            f"paper {self.letter} has no {kind} {number} to reproduce. There are: {there}."
            + (f" {self.left_out}" if self.left_out else "")
        )
