"""The data set's folds: every list is a test list once, and lists of all folds are pooled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plackett.base.errors import DataError, UsageError
from plackett.data.folds import shuffled
from plackett.experiments.protocols.protocol import Part, Protocol, Trial, as_given, given_division
from plackett.experiments.protocols.source import Source, fold_fingerprint

_LEAST = 3  # parts: to learn from, to choose on, to measure on


@dataclass(frozen=True)
class Folds(Protocol):
    """Cross-validation over folds, with per-list values of all folds pooled (Dubey et al. 2009).

    Parameters
    ----------
    count
        None: the folds that the data come in. A number: cut whole data into so many parts; fold i
        measures on part i, chooses on the part after it, and learns from the rest, as the folds
        of LETOR do.
    seed
        Of models, and of parts that are cut.
    """

    account: ClassVar[str] = (
        "Each list is a test list in one fold; the values of all folds are pooled, and tests pair "
        "the lists."
    )

    count: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count is not None and self.count < _LEAST:
            raise UsageError(f"folds must be at least {_LEAST}, got {self.count}.")

    def plan(self, source: Source) -> tuple[Part, ...]:
        if self.count is None:
            return self._given(source)
        data = source.pooled_fingerprint
        division = f"part {{}} of {self.count}, seed {self.seed}"
        return tuple(
            Part(f"fold {i + 1}", data, division.format(i + 1), self.seed, i)
            for i in range(self.count)
        )

    def _given(self, source: Source) -> tuple[Part, ...]:
        if not source.folds:
            raise UsageError(
                f"{source.name} has no folds of its own; choose folds:5 to cut some, splits:10 for "
                "random splits, or holdout."
            )
        return tuple(
            Part(fold.name, fold_fingerprint(fold), given_division(fold, self.seed), self.seed, i)
            for i, fold in enumerate(source.folds)
        )

    def trial(self, source: Source, part: Part) -> Trial:
        if self.count is None:
            fold = source.folds[part.index]
            return as_given(fold, name=part.name, seed=part.seed, division_seed=self.seed)
        data = source.pooled
        place, count = shuffled(data, seed=self.seed)
        if count < self.count:
            what = "lists" if data.groups is None else "groups of lists"
            raise DataError(f"{count} {what} cannot be cut into {self.count} folds.")
        place %= self.count
        tests, chooses = part.index, (part.index + 1) % self.count
        return Trial(
            part.name,
            train=data.select(np.flatnonzero((place != tests) & (place != chooses))),
            validation=data.select(np.flatnonzero(place == chooses)),
            test=data.select(np.flatnonzero(place == tests)),
            seed=part.seed,
        )

    def __str__(self) -> str:
        return "folds" if self.count is None else f"folds:{self.count}"
