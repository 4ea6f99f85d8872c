"""Protocols: how data are divided into trials, and over what a comparison is tested.

The data that a protocol divides: one data set, or one that comes in folds.

What a protocol is: a plan of trials, made from data and numbers alone.

The data set's folds: every list is a test list once, and lists of all folds are pooled.

One division of the data: the one it comes with, or a random one.

One division of the data, each system trained once.

Many seeds on one division of the data, to see what depends on chance in training.

Many random splits of one data set, to see what depends on the division.

Protocols by name: ``folds``, ``folds:5``, ``splits:100``, ``seeds:10``, ``holdout``.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from plackett.base.errors import DataError, UsageError
from plackett.data.dataset import Dataset, fingerprint
from plackett.data.folds import Fold, concat, shuffle_lists, split


@dataclass(frozen=True, eq=False)
class DataSource:
    """Data with a name; either ``whole`` or ``folds`` is there."""

    name: str
    whole: Dataset | None = None
    folds: tuple[Fold, ...] = ()

    @cached_property
    def pooled(self) -> Dataset:
        """All lists, each once.

        Of several folds these are their test lists, which together are the data set; of a single
        one its training, validation and test lists.
        """
        if self.whole is not None:
            return self.whole
        if len(self.folds) > 1:
            return concat([fold.test for fold in self.folds])
        return concat([part for part in fold_parts(self.folds[0]) if part is not None])

    @cached_property
    def pooled_fingerprint(self) -> str:
        """Names the contents of :attr:`pooled`."""
        return fingerprint(self.pooled)

    def fixed(self) -> Fold | None:
        """The division that comes with the data, if there is exactly one; None for a whole set."""
        if len(self.folds) > 1:
            raise UsageError(
                f"{self.name} has {len(self.folds)} folds, and this protocol takes one division "
                f"of the data: give one of them ({', '.join(f.name for f in self.folds)}), or "
                "choose the protocol folds."
            )
        return self.folds[0] if self.folds else None


def as_source(
    data: Dataset | Fold | Sequence[Fold] | DataSource, *, name: str = "data"
) -> DataSource:
    """Data in any form, with a name for people."""
    if isinstance(data, DataSource):
        return data
    if isinstance(data, Dataset):
        return DataSource(name, whole=data)
    folds = (data,) if isinstance(data, Fold) else tuple(data)
    if not folds:
        raise UsageError("there are no data to compare on: the sequence of folds is empty.")
    return DataSource(name, folds=folds)


def fold_parts(fold: Fold) -> tuple[Dataset, Dataset | None, Dataset]:
    """Its training, validation and test lists."""
    return fold.train, fold.validation, fold.test


def fold_fingerprint(fold: Fold) -> str:
    """Names the contents of a fold; its own name does not matter."""
    digest = hashlib.sha256()
    for part in fold_parts(fold):
        digest.update((fingerprint(part) if part is not None else "none").encode())
    return digest.hexdigest()[:32]


VALIDATION_SHARE = 0.2
"""Of the training lists, where data come without a validation part."""
SHARES = (0.6, 0.2, 0.2)
"""Training, validation and test lists of a random split."""

Unit = Literal["lists", "trials"]


@dataclass(frozen=True)
class Split:
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
class SplitData:
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
    description: ClassVar[str]
    """How numbers come about, a sentence or two for the reader of a report."""

    @abstractmethod
    def plan(self, source: DataSource) -> tuple[Split, ...]:
        """The trials, without making their data."""

    @abstractmethod
    def trial(self, source: DataSource, part: Split) -> SplitData:
        """The data of one trial of the plan; the same whenever and wherever it is called."""


def given_division(fold: Fold, seed: int) -> str:
    """How :func:`as_given` makes the parts of a trial."""
    if fold.validation is not None:
        return "as given"
    return f"as given; {VALIDATION_SHARE:g} of the training lists for validation, seed {seed}"


def as_given(fold: Fold, *, name: str, seed: int, division_seed: int) -> SplitData:
    """The parts as they come; without validation lists, some of the training lists are taken."""
    train, validation = fold.train, fold.validation
    if validation is None:
        shares = (1 - VALIDATION_SHARE, VALIDATION_SHARE)
        train, validation = split(train, shares, seed=division_seed)
    return SplitData(name, train, validation, fold.test, seed)


def split_division(seed: int) -> str:
    """How :func:`at_random` makes the parts of a trial."""
    return f"split {'/'.join(f'{share:g}' for share in SHARES)}, seed {seed}"


def at_random(data: Dataset, *, name: str, seed: int, division_seed: int) -> SplitData:
    """Lists at random: 60 % to learn from, 20 % to choose on, 20 % to measure on."""
    train, validation, test = split(data, SHARES, seed=division_seed)
    return SplitData(name, train, validation, test, seed)


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

    description: ClassVar[str] = (
        "Each list is a test list in one fold; the values of all folds are pooled, and tests pair "
        "the lists."
    )

    count: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count is not None and self.count < _LEAST:
            raise UsageError(f"folds must be at least {_LEAST}, got {self.count}.")

    def plan(self, source: DataSource) -> tuple[Split, ...]:
        if self.count is None:
            return self._given(source)
        data = source.pooled_fingerprint
        division = f"part {{}} of {self.count}, seed {self.seed}"
        return tuple(
            Split(f"fold {i + 1}", data, division.format(i + 1), self.seed, i)
            for i in range(self.count)
        )

    def _given(self, source: DataSource) -> tuple[Split, ...]:
        if not source.folds:
            raise UsageError(
                f"{source.name} has no folds of its own; choose folds:5 to cut some, splits:10 for "
                "random splits, or holdout."
            )
        return tuple(
            Split(fold.name, fold_fingerprint(fold), given_division(fold, self.seed), self.seed, i)
            for i, fold in enumerate(source.folds)
        )

    def trial(self, source: DataSource, part: Split) -> SplitData:
        if self.count is None:
            fold = source.folds[part.index]
            return as_given(fold, name=part.name, seed=part.seed, division_seed=self.seed)
        data = source.pooled
        place, count = shuffle_lists(data, seed=self.seed)
        if count < self.count:
            what = "lists" if data.groups is None else "groups of lists"
            raise DataError(f"{count} {what} cannot be cut into {self.count} folds.")
        place %= self.count
        tests, chooses = part.index, (part.index + 1) % self.count
        return SplitData(
            part.name,
            train=data.select(np.flatnonzero((place != tests) & (place != chooses))),
            validation=data.select(np.flatnonzero(place == chooses)),
            test=data.select(np.flatnonzero(place == tests)),
            seed=part.seed,
        )

    def __str__(self) -> str:
        return "folds" if self.count is None else f"folds:{self.count}"


def fixed_part(
    source: DataSource, *, name: str, seed: int, division_seed: int, index: int
) -> Split:
    """A trial on the one division, with this seed of the model."""
    fold = source.fixed()
    if fold is None:
        division = split_division(division_seed)
        return Split(name, source.pooled_fingerprint, division, seed, index)
    return Split(name, fold_fingerprint(fold), given_division(fold, division_seed), seed, index)


def fixed_trial(source: DataSource, part: Split, *, division_seed: int) -> SplitData:
    """The data of such a trial."""
    fold = source.fixed()
    if fold is None:
        return at_random(source.pooled, name=part.name, seed=part.seed, division_seed=division_seed)
    return as_given(fold, name=part.name, seed=part.seed, division_seed=division_seed)


@dataclass(frozen=True)
class Holdout(Protocol):
    """The division that the data come with, or one random split 60/20/20.

    Parameters
    ----------
    seed
        Of models and of the split.
    """

    description: ClassVar[str] = "One division of the lists; tests pair the test lists."

    seed: int = 0

    def plan(self, source: DataSource) -> tuple[Split, ...]:
        part = fixed_part(source, name="holdout", seed=self.seed, division_seed=self.seed, index=0)
        return (part,)

    def trial(self, source: DataSource, part: Split) -> SplitData:
        return fixed_trial(source, part, division_seed=self.seed)

    def __str__(self) -> str:
        return "holdout"


@dataclass(frozen=True)
class Seeds(Protocol):
    """Training repeated with other seeds; mean and 95 % interval over them (Bruch et al. 2020).

    Data without a division of their own are split 60/20/20 once. The interval of a system's mean
    is over seeds. A list's values are averaged over seeds before systems are compared on it, so
    that tests say whether the difference would hold on other lists.

    Parameters
    ----------
    count
        Number of seeds; the paper took 10.
    seed
        The first, and that of the division; the others count up from it.
    """

    description: ClassVar[str] = (
        "Each trial trains with another seed on the same lists. Intervals of means are Student's "
        "over seeds; tests pair the lists by their values averaged over seeds."
    )

    count: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count < 2:
            raise UsageError(
                f"seeds must be at least 2, got {self.count}; for a single one choose holdout."
            )

    def plan(self, source: DataSource) -> tuple[Split, ...]:
        first = fixed_part(source, name="", seed=self.seed, division_seed=self.seed, index=0)
        return tuple(
            replace(first, name=f"seed {self.seed + i}", seed=self.seed + i, index=i)
            for i in range(self.count)
        )

    def trial(self, source: DataSource, part: Split) -> SplitData:
        return fixed_trial(source, part, division_seed=self.seed)

    def __str__(self) -> str:
        return f"seeds:{self.count}"


@dataclass(frozen=True)
class Splits(Protocol):
    """Random splits 60/20/20 by list; means of trials are compared by a paired t-test (Bruch 2021).

    Trials share most of their lists, so their differences are not independent and the plain t-test
    finds too much. The corrected one (:func:`plackett.experiments.significance.resampled_t_test`)
    is reported beside it.

    Parameters
    ----------
    count
        Number of splits; the paper made 100.
    seed
        Of the first split and its models; the others count up from it.
    """

    unit: ClassVar[Unit] = "trials"
    alpha: ClassVar[float] = 0.01
    test_share: ClassVar[float] = SHARES[2]
    train_share: ClassVar[float] = SHARES[0]
    description: ClassVar[str] = (
        "Each trial splits the lists at random, 60/20/20 for training, validation and test; tests "
        "pair the trials by their means. Splits overlap, which makes the plain t-test optimistic: "
        "the corrected resampled t-test (Nadeau & Bengio 2003) stands beside it."
    )

    count: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count < 2:
            raise UsageError(
                f"splits must be at least 2, got {self.count}; for a single one choose holdout."
            )

    def plan(self, source: DataSource) -> tuple[Split, ...]:
        data = source.pooled_fingerprint
        return tuple(
            Split(f"split {i + 1}", data, split_division(self.seed + i), self.seed + i, i)
            for i in range(self.count)
        )

    def trial(self, source: DataSource, part: Split) -> SplitData:
        return at_random(source.pooled, name=part.name, seed=part.seed, division_seed=part.seed)

    def __str__(self) -> str:
        return f"splits:{self.count}"


_COUNTED: dict[str, Callable[[int, int], Protocol]] = {
    "folds": lambda count, seed: Folds(count, seed),
    "splits": lambda count, seed: Splits(count, seed),
    "seeds": lambda count, seed: Seeds(count, seed),
}
_PLAIN: dict[str, Callable[[int], Protocol]] = {
    "folds": lambda seed: Folds(seed=seed),
    "splits": lambda seed: Splits(seed=seed),
    "seeds": lambda seed: Seeds(seed=seed),
    "holdout": lambda seed: Holdout(seed),
}
PROTOCOLS = ("folds", "folds:N", "splits:N", "seeds:N", "holdout")
"""The spellings, N being a number."""


def protocol(spelling: str | Protocol, *, seed: int = 0) -> Protocol:
    """Make a protocol from its spelling; a protocol is returned as it is.

    >>> protocol("splits:20")
    Splits(count=20, seed=0)
    >>> str(protocol("splits:20"))
    'splits:20'
    """
    if isinstance(spelling, Protocol):
        return spelling
    name, sign, number = spelling.strip().lower().partition(":")
    if not sign and name in _PLAIN:
        return _PLAIN[name](seed)
    if sign and name in _COUNTED and number.isascii() and number.isdigit():
        return _COUNTED[name](int(number), seed)
    raise UsageError(
        f"there is no protocol {spelling!r}. There are: {', '.join(PROTOCOLS)} (N a number)."
    )


__all__ = [
    "PROTOCOLS",
    "DataSource",
    "Folds",
    "Holdout",
    "Protocol",
    "Seeds",
    "Split",
    "SplitData",
    "Splits",
    "as_source",
    "protocol",
]
