"""The difference of two systems by all the tests at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plackett.base.errors import DataError
from plackett.base.ragged import Values
from plackett.experiments.significance.effects import cohens_d
from plackett.experiments.significance.randomisation import PERMUTATIONS, randomisation_test
from plackett.experiments.significance.student import mean_interval, t_test
from plackett.experiments.significance.wilcoxon import wilcoxon_test


@dataclass(frozen=True)
class Comparison:
    """The difference of a system from a baseline over the lists that count for both."""

    n_lists: int
    difference: float
    """Mean of the differences."""
    low: float
    high: float
    """Ends of the 95 % interval of the mean difference."""
    t_test: float
    """Two-sided p-value of the paired t-test."""
    randomisation: float
    """Two-sided p-value of the randomisation test."""
    wilcoxon: float
    """Two-sided p-value of Wilcoxon's signed-rank test."""
    effect: float
    """Cohen's d: the mean difference in units of the differences' standard deviation."""
    wins: int
    losses: int
    """Lists on which the system is better or worse; the others are ties."""


def compare_paired(
    values: Values, baseline: Values, *, permutations: int = PERMUTATIONS, seed: int = 0
) -> Comparison:
    """Compare per-list values of a system with those of a baseline.

    Lists where either value is NaN (dropped by the metric) do not count.
    """
    if values.shape != baseline.shape:
        raise DataError(
            f"paired values must be of the same lists, got {len(values)} and {len(baseline)}."
        )
    d = values - baseline
    d = d[~np.isnan(d)]
    if len(d) == 0:
        raise DataError("no list counts for both systems; there is nothing to compare.")
    low, high = mean_interval(d)
    return Comparison(
        n_lists=len(d),
        difference=float(d.mean()),
        low=low,
        high=high,
        t_test=t_test(d),
        randomisation=randomisation_test(d, permutations=permutations, seed=seed),
        wilcoxon=wilcoxon_test(d),
        effect=cohens_d(d),
        wins=int(np.sum(d > 0)),
        losses=int(np.sum(d < 0)),
    )
