"""What a protocol is: a plan of trials, made from data and numbers alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from plackett.data.dataset import Dataset
from plackett.data.folds import Fold, split
from plackett.experiments.protocols.source import Source

VALIDATION_SHARE = 0.2
"""Of the training lists, where data come without a validation part."""
SHARES = (0.6, 0.2, 0.2)
"""Training, validation and test lists of a random split."""

Unit = Literal["lists", "trials"]


@dataclass(frozen=True)
class Part:
    """One trial before its data are made; small enough to be sent anywhere."""

    name: str
    """For people."""
    data: str
    """Fingerprint of the data it divides."""
    division: str
    """How, in words that determine it."""
    seed: int
    """Of the model."""
    index: int
    """Its place in the plan."""


@dataclass(frozen=True, eq=False)
class Trial:
    """Lists to learn from, to choose on, and to measure on."""

    name: str
    train: Dataset
    validation: Dataset
    test: Dataset
    seed: int


class Protocol(ABC):
    """How data are divided into trials.

    Subclasses are frozen dataclasses; ``str`` gives the spelling that :func:`~plackett.experiments.
    protocols.spelling.protocol` reads.
    """

    unit: ClassVar[Unit] = "lists"
    """What is paired in tests of significance: test lists, or trials by their means."""
    alpha: ClassVar[float] = 0.05
    """Level of significance."""
    account: ClassVar[str]
    """How numbers come about, a sentence or two for the reader of a report."""

    @abstractmethod
    def plan(self, source: Source) -> tuple[Part, ...]:
        """The trials, without making their data."""

    @abstractmethod
    def trial(self, source: Source, part: Part) -> Trial:
        """The data of one trial of the plan; the same whenever and wherever it is called."""


def given_division(fold: Fold, seed: int) -> str:
    """How :func:`as_given` makes the parts of a trial."""
    if fold.validation is not None:
        return "as given"
    return f"as given; {VALIDATION_SHARE:g} of the training lists for validation, seed {seed}"


def as_given(fold: Fold, *, name: str, seed: int, division_seed: int) -> Trial:
    """The parts as they come; without validation lists, some of the training lists are taken."""
    train, validation = fold.train, fold.validation
    if validation is None:
        shares = (1 - VALIDATION_SHARE, VALIDATION_SHARE)
        train, validation = split(train, shares, seed=division_seed)
    return Trial(name, train, validation, fold.test, seed)


def split_division(seed: int) -> str:
    """How :func:`at_random` makes the parts of a trial."""
    return f"split {'/'.join(f'{share:g}' for share in SHARES)}, seed {seed}"


def at_random(data: Dataset, *, name: str, seed: int, division_seed: int) -> Trial:
    """Lists at random: 60 % to learn from, 20 % to choose on, 20 % to measure on."""
    train, validation, test = split(data, SHARES, seed=division_seed)
    return Trial(name, train, validation, test, seed)
