"""A table or figure of a paper: what it needs, and what it shows once that has been run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from plackett.base.errors import UsageError
from plackett.experiments.papers.budget import Budget
from plackett.experiments.papers.finding import View
from plackett.experiments.papers.study import Done, Study
from plackett.experiments.protocols import Source
from plackett.experiments.tables.grid import Grid

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
class Shown:
    """What an exhibit looks like in our hands."""

    grids: tuple[Grid, ...] = ()
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
    sources: Mapping[str, Source]
    budget: Budget


@dataclass(frozen=True)
class Exhibit(ABC):
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
    def show(self, found: Findings) -> Shown:
        """The exhibit, once its studies have been run."""


@dataclass(frozen=True)
class Paper:
    """One of the four papers."""

    letter: str
    authors: str
    """And year."""
    title: str
    exhibits: tuple[Exhibit, ...]
    convention: str
    """How its metrics are computed, a sentence or two."""
    left_out: str = ""
    """Tables and figures that are no experiments, and what cannot be done."""
    view: View = "all"
    """Which folds of the data it takes."""
    prepare: Callable[[Source], Source] | None = None
    """What it does to the data first."""

    def exhibit(self, kind: Kind, number: int) -> Exhibit:
        """One of its exhibits."""
        for each in self.exhibits:
            if (each.kind, each.number) == (kind, number):
                return each
        there = ", ".join(each.name for each in self.exhibits)
        raise UsageError(
            f"paper {self.letter} has no {kind} {number} to reproduce. There are: {there}."
            + (f" {self.left_out}" if self.left_out else "")
        )
