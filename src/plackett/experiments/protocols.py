"""Protocols: how data are divided into splits, and on what a comparison is tested.

==============  ==================================================================================
``folds``       the folds that the data come in; every list is a test list once
``folds:N``     cross-validation with N folds
``splits:N``    N random splits, to see what depends on the division
``seeds:N``     one split, N seeds of the model, to see what depends on chance in training
``holdout``     one split: the one that the data come with, or a random one
==============  ==================================================================================
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
from plackett.base.ragged import Values
from plackett.data import Dataset, fingerprint
from plackett.data.folds import Fold, join_folds, shuffle_lists, split as split_lists
from plackett.data.large_arrays import check_before_use
from plackett.experiments.significance import resampled_t_test

VALIDATION_SHARE = 0.2  # share of the training lists that is used for validation if the data come without such lists
SHARES = (0.6, 0.2, 0.2)  # shares of training, validation and test lists in a random split

Unit = Literal["lists", "trials"]


@dataclass(frozen=True, eq=False)
class DataSource:
    """The data of an experiment: one data set (``whole``) or one that comes in ``folds``."""

    name: str
    whole: Dataset | None = None
    folds: tuple[Fold, ...] = ()

    @cached_property
    def pooled(self) -> Dataset:
        """All lists, each once: the test lists of several folds, or all parts of a single one."""
        return self.whole if self.whole is not None else join_folds(self.folds)

    @cached_property
    def pooled_fingerprint(self) -> str:
        """Fingerprint of the contents of :attr:`pooled`."""
        return fingerprint(self.pooled)

    @property
    def training_size(self) -> tuple[int, int]:
        """Approximate number of documents in the training lists of a split, and number of features."""
        if self.whole is not None:
            return round(SHARES[0] * self.whole.n_docs), self.whole.n_features
        return self.folds[0].train.n_docs, self.folds[0].train.n_features

    def only_fold(self) -> Fold | None:
        """The fold, if the data come in exactly one; None if they are not divided."""
        if len(self.folds) > 1:
            names = ", ".join(fold.name for fold in self.folds)
            raise UsageError(
                f"{self.name} has {len(self.folds)} folds, and this protocol uses only one "
                f"division of the data: pass one of them ({names}), or use the protocol folds."
            )
        return self.folds[0] if self.folds else None

    def map(self, change: Callable[[Dataset], Dataset]) -> DataSource:
        """The same source with every data set changed."""
        whole = None if self.whole is None else change(self.whole)
        folds = []
        for fold in self.folds:
            validation = None if fold.validation is None else change(fold.validation)
            folds.append(Fold(fold.name, change(fold.train), validation, change(fold.test)))
        return DataSource(self.name, whole, tuple(folds))


def as_source(data: Dataset | Fold | Sequence[Fold] | DataSource, *, name: str = "data") -> DataSource:
    """Make a data source; one that is a source already is returned as it is."""
    if isinstance(data, DataSource):
        return data
    if isinstance(data, Dataset):
        check_before_use(data.features)
        return DataSource(name, whole=data)
    folds = (data,) if isinstance(data, Fold) else data
    if not isinstance(folds, (list, tuple)) or not all(isinstance(fold, Fold) for fold in folds):
        raise UsageError(
            f"experiments take a plackett.Dataset, a Fold or several folds, got "
            f"{type(data).__name__}; plackett.read and plackett.Dataset.from_arrays make data sets."
        )
    folds = tuple(folds)
    if not folds:
        raise UsageError("there are no data to compare on: the sequence of folds is empty.")
    for part in (part for fold in folds for part in fold.parts.values()):
        check_before_use(part.features)
    return DataSource(name, folds=folds)


def fold_fingerprint(fold: Fold) -> str:
    """Fingerprint of the contents of a fold; its name does not matter."""
    parts = (fold.train, fold.validation, fold.test)
    text = "".join("none" if part is None else fingerprint(part) for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Split:
    """A split before its data are made; small enough to be sent anywhere."""

    name: str
    data: str  # fingerprint of the data that are divided
    division: str  # how they are divided, as text that determines it
    seed: int  # seed of the model
    index: int  # position among the splits of the protocol


@dataclass(frozen=True, eq=False)
class SplitData:
    """Training, validation and test lists of a split."""

    train: Dataset
    validation: Dataset
    test: Dataset


class Protocol(ABC):
    """How data are divided into splits.

    Subclasses are frozen dataclasses; ``str`` returns the name that :func:`protocol` parses.
    """

    unit: ClassVar[Unit] = "lists"  # what significance tests pair: test lists, or trials by their means
    alpha: ClassVar[float] = 0.05  # level of significance
    description: ClassVar[str]  # how the numbers are computed, in a sentence or two for reports

    @abstractmethod
    def splits(self, source: DataSource) -> tuple[Split, ...]:
        """The splits, without making their data."""

    @abstractmethod
    def load(self, source: DataSource, split: Split) -> SplitData:
        """Make the data of a split; the result depends on the arguments alone."""


def _describe_fold(fold: Fold, seed: int) -> str:
    """The division that :func:`_load_fold` makes."""
    if fold.validation is not None:
        return "as given"
    return f"as given; {VALIDATION_SHARE:g} of the training lists for validation, seed {seed}"


def _load_fold(fold: Fold, seed: int) -> SplitData:
    """The parts of a fold; without validation lists, some of the training lists are used."""
    if fold.validation is not None:
        return SplitData(fold.train, fold.validation, fold.test)
    train, validation = split_lists(fold.train, (1 - VALIDATION_SHARE, VALIDATION_SHARE), seed=seed)
    return SplitData(train, validation, fold.test)


def _describe_random(seed: int) -> str:
    """The division of a random split."""
    return f"split {'/'.join(f'{share:g}' for share in SHARES)}, seed {seed}"


_LEAST_FOLDS = 3  # for training, validation and test


@dataclass(frozen=True)
class Folds(Protocol):
    """Cross-validation over folds; the values of all test lists are pooled (Dubey et al. 2009).

    With ``count`` None these are the folds that the data come in. Otherwise the lists are divided into ``count`` parts;
    fold i tests on part i, validates on the next part and trains on the others, as the folds of LETOR do.
    """

    description: ClassVar[str] = (
        "Each list is a test list in one fold; the values of all folds are pooled, and tests pair the lists."
    )

    count: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count is not None and self.count < _LEAST_FOLDS:
            raise UsageError(f"folds must be at least {_LEAST_FOLDS}, got {self.count}.")

    def splits(self, source: DataSource) -> tuple[Split, ...]:
        if self.count is not None:
            data = source.pooled_fingerprint
            return tuple(
                Split(f"fold {i + 1}", data, f"part {i + 1} of {self.count}, seed {self.seed}", self.seed, i)
                for i in range(self.count)
            )
        if not source.folds:
            raise UsageError(
                f"{source.name} does not come in folds; use folds:5 to make some, splits:10 for "
                "random splits, or holdout."
            )
        return tuple(
            Split(fold.name, fold_fingerprint(fold), _describe_fold(fold, self.seed), self.seed, i)
            for i, fold in enumerate(source.folds)
        )

    def load(self, source: DataSource, split: Split) -> SplitData:
        if self.count is None:
            return _load_fold(source.folds[split.index], self.seed)
        data = source.pooled
        places, count = shuffle_lists(data, seed=self.seed)
        if count < self.count:
            what = "lists" if data.groups is None else "groups of lists"
            raise DataError(f"{count} {what} cannot be cut into {self.count} folds.")
        places %= self.count
        test, validation = split.index, (split.index + 1) % self.count
        return SplitData(
            train=data.select(np.flatnonzero((places != test) & (places != validation))),
            validation=data.select(np.flatnonzero(places == validation)),
            test=data.select(np.flatnonzero(places == test)),
        )

    def __str__(self) -> str:
        return "folds" if self.count is None else f"folds:{self.count}"


def _plan_single(source: DataSource, name: str, seed: int) -> Split:
    """The split of a protocol that divides the data once."""
    fold = source.only_fold()
    if fold is None:
        return Split(name, source.pooled_fingerprint, _describe_random(seed), seed, 0)
    return Split(name, fold_fingerprint(fold), _describe_fold(fold, seed), seed, 0)


def _load_single(source: DataSource, seed: int) -> SplitData:
    fold = source.only_fold()
    return SplitData(*split_lists(source.pooled, SHARES, seed=seed)) if fold is None else _load_fold(fold, seed)


@dataclass(frozen=True)
class Holdout(Protocol):
    """The division that the data come with, or one random split 60/20/20; ``seed`` seeds the models and the split."""

    description: ClassVar[str] = "One division of the lists; tests pair the test lists."

    seed: int = 0

    def splits(self, source: DataSource) -> tuple[Split, ...]:
        return (_plan_single(source, "holdout", self.seed),)

    def load(self, source: DataSource, split: Split) -> SplitData:  # noqa: ARG002
        return _load_single(source, self.seed)

    def __str__(self) -> str:
        return "holdout"


@dataclass(frozen=True)
class Seeds(Protocol):
    """Training repeated with other seeds; mean and 95 % interval over them (Bruch et al. 2020).

    Data that come without a division are split 60/20/20 once. The interval of a system's mean is
    over seeds. The values of a list are averaged over seeds before systems are compared on it, so
    that tests say whether the difference would hold on other lists. The first seed is also that of the division.
    """

    description: ClassVar[str] = (
        "Each trial trains with another seed on the same lists. Intervals of means are Student's "
        "over seeds; tests pair the lists by their values averaged over seeds."
    )

    count: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        _check_repeats("seeds", self.count)

    def splits(self, source: DataSource) -> tuple[Split, ...]:
        first = _plan_single(source, "", self.seed)
        return tuple(
            replace(first, name=f"seed {self.seed + i}", seed=self.seed + i, index=i) for i in range(self.count)
        )

    def load(self, source: DataSource, split: Split) -> SplitData:  # noqa: ARG002
        return _load_single(source, self.seed)

    def __str__(self) -> str:
        return f"seeds:{self.count}"


@dataclass(frozen=True)
class Splits(Protocol):
    """Random splits 60/20/20; means of trials are compared by a paired t-test (Bruch 2021).

    Splits share most of their lists, so the differences between trials are not independent and the plain t-test rejects
    too often. Reports also show the corrected test (:func:`plackett.experiments.significance.resampled_t_test`). Seeds
    of splits and models count up from ``seed``.
    """

    unit: ClassVar[Unit] = "trials"
    alpha: ClassVar[float] = 0.01
    description: ClassVar[str] = (
        "Each trial splits the lists at random, 60/20/20 for training, validation and test; tests "
        "pair the trials by their means. Splits overlap, which makes the plain t-test optimistic: "
        "the corrected resampled t-test (Nadeau & Bengio 2003) is shown next to it."
    )

    count: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        _check_repeats("splits", self.count)

    def splits(self, source: DataSource) -> tuple[Split, ...]:
        data = source.pooled_fingerprint
        return tuple(
            Split(f"split {i + 1}", data, _describe_random(self.seed + i), self.seed + i, i) for i in range(self.count)
        )

    def load(self, source: DataSource, split: Split) -> SplitData:
        return SplitData(*split_lists(source.pooled, SHARES, seed=split.seed))

    def resampled_t_test(self, differences: Values) -> float:
        """p-value of the differences between two systems, one per split, corrected for the overlap of splits."""
        return resampled_t_test(differences, test_share=SHARES[2], train_share=SHARES[0])

    def __str__(self) -> str:
        return f"splits:{self.count}"


def _check_repeats(name: str, count: int) -> None:
    if count < 2:
        raise UsageError(f"{name} must be at least 2, got {count}; for a single one use holdout.")


_COUNTED: dict[str, Callable[[int, int], Protocol]] = {"folds": Folds, "splits": Splits, "seeds": Seeds}
PROTOCOLS = ("folds", "folds:N", "splits:N", "seeds:N", "holdout")  # the names, N being a number


def protocol(name: str | Protocol, *, seed: int = 0) -> Protocol:
    """Make a protocol from its name; a protocol is returned as it is.

    >>> protocol("splits:20")
    Splits(count=20, seed=0)
    >>> str(protocol("splits:20"))
    'splits:20'
    """
    if isinstance(name, Protocol):
        return name
    kind, colon, number = str(name).strip().lower().partition(":")
    if kind == "holdout" and not colon:
        return Holdout(seed)
    if kind in _COUNTED and not colon:
        return _COUNTED[kind](seed=seed)  # type: ignore[call-arg] # the count has a default
    if kind in _COUNTED and number.isascii() and number.isdigit():
        return _COUNTED[kind](int(number), seed)
    raise UsageError(f"there is no protocol {name!r}. There are: {', '.join(PROTOCOLS)} (N a number).")
