r"""The protocol of Dubey et al. (2009), section 5, as one function.

Within a list, every copy of a document that occurs with different labels is removed, then lists
without a relevant document; labels become relevant or not. Each system is fitted on the training
lists of each fold, with C chosen on the validation lists, and judged on the test lists: MAP and
NDCG at 1, 5 and 10 with binary gain and the discount of Järvelin & Kekäläinen. A *cell* is one data
set, or all of them together, under one metric; the mean over all lists together is the average over
data sets weighted by their numbers of queries.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plackett.base.errors import ConvergenceWarning, UsageError
from plackett.base.ragged import Values
from plackett.data.cleaning import binarise, clean
from plackett.data.dataset import Dataset
from plackett.data.folds import Fold
from plackett.experiments.leaderboard import Leaderboard, leaderboard
from plackett.metrics import Metric, metric, per_list
from plackett.models import recipe
from plackett.models.linear import LinearRanker
from plackett.models.ranker import Progress, silent

BASELINES = ("ranksvm", "rankboost", "svmmap", "listnet-linear", "boltzrank")
SYSTEMS = (
    "logrank-mle",
    *(
        f"logrank-{loss}-{gain}"
        for loss in ("expgain", "convex", "l3")
        for gain in ("auc", "map", "ndcg")
    ),
    *BASELINES,
)
"""The paper's systems and those it compares with."""

METRICS = (
    metric("map"),
    *(metric(f"ndcg@{k}", discount="letor") for k in (1, 5, 10)),
)
"""On binary labels."""

ALL = "all"
"""The data sets together."""


@dataclass(frozen=True)
class Outcome:
    """One system on one data set: the test lists of all folds, one after the other."""

    system: str
    data: str
    values: dict[str, Values]
    """One value per list, by metric."""
    penalties: tuple[float, ...]
    """The C of each fold; empty for systems without one."""
    unconverged: int
    """Folds whose solver stopped early."""
    seconds: float


@dataclass(frozen=True)
class Results:
    """All systems on all data sets."""

    outcomes: tuple[Outcome, ...]

    @property
    def systems(self) -> tuple[str, ...]:
        """In the order they were given."""
        return tuple(dict.fromkeys(each.system for each in self.outcomes))

    @property
    def data(self) -> tuple[str, ...]:
        """In the order they were given."""
        return tuple(dict.fromkeys(each.data for each in self.outcomes))

    @property
    def metrics(self) -> tuple[str, ...]:
        """Their spellings."""
        return tuple(self.outcomes[0].values)

    @property
    def columns(self) -> tuple[str, ...]:
        """The data sets, and all of them together where there are several."""
        return self.data if len(self.data) == 1 else (*self.data, ALL)

    def values(self, system: str, data: str) -> dict[str, Values]:
        """The values of the test lists by metric; of all data sets one after the other."""
        chosen = [o for o in self.outcomes if o.system == system and data in (ALL, o.data)]
        if not chosen:
            raise UsageError(f"there is no result of {system!r} on {data!r}.")
        return {m: np.concatenate([o.values[m] for o in chosen]) for m in self.metrics}

    def mean(self, system: str, data: str, metric: str) -> float:
        """One cell."""
        return float(np.nanmean(self.values(system, data)[metric]))

    def cells(self) -> list[tuple[str, str]]:
        """Data set and metric of every cell."""
        return [(column, m) for column in self.columns for m in self.metrics]

    def board(self, data: str, baseline: str) -> Leaderboard:
        """All systems on one data set, with paired tests against a baseline."""
        values = {system: self.values(system, data) for system in self.systems}
        return leaderboard(values, baseline=baseline)


def run_protocol(
    data: Mapping[str, Sequence[Fold]],
    systems: Sequence[str] = SYSTEMS,
    *,
    select: str | Metric = "map",
    settings: Mapping[str, Any] | None = None,
    metrics: Sequence[Metric] = METRICS,
    cleaned: bool = True,
    progress: Progress = silent,
) -> Results:
    """Fit and judge systems on data sets with folds.

    Parameters
    ----------
    data
        Folds by the name of the data set: OHSUMED, the six .gov sets of LETOR 3 ...
    systems
        Names of recipes.
    select
        What C (and the number of rounds) is chosen by on the validation lists.
    settings
        Parameters to change in those systems that have them.
    metrics
        What the test lists are judged by.
    cleaned
        Apply the paper's cleaning and make labels binary; False: the data as they are.
    progress
        Called before each fit.
    """
    _refuse_unknown(systems, settings or {})
    folds = {
        name: [cleaned_fold(fold) for fold in each] if cleaned else list(each)
        for name, each in data.items()
    }
    total = len(systems) * sum(len(each) for each in folds.values())
    outcomes: list[Outcome] = []
    done = 0
    for name, parts in folds.items():
        for system in systems:
            runs = []
            for fold in parts:
                progress(f"{system} on {name} {fold.name}", done, total)
                runs.append(_run(system, fold, select, settings or {}, metrics))
                done += 1
            outcomes.append(_pooled(system, name, runs))
    return Results(tuple(outcomes))


def _refuse_unknown(systems: Sequence[str], settings: Mapping[str, Any]) -> None:
    """A setting that no system has would change nothing."""
    known = {key for system in systems for key in recipe(system).get_params()}
    there = ", ".join(sorted(known))
    for key in settings:
        if key not in known:
            raise UsageError(f"none of the systems has a parameter {key!r}. They have {there}.")


_FoldRun = tuple[dict[str, Values], float | None, bool, float]


def _run(
    system: str,
    fold: Fold,
    select: str | Metric,
    settings: Mapping[str, Any],
    metrics: Sequence[Metric],
) -> _FoldRun:
    ranker = recipe(system)
    known = ranker.get_params()
    ranker.set_params(**{key: value for key, value in settings.items() if key in known})
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # counted in the outcome
        ranker.fit(fold.train, fold.validation, metric=select)
    seconds = time.perf_counter() - begin
    values = per_list(ranker.predict(fold.test), fold.test, list(metrics))
    if isinstance(ranker, LinearRanker):
        return values, ranker.C_, ranker.convergence_.converged, seconds
    return values, None, True, seconds


def _pooled(system: str, data: str, runs: Sequence[_FoldRun]) -> Outcome:
    values = {m: np.concatenate([run[0][m] for run in runs]) for m in runs[0][0]}
    penalties = tuple(run[1] for run in runs if run[1] is not None)
    unconverged = sum(not run[2] for run in runs)
    return Outcome(system, data, values, penalties, unconverged, sum(run[3] for run in runs))


def cleaned_fold(fold: Fold) -> Fold:
    """The fold after the paper's cleaning, with binary labels."""

    def part(ds: Dataset, *rules: str) -> Dataset:
        return clean(binarise(clean(ds, ("conflicting",))[0]), rules)[0]

    validation = None if fold.validation is None else part(fold.validation, "blank")
    # Training lists without an irrelevant document hold no pair.
    return Fold(fold.name, part(fold.train, "uniform"), validation, part(fold.test, "blank"))
