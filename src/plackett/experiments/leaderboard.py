"""A table of systems: means of metrics, and how sure their differences from a baseline are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import UsageError
from plackett.base.ragged import Values
from plackett.experiments.significance import (
    Comparison,
    benjamini_hochberg,
    bootstrap_intervals,
    compare_paired,
    holm,
    mean_interval,
)

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
