"""The data of a reproduction: what was found, or what stands in for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from plackett.base.errors import DataError
from plackett.experiments.papers.budget import Budget
from plackett.experiments.papers.exhibit import Paper
from plackett.experiments.papers.finding import (
    Place,
    Progress,
    compared_with_published,
    find_sets,
    load,
)
from plackett.experiments.papers.sets import SETS
from plackett.experiments.papers.standing import reduced, stand_in
from plackett.experiments.protocols import Source

Reading = Callable[[str], AbstractContextManager[Progress]]
"""Given what is being read, a context that takes bytes done and bytes in all."""


@dataclass(eq=False)
class Shelf:
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
    _sources: dict[str, Source] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.places = {} if self.folder is None else find_sets(self.folder)

    def has(self, name: str) -> bool:
        """Whether there is something to run on."""
        return name in self.places or self.budget.quick

    def source(self, name: str) -> Source:
        """The data, prepared."""
        if name not in self._sources:
            found = self._found(name) if name in self.places else self._stand_in(name)
            prepare = self.paper.prepare
            self._sources[name] = found if prepare is None else prepare(found)
        return self._sources[name]

    def _found(self, name: str) -> Source:
        place = self.places[name]
        with self.reading(f"reading {name}") as progress:
            source = load(place, self.paper.view, progress)
        self.notes.append(compared_with_published(place.known, source))
        return reduced(source, place.known) if self.budget.quick else source

    def _stand_in(self, name: str) -> Source:
        if not self.budget.quick:
            raise DataError(f"{name} was not found: {SETS[name].where}.", path=str(self.folder))
        source = stand_in(SETS[name], self.paper.view)
        self.notes.append(
            f"{name} is not here: {SETS[name].quick_lists} synthetic lists of the kind "
            f"{SETS[name].stand_in!r} stand in for it, and the paper's numbers do not apply."
        )
        return source

    def lacking(self, name: str) -> str:
        """What to look for, of a set that is not there."""
        return f"{name} ({SETS[name].where})"
