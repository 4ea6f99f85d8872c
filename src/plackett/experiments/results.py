"""From outcomes of trials to values that can be compared.

A table of systems: means of metrics, and how sure their differences from a baseline are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import Scores, Values
from plackett.experiments.plan import Trial, drop_features
from plackett.experiments.protocols import DataSource, Protocol, Seeds, Split, SplitData, Splits
from plackett.experiments.significance import (
    Comparison,
    benjamini_hochberg,
    bootstrap_intervals,
    compare_paired,
    holm,
    mean_interval,
)
from plackett.experiments.store import Outcome, RunStore
from plackett.experiments.store.store import Curves
from plackett.metrics import per_list

Unit = Literal["lists", "trials"]
Test = Literal["randomisation", "t_test", "wilcoxon"]
Correction = Literal["holm", "benjamini-hochberg"]
Interval = tuple[float, float]

TESTS: dict[str, str] = {
    "randomisation": "randomisation test",
    "t_test": "t-test",
    "wilcoxon": "Wilcoxon's signed-rank test",
}
"""Names of the tests, for people."""
CORRECTIONS: dict[str, str] = {"holm": "Holm", "benjamini-hochberg": "Benjamini & Hochberg"}
_CORRECT = {"holm": holm, "benjamini-hochberg": benjamini_hochberg}


@dataclass(frozen=True)
class Entry:
    """One system of a leaderboard."""

    name: str
    means: dict[str, float]
    """Mean over lists by metric."""
    comparisons: dict[str, Comparison]
    """Comparison with the baseline by metric; empty for the baseline."""
    adjusted: dict[str, float]
    """p-value of the board's test, corrected for the number of systems, by metric."""
    seconds: float
    """Time of training."""
    intervals: dict[str, Interval] = field(default_factory=dict)
    """95 % interval of the mean by metric."""


@dataclass(frozen=True)
class Leaderboard:
    """Systems, the best first by the primary metric."""

    entries: tuple[Entry, ...]
    metrics: tuple[str, ...]
    primary: str
    baseline: str
    n_lists: int
    n_counted: int
    """Lists (or trials) that count for the primary metric."""
    unit: Unit = "lists"
    """What the values are of."""
    alpha: float = 0.05
    """Level of significance."""
    test: Test = "randomisation"
    """The test whose p-values are adjusted."""
    correction: Correction = "holm"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    def verdict(self, entry: Entry, metric: str) -> Literal["better", "worse", ""]:
        """Whether a system differs significantly from the baseline, and how."""
        if entry.adjusted.get(metric, 1.0) >= self.alpha:
            return ""
        return "better" if entry.comparisons[metric].difference > 0 else "worse"


def leaderboard(
    values: Mapping[str, Mapping[str, Values]],
    *,
    baseline: str,
    primary: str | None = None,
    seconds: Mapping[str, float] | None = None,
    seed: int = 0,
    unit: Unit = "lists",
    alpha: float = 0.05,
    test: Test = "randomisation",
    correction: Correction = "holm",
    intervals: Mapping[str, Mapping[str, Interval]] | None = None,
) -> Leaderboard:
    """Compare systems by their values on the same lists, or by their means in the same trials.

    Parameters
    ----------
    values
        For each system, for each metric, one value per list (NaN where the metric drops the list)
        or per trial.
    baseline
        The system that the others are compared with.
    primary
        The metric that orders the systems; by default the first.
    seconds
        Time of training by system.
    seed
        Of the randomisation test and the bootstrap.
    unit
        What the values are of.
    alpha
        Level of significance.
    test, correction
        Which p-values are corrected, and how.
    intervals
        Of the means, by system and metric; by default by the bootstrap over lists, or Student's
        over trials.
    """
    metrics, chosen = _checked(values, baseline, primary)
    spread = intervals or _intervals(values, metrics, unit, seed)
    entries = [
        replace(_entry(name, values, baseline, seconds or {}, seed), intervals=dict(spread[name]))
        for name in values
    ]
    entries = _adjusted(entries, metrics, baseline, test, correction)
    entries.sort(key=lambda entry: -entry.means[chosen])
    reference = values[baseline][chosen]
    counted = int(np.isfinite(reference).sum())
    return Leaderboard(
        entries=tuple(entries),
        metrics=metrics,
        primary=chosen,
        baseline=baseline,
        n_lists=len(reference),
        n_counted=counted,
        unit=unit,
        alpha=alpha,
        test=test,
        correction=correction,
    )


def _checked(
    values: Mapping[str, Mapping[str, Values]], baseline: str, primary: str | None
) -> tuple[tuple[str, ...], str]:
    """The metrics, and the one that orders systems."""
    if baseline not in values:
        raise UsageError(f"the baseline {baseline!r} is not among {', '.join(values)}.")
    metrics = tuple(values[baseline])
    chosen = metrics[0] if primary is None else primary
    if chosen not in metrics:
        raise UsageError(f"the primary metric {chosen!r} is not among {', '.join(metrics)}.")
    return metrics, chosen


def _entry(
    name: str,
    values: Mapping[str, Mapping[str, Values]],
    baseline: str,
    seconds: Mapping[str, float],
    seed: int,
) -> Entry:
    own = values[name]
    comparisons = (
        {}
        if name == baseline
        else {m: compare_paired(own[m], values[baseline][m], seed=seed) for m in own}
    )
    means = {m: float(np.nanmean(v)) for m, v in own.items()}
    return Entry(name, means, comparisons, {}, seconds.get(name, 0.0))


def _intervals(
    values: Mapping[str, Mapping[str, Values]], metrics: tuple[str, ...], unit: Unit, seed: int
) -> dict[str, dict[str, Interval]]:
    result: dict[str, dict[str, Interval]] = {name: {} for name in values}
    for metric in metrics:
        columns = np.column_stack([own[metric] for own in values.values()])
        ends = _ends(columns, unit, seed)
        for name, (low, high) in zip(values, ends, strict=True):
            result[name][metric] = (float(low), float(high))
    return result


def _ends(columns: NDArray[np.float64], unit: Unit, seed: int) -> Sequence[Interval]:
    if unit == "trials":
        return [mean_interval(column) for column in columns.T]
    return [(low, high) for low, high in bootstrap_intervals(columns, seed=seed)]


def _adjusted(
    entries: Sequence[Entry],
    metrics: tuple[str, ...],
    baseline: str,
    test: Test,
    correction: Correction,
) -> list[Entry]:
    """Correct the p-values of each metric for the number of systems compared."""
    others = [entry for entry in entries if entry.name != baseline]
    columns = {
        m: _CORRECT[correction]([getattr(e.comparisons[m], test) for e in others]) for m in metrics
    }
    result = [entry for entry in entries if entry.name == baseline]
    for i, entry in enumerate(others):
        result.append(replace(entry, adjusted={m: float(columns[m][i]) for m in metrics}))
    return result


ByMetric = Mapping[str, Values]


@dataclass(frozen=True, eq=False)
class TrialDetails:
    """A trial that a report looks into: its lists and every system's scores and values."""

    part: Split
    trial: SplitData
    scores: Mapping[str, Scores]
    values: Mapping[str, ByMetric]


@dataclass(frozen=True, eq=False)
class ComparisonResults:
    """All trials of a comparison, by system and metric."""

    values: Mapping[str, ByMetric]
    """One per list or per trial: what tests are made on."""
    trial_means: Mapping[str, Mapping[str, Values]]
    """Mean over the test lists of each trial."""
    intervals: Mapping[str, Mapping[str, Interval]] | None
    """Of means, where they are not over the unit of the tests."""
    seconds: Mapping[str, float]
    """Mean time of training a trial."""
    curves: Mapping[str, Mapping[str, Sequence[float]]]
    """Validation metric by step, by system and trial, for models that have steps."""
    importances: Mapping[str, NDArray[np.float64]]
    """Share of each feature, a row per trial, for the systems that have it."""
    shown: tuple[TrialDetails, ...]


def gather(
    jobs: Sequence[Trial],
    *,
    store: RunStore,
    source: DataSource,
    protocol: Protocol,
    metrics: Sequence[str],
    select: str,
) -> ComparisonResults:
    """Read the outcomes of all trials; metrics that were not computed then are computed now."""
    parts = {job.part.index: job.part for job in jobs}
    light = drop_features(source, protocol)
    gathered = [
        _gather_part(
            part,
            [job for job in jobs if job.part.index == part.index],
            _Reading(store, light, protocol, metrics),
        )
        for part in parts.values()
    ]
    systems = list(dict.fromkeys(job.system.name for job in jobs))
    values = {name: [each.values[name] for each in gathered] for name in systems}
    means = {name: _means(own, metrics) for name, own in values.items()}
    times = {name: [each.seconds[name] for each in gathered] for name in systems}
    curves = {name: _validation_curves(gathered, name, select) for name in systems}
    importances = {name: [each.importances[name] for each in gathered] for name in systems}
    return ComparisonResults(
        values=_by_unit(values, means, protocol, metrics),
        trial_means=means,
        intervals=_over_seeds(means) if isinstance(protocol, Seeds) else None,
        seconds={name: float(np.mean(own)) for name, own in times.items()},
        curves={name: by_trial for name, by_trial in curves.items() if by_trial},
        importances={
            name: np.array(shares)
            for name, shares in importances.items()
            if all(share is not None for share in shares)
        },
        shown=tuple(each.shown for each in gathered if each.shown is not None),
    )


def _validation_curves(
    gathered: Sequence[_Part], system: str, metric: str
) -> dict[str, Sequence[float]]:
    curves = {each.name: each.curves[system].get("validation", {}) for each in gathered}
    return {
        trial: by_metric[metric] for trial, by_metric in curves.items() if by_metric.get(metric)
    }


@dataclass(frozen=True, eq=False)
class _Reading:
    """Where outcomes come from, and what is wanted of them."""

    store: RunStore
    source: DataSource
    protocol: Protocol
    metrics: Sequence[str]


@dataclass(frozen=True, eq=False)
class _Part:
    """The outcomes of one trial's systems; scores only where they are looked into."""

    name: str
    values: Mapping[str, ByMetric]
    seconds: Mapping[str, float]
    curves: Mapping[str, Curves]
    importances: Mapping[str, Values | None]
    shown: TrialDetails | None


def _gather_part(part: Split, jobs: Sequence[Trial], reading: _Reading) -> _Part:
    outcomes = {job.system.name: read_outcome(job, reading.store) for job in jobs}
    # Pooled folds are all looked into; of repeated trials the first tells enough.
    look = part.index == 0 or not isinstance(reading.protocol, (Splits, Seeds))
    trial = cache(lambda: reading.protocol.trial(reading.source, part))
    values = {
        job.system.name: metric_values(
            job,
            outcomes[job.system.name],
            store=reading.store,
            metrics=reading.metrics,
            trial=trial,
        )
        for job in jobs
    }
    scores = {name: outcome.scores for name, outcome in outcomes.items()}
    shown = TrialDetails(part, trial(), scores, values) if look else None
    seconds = {name: outcome.seconds for name, outcome in outcomes.items()}
    curves = {name: outcome.curves for name, outcome in outcomes.items()}
    importances = {name: outcome.importance for name, outcome in outcomes.items()}
    return _Part(part.name, values, seconds, curves, importances, shown)


def read_outcome(job: Trial, store: RunStore) -> Outcome:
    """What a trial that is known to be finished has left."""
    outcome = store.get(job.identity)
    if outcome is None:
        raise DataError(f"the store {store.place} has lost the trial {job.title}; run again.")
    return outcome


def metric_values(
    job: Trial,
    outcome: Outcome,
    *,
    store: RunStore,
    metrics: Sequence[str],
    trial: Callable[[], SplitData],
) -> ByMetric:
    """Values of these metrics; those that were not computed with the trial are computed now.

    Parameters
    ----------
    job, outcome
        A trial and what it left.
    store
        Where values that are computed now are added.
    metrics
        What is wanted.
    trial
        Makes the trial's data, if they are needed.
    """
    lacking = [name for name in metrics if name not in outcome.values]
    added: Mapping[str, Values] = {}
    if lacking:
        added = per_list(outcome.scores, trial().test, lacking)
        store.add_values(job.identity, added)
    known = {**outcome.values, **added}
    return {name: known[name] for name in metrics}


def _means(own: Sequence[ByMetric], metrics: Sequence[str]) -> dict[str, Values]:
    return {m: np.array([_mean(trial[m], m) for trial in own]) for m in metrics}


def _mean(values: Values, metric: str) -> float:
    counted = values[~np.isnan(values)]
    if len(counted) == 0:
        raise DataError(
            f"no test list of a trial counts for {metric}: none has a relevant document."
        )
    return float(counted.mean())


def _by_unit(
    values: Mapping[str, Sequence[ByMetric]],
    means: Mapping[str, Mapping[str, Values]],
    protocol: Protocol,
    metrics: Sequence[str],
) -> Mapping[str, ByMetric]:
    if protocol.unit == "trials":
        return means
    if isinstance(protocol, Seeds):
        return {
            name: {m: np.mean([trial[m] for trial in own], axis=0) for m in metrics}
            for name, own in values.items()
        }
    return {
        name: {m: np.concatenate([trial[m] for trial in own]) for m in metrics}
        for name, own in values.items()
    }


def _over_seeds(
    means: Mapping[str, Mapping[str, Values]],
) -> dict[str, dict[str, Interval]]:
    return {name: {m: mean_interval(v) for m, v in own.items()} for name, own in means.items()}
