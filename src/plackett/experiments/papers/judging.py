"""Differences between systems, tested as the papers test them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from plackett.base.ragged import Values
from plackett.experiments.gathering import Gathered
from plackett.experiments.protocols import Protocol, Splits
from plackett.experiments.significance import holm, mean_interval, resampled_t_test, t_test


@dataclass(frozen=True)
class Difference:
    """One system minus another over paired lists or trials."""

    system: str
    against: str
    metric: str
    mean: float
    low: float
    high: float
    """Ends of the 95 % interval."""
    p: float
    """Two-sided p-value of the paired t-test, as the papers have it."""
    adjusted: float
    """The same by Holm's method for all systems of the table under this metric."""
    alpha: float
    resampled: float | None = None
    """p-value corrected for random splits that overlap (Nadeau & Bengio 2003)."""

    @property
    def mark(self) -> str:
        """Hollow: significant by the paper's test. Filled: with Holm's correction as well."""
        if self.p >= self.alpha or self.mean == 0:
            return ""
        sure = self.adjusted < self.alpha
        return ("▲" if sure else "△") if self.mean > 0 else ("▼" if sure else "▽")


@dataclass(frozen=True)
class Judged:
    """The means of systems on one data set, and their differences."""

    metrics: tuple[str, ...]
    means: Mapping[str, Mapping[str, float]]
    halves: Mapping[str, Mapping[str, float]]
    """Half the width of the 95 % interval over trials; 0 for a single one."""
    differences: Mapping[tuple[str, str], Difference]
    """By system and metric."""

    def mark(self, system: str, metric: str) -> str:
        """Of a system, where it was compared."""
        found = self.differences.get((system, metric))
        return found.mark if found else ""


def judge(
    gathered: Gathered,
    against: Mapping[str, str],
    *,
    alpha: float,
    protocol: Protocol | None = None,
) -> Judged:
    """Compare systems with those they stand against.

    Parameters
    ----------
    gathered
        The trials.
    against
        For each system that is compared, the other one.
    alpha
        The paper's level of significance.
    protocol
        Under random splits, p-values that take their overlap into account are added.
    """
    metrics = tuple(next(iter(gathered.values.values())))
    pairs = {a: b for a, b in against.items() if a in gathered.values and b in gathered.values}
    found: dict[tuple[str, str], Difference] = {}
    for metric in metrics:
        rows = [_difference(gathered, a, b, metric) for a, b in pairs.items()]
        adjusted = holm([t_test(d) for d in rows])
        for (a, b), d, sure in zip(pairs.items(), rows, adjusted, strict=True):
            ends = mean_interval(d)
            found[a, metric] = Difference(
                a, b, metric, float(d.mean()), *ends, t_test(d), float(sure), alpha,
                _resampled(d, protocol),
            )  # fmt: skip
    means = {
        name: {m: float(np.nanmean(v)) for m, v in own.items()}
        for name, own in gathered.values.items()
    }
    halves = {
        name: {m: _half(values) for m, values in own.items()}
        for name, own in gathered.trial_means.items()
    }
    return Judged(metrics, means, halves, found)


def _difference(gathered: Gathered, a: str, b: str, metric: str) -> Values:
    d = gathered.values[a][metric] - gathered.values[b][metric]
    return d[~np.isnan(d)]


def _resampled(d: Values, protocol: Protocol | None) -> float | None:
    if not isinstance(protocol, Splits):
        return None
    shares = {"test_share": protocol.test_share, "train_share": protocol.train_share}
    return resampled_t_test(d, **shares)


def _half(values: Values) -> float:
    low, high = mean_interval(values)
    return (high - low) / 2
