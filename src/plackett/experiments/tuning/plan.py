"""What a search is: all that determines its trials, and nothing else.

What a trial learns from and is judged on. Test lists have no part in tuning.

Ranges as people write them: ``0.01..0.3:log``, ``8..64``, ``relu,elu``, ``[[64,32],[128]]``.
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
from plackett.models.ranker import Ranker
from plackett.models.recipes.search_spaces import Choice, Dimension, Real, Whole, setting

Division = tuple[Dataset, Dataset]
"""Lists to learn from, and lists to choose on."""


@dataclass(frozen=True)
class ValidationSplits:
    """How data are divided, in numbers that can be sent anywhere.

    Parameters
    ----------
    folds
        Cut the lists into so many parts: each is judged on in turn, the others are learnt from.
        None: take the parts that the data come with.
    share
        Of the lists, held out for validation where the data come without such a part.
    seed
        Of whatever is drawn.
    """

    folds: int | None = None
    share: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        if self.folds is not None and self.folds < 2:
            raise UsageError(f"folds must be at least 2, got {self.folds}.")
        if not 0 < self.share < 1:
            raise UsageError(f"the share for validation is between 0 and 1, got {self.share}.")

    def count(self, source: DataSource) -> int:
        """How many divisions a trial goes through."""
        if self.folds is not None:
            if source.pooled.n_lists < self.folds:
                raise DataError(
                    f"{source.pooled.n_lists} lists cannot be cut into {self.folds} folds."
                )
            return self.folds
        return max(len(source.folds), 1)

    def __call__(self, source: DataSource, place: int) -> Division:
        """One of them."""
        if self.folds is not None:
            data = source.pooled
            part = np.empty(data.n_lists, np.int64)
            order = np.random.default_rng(self.seed).permutation(data.n_lists)
            part[order] = np.arange(data.n_lists) % self.folds
            held_out = data.select(np.flatnonzero(part == place))
            return data.select(np.flatnonzero(part != place)), held_out
        if not source.folds:
            return self._halves(source.pooled)
        fold = source.folds[place]
        if fold.validation is None:
            return self._halves(fold.train)
        return fold.train, fold.validation

    def last(self, source: DataSource) -> Division:
        """For the model that is kept: the only division, or all lists with some held out."""
        return self(source, 0) if self.count(source) == 1 else self._halves(source.pooled)

    def _halves(self, data: Dataset) -> Division:
        kept, held_out = split(data, (1 - self.share, self.share), seed=self.seed)
        return kept, held_out

    def fingerprint(self, source: DataSource) -> str:
        """Names the contents of what is divided."""
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
    """A search before it is run; the data are beside it."""

    name: str
    """Of the system, for people."""
    ranker: Ranker
    """What is tuned, with the settings that stay as they are."""
    space: Mapping[str, Dimension]
    metric: str
    """What is chosen by, within a fit and between settings; of several the first between them."""
    divisions: ValidationSplits
    pruner: Pruner = "median"
    seed: int = 0

    @property
    def judge(self) -> str:
        """The metric that settings are compared by."""
        return self.metric.split(",")[0]

    def identity(self, source: DataSource) -> Identity:
        """What determines the search: the number of trials, threads and processes do not."""
        system = System(self.name, self.ranker)
        settings: dict[str, Any] = system.settings(self.seed)
        space = {name: str(each) for name, each in self.space.items()}
        return Identity(
            data=self.divisions.fingerprint(source),
            system=self.name,
            settings=settings | {"$space": space, "$pruner": self.pruner},
            seed=self.seed,
            part=f"tuning: {self.divisions}",
            metric=self.metric,
            code=code_version(),
            libraries=system.libraries() | {"optuna": version("optuna")},
        )


_HOW = "a range such as 0.01..0.3:log or 8..64, or a choice such as relu,elu or [[64,32],[128,64]]"


def as_space(
    ranker: Ranker, known: Mapping[str, Dimension], given: Mapping[str, Dimension | str]
) -> dict[str, Dimension]:
    """The known space with some dimensions replaced or added.

    Parameters
    ----------
    ranker
        Whose parameters they are; a name it does not know is refused.
    known
        The recipe's own space.
    given
        Dimensions, or their spelling.
    """
    space = dict(known)
    for name, what in given.items():
        now = setting(ranker, name)
        space[name] = dimension(name, what, known.get(name), now) if isinstance(what, str) else what
    if not space:
        raise UsageError("there is nothing to search: the space is empty.")
    return space


def dimension(name: str, text: str, known: Dimension | None = None, now: Any = None) -> Dimension:
    """Read a dimension; ``known`` and ``now`` say whether numbers are whole.

    >>> dimension("learning_rate", "0.01..0.3:log")
    Real(low=0.01, high=0.3, log=True)
    >>> dimension("activation", "relu,elu")
    Choice(options=('relu', 'elu'))
    """
    body, _, scale = text.strip().partition(":")
    low, dots, high = body.partition("..")
    if not dots:
        return Choice(_options(name, text))
    ends = [_number(low), _number(high)]
    if scale.strip() not in ("", "log", "linear") or None in ends:
        raise UsageError(f"{name}: {text!r} is no range; give {_HOW}.")
    whole = isinstance(known, Whole) or (
        not isinstance(known, Real)
        and not isinstance(now, float)
        and all(isinstance(end, int) for end in ends)
    )
    if whole and not all(isinstance(end, int) for end in ends):
        raise UsageError(f"{name} is a whole number, and so are the ends of its range: {text!r}.")
    kind = Whole if whole else Real
    return kind(ends[0], ends[1], scale.strip() == "log")  # type: ignore[arg-type] # checked above


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            return kind(text.strip())
        except ValueError:
            continue
    return None


def _options(name: str, text: str) -> tuple[Any, ...]:
    for each in (text, f"[{text}]"):
        try:
            found = json.loads(each)
        except ValueError:
            continue
        if isinstance(found, list):
            return tuple(tuple(o) if isinstance(o, list) else o for o in found)
    options = tuple(option.strip() for option in text.split(","))
    if not all(options):
        raise UsageError(f"{name}: {text!r} is no choice; give {_HOW}.")
    return options
