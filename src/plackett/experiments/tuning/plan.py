"""The plan of a search: the ranker, the search space and the splits that determine its trials.

Also parses dimensions as users write them: ``0.01..0.3:log``, ``8..64``, ``relu,elu``,
``[[64,32],[128]]``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Literal

import numpy as np

from plackett.base.errors import DataError, UsageError
from plackett.data.dataset import Dataset
from plackett.data.folds import split
from plackett.experiments.protocols import DataSource, fold_fingerprint
from plackett.experiments.store import Identity
from plackett.experiments.systems import System, code_version
from plackett.metrics import FunctionMetric
from plackett.models.ranker import Ranker
from plackett.models.recipes.search_spaces import Choice, Dimension, Real, Whole, get_setting


@dataclass(frozen=True)
class ValidationSplits:
    """How data are divided into training and validation lists. Test lists are never used.

    Parameters
    ----------
    folds
        Divide the lists into so many parts; each is used for validation once, the others for
        training. None: use the parts that the data come with.
    share
        Share of the lists that is held out for validation if the data come without such a part.
    seed
        Random seed.
    """

    folds: int | None = None
    share: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        if self.folds is not None and self.folds < 2:
            raise UsageError(f"folds must be at least 2, got {self.folds}.")
        if not 0 < self.share < 1:
            raise UsageError(f"the validation share must be between 0 and 1, got {self.share}.")

    def count(self, source: DataSource) -> int:
        """Number of splits that a trial is evaluated on."""
        if self.folds is None:
            return max(len(source.folds), 1)
        if source.pooled.n_lists < self.folds:
            raise DataError(f"{source.pooled.n_lists} lists cannot be cut into {self.folds} folds.")
        return self.folds

    def load(self, source: DataSource, index: int) -> tuple[Dataset, Dataset]:
        """Training and validation lists of one split."""
        if self.folds is not None:
            data = source.pooled
            part = np.empty(data.n_lists, np.int64)
            order = np.random.default_rng(self.seed).permutation(data.n_lists)
            part[order] = np.arange(data.n_lists) % self.folds
            held_out = data.select(np.flatnonzero(part == index))
            return data.select(np.flatnonzero(part != index)), held_out
        if not source.folds:
            return self._hold_out(source.pooled)
        fold = source.folds[index]
        if fold.validation is None:
            return self._hold_out(fold.train)
        return fold.train, fold.validation

    def load_final(self, source: DataSource) -> tuple[Dataset, Dataset]:
        """Lists for the final model: the only split, or all lists with some held out."""
        return self.load(source, 0) if self.count(source) == 1 else self._hold_out(source.pooled)

    def _hold_out(self, data: Dataset) -> tuple[Dataset, Dataset]:
        train, validation = split(data, (1 - self.share, self.share), seed=self.seed)
        return train, validation

    def fingerprint(self, source: DataSource) -> str:
        """Fingerprint of the data that are divided."""
        if self.folds is not None or not source.folds:
            return source.pooled_fingerprint
        return " ".join(fold_fingerprint(fold) for fold in source.folds)

    def __str__(self) -> str:
        if self.folds is not None:
            return f"{self.folds} folds, seed {self.seed}"
        return f"as given, or {self.share:g} for validation with seed {self.seed}"


Pruner = Literal["median", "hyperband", "none"]


@dataclass(frozen=True, eq=False)
class SearchPlan:
    """A search before it is run; independent of the data."""

    name: str
    """Name of the system."""
    ranker: Ranker
    """The ranker to tune, with the settings that are fixed."""
    space: Mapping[str, Dimension]
    metric: str
    """Metrics for selection within a fit, with commas; the first one compares settings."""
    splits: ValidationSplits
    pruner: Pruner = "median"
    seed: int = 0
    functions: tuple[FunctionMetric, ...] = ()
    """Metrics that Python functions compute; unpickling them makes their names known."""

    @property
    def judge(self) -> str:
        """The metric that settings are compared by."""
        return self.metric.split(",")[0]

    def identity(self, source: DataSource) -> Identity:
        """What determines the search; the number of trials, threads and processes do not."""
        system = System(self.name, self.ranker)
        settings: dict[str, Any] = system.settings(self.seed)
        space = {name: str(dimension) for name, dimension in self.space.items()}
        return Identity(
            data=self.splits.fingerprint(source),
            system=self.name,
            settings=settings | {"$space": space, "$pruner": self.pruner},
            seed=self.seed,
            part=f"tuning: {self.splits}",
            metric=self.metric,
            code=code_version(),
            libraries=system.libraries() | {"optuna": version("optuna")},
        )


_SYNTAX = (
    "a range such as 0.01..0.3:log or 8..64, or a choice such as relu,elu or [[64,32],[128,64]]"
)


def build_space(
    ranker: Ranker, defaults: Mapping[str, Dimension], changes: Mapping[str, Dimension | str]
) -> dict[str, Dimension]:
    """The default search space with some dimensions replaced or added.

    Parameters
    ----------
    ranker
        The ranker to tune; a name that is not one of its parameters is an error.
    defaults
        The recipe's search space.
    changes
        Dimensions, or their text.
    """
    space = dict(defaults)
    for name, change in changes.items():
        value = get_setting(ranker, name)
        space[name] = (
            parse_dimension(name, change, defaults.get(name), value)
            if isinstance(change, str)
            else change
        )
    if not space:
        raise UsageError("there is nothing to search: the space is empty.")
    return space


def parse_dimension(
    name: str, text: str, default: Dimension | None = None, value: Any = None
) -> Dimension:
    """Parse a dimension; its default and the parameter's value say whether numbers are integers.

    >>> parse_dimension("learning_rate", "0.01..0.3:log")
    Real(low=0.01, high=0.3, log=True)
    >>> parse_dimension("activation", "relu,elu")
    Choice(options=('relu', 'elu'))
    """
    body, _, scale = text.strip().partition(":")
    low, dots, high = body.partition("..")
    if not dots:
        return Choice(_parse_options(name, text))
    ends = [_parse_number(low), _parse_number(high)]
    if scale.strip() not in ("", "log", "linear") or None in ends:
        raise UsageError(f"{name}: {text!r} is not a range; use {_SYNTAX}.")
    is_integer = isinstance(default, Whole) or (
        not isinstance(default, Real)
        and not isinstance(value, float)
        and all(isinstance(end, int) for end in ends)
    )
    if is_integer and not all(isinstance(end, int) for end in ends):
        raise UsageError(f"{name} is an integer, so the ends of its range must be, too: {text!r}.")
    kind = Whole if is_integer else Real
    return kind(ends[0], ends[1], scale.strip() == "log")  # type: ignore[arg-type] # checked above


def _parse_number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            return kind(text.strip())
        except ValueError:
            continue
    return None


def _parse_options(name: str, text: str) -> tuple[Any, ...]:
    for candidate in (text, f"[{text}]"):
        try:
            options = json.loads(candidate)
        except ValueError:
            continue
        if isinstance(options, list):
            return tuple(tuple(o) if isinstance(o, list) else o for o in options)
    words = tuple(option.strip() for option in text.split(","))
    if not all(words):
        raise UsageError(f"{name}: {text!r} is not a choice; use {_SYNTAX}.")
    return words
