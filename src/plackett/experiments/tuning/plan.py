r"""The plan of a search: the ranker, the search space and the splits that determine its trials.

Also parses dimensions as users write them: ``0.01..0.3:log``, ``8..64``, ``relu,elu``, ``[[64,32],[128]]``.

A trial fits a ranker on every split and evaluates it on the validation lists. While it runs, its validation metric is
reported at fixed shares of the steps that a fit may take, so that models with few and with many steps can be compared
at the same points and the store is not written at every tree. The value of report k in split f is

.. math:: \frac{1}{f+1}\Big(\sum_{g<f} v_g + \max_{i \le k} m_i\Big),

with :math:`v_g` the values of the finished splits and m the validation metric in this one. A fit
that stops early reports its final value at the remaining points.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Literal, TypeAlias

import numpy as np

from plackett.base.errors import DataError, UsageError
from plackett.data import Dataset, split
from plackett.experiments.protocols import DataSource, fold_fingerprint
from plackett.experiments.store import Identity
from plackett.experiments.systems import System, code_version
from plackett.metrics import FunctionMetric, evaluate
from plackett.models import Progress, Ranker, no_progress
from plackett.models.crossfit import with_threads
from plackett.models.recipes.search_spaces import Choice, Dimension, Real, Whole, get_setting, with_settings


@dataclass(frozen=True)
class ValidationSplits:
    """How data are divided into training and validation lists. Test lists are never used."""

    folds: int | None = None  # parts that are used for validation in turn; None: the parts that the data come with
    share: float = 0.2  # of the lists that are held out if the data come without validation lists
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
    ranker: Ranker  # the ranker to tune, with the settings that are fixed
    space: Mapping[str, Dimension]
    metric: str  # metrics for selection within a fit, with commas; the first one compares settings
    splits: ValidationSplits
    pruner: Pruner = "median"
    seed: int = 0
    functions: tuple[FunctionMetric, ...] = ()
    """Metrics that Python functions compute; unpickling them makes their names known."""

    @property
    def selection_metric(self) -> str:
        """The metric that settings are compared by."""
        return self.metric.split(",")[0]

    def identity(self, source: DataSource) -> Identity:
        """What determines the search; the numbers of trials, threads and processes do not."""
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


_SYNTAX = "a range such as 0.01..0.3:log or 8..64, or a choice such as relu,elu or [[64,32],[128,64]]"


def build_space(
    ranker: Ranker, defaults: Mapping[str, Dimension], changes: Mapping[str, Dimension | str]
) -> dict[str, Dimension]:
    """The default search space with some dimensions, or their text, replaced or added."""
    space = dict(defaults)
    for name, change in changes.items():
        value = get_setting(ranker, name)
        space[name] = parse_dimension(name, change, defaults.get(name), value) if isinstance(change, str) else change
    if not space:
        raise UsageError("there is nothing to search: the space is empty.")
    return space


def parse_dimension(name: str, text: str, default: Dimension | None = None, value: Any = None) -> Dimension:
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
        not isinstance(default, Real) and not isinstance(value, float) and all(isinstance(end, int) for end in ends)
    )
    if is_integer and not all(isinstance(end, int) for end in ends):
        raise UsageError(f"{name} is an integer, so the ends of its range must be, too: {text!r}.")
    kind = Whole if is_integer else Real
    return kind(ends[0], ends[1], scale.strip() == "log")  # type: ignore[arg-type] # checked above


def _parse_number(text: str) -> int | float | None:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text.strip())
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


Report: TypeAlias = Callable[[int, float, bool], None]
"""Called with the number of a report over all splits, the value, and whether more will follow."""

REPORT_SHARES = (0.125, 0.25, 0.5, 1.0)
"""Shares of the steps at which a trial reports; earlier ones would punish small learning rates."""


class TrialPruned(Exception):  # noqa: N818 - not an error
    """Raised to end a trial that is behind the others."""


class ReportSchedule:
    """The reports of the fit on a split, with the values of the splits ``before`` it; may raise TrialPruned."""

    def __init__(self, split: int, before: Sequence[float], report: Report) -> None:
        self._split, self._before, self._report = split, before, report
        self._best = float("-inf")
        self._next = 0

    def __call__(self, done: int, total: int, mean: float) -> None:
        """Take the metric after a step, as the ``watch`` of :meth:`Ranker.fit`."""
        self._best = max(self._best, mean)
        # The last report is left to the finished fit, whose value is exact.
        while self._next < len(REPORT_SHARES) - 1 and done >= REPORT_SHARES[self._next] * total:
            self._send(self._best, more=True)

    def close(self, value: float, *, more: bool) -> None:
        """Send the remaining reports with the value of the finished fit; ``more``: whether other splits follow."""
        while self._next < len(REPORT_SHARES):
            self._send(value, more=more)

    def _send(self, value: float, *, more: bool) -> None:
        number = self._split * len(REPORT_SHARES) + self._next
        self._next += 1
        self._report(number, (sum(self._before) + value) / (self._split + 1), more)


def build_ranker(plan: SearchPlan, settings: dict[str, Any], threads: int | None) -> Ranker:
    """The ranker of a trial."""
    ranker = with_threads(with_settings(plan.ranker, settings), threads)
    return ranker.set_params(seed=plan.seed) if "seed" in ranker.get_params() else ranker


def evaluate_ranker(
    ranker: Ranker,
    plan: SearchPlan,
    source: DataSource,
    *,
    known: Sequence[float] = (),
    save: Callable[[int, float], None] = lambda *_: None,
    report: Report = lambda *_: None,
    progress: Progress = no_progress,
) -> float:
    """The mean over splits of the metric on validation lists.

    ``known`` are values of the first splits, evaluated before. ``save`` is called with the number of a split and its
    value, ``report`` for each report of a fit; it raises :class:`TrialPruned` to end the trial.
    """
    values = list(known)
    count = plan.splits.count(source)
    for i in range(len(known), count):
        train, validation = plan.splits.load(source, i)
        reports = ReportSchedule(i, tuple(values), report)
        fitted = ranker.clone().fit(train, validation, plan.metric, progress=progress, watch=reports)
        scores = fitted.predict(validation)
        values.append(evaluate(scores, validation, [plan.selection_metric])[plan.selection_metric])
        save(i, values[-1])
        reports.close(values[-1], more=i < count - 1)
    return float(np.mean(values))
