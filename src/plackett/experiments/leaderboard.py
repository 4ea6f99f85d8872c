"""A table of systems: means of metrics, and how sure their differences from a baseline are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from plackett.base.errors import UsageError
from plackett.base.types import Values
from plackett.experiments.significance import Comparison, compare_paired, holm


@dataclass(frozen=True)
class Entry:
    """One system of a leaderboard."""

    name: str
    means: dict[str, float]
    """Mean over lists by metric."""
    comparisons: dict[str, Comparison]
    """Comparison with the baseline by metric; empty for the baseline."""
    adjusted: dict[str, float]
    """p-value of the randomisation test, corrected for the number of systems, by metric."""
    seconds: float
    """Time of training."""


@dataclass(frozen=True)
class Leaderboard:
    """Systems, the best first by the primary metric."""

    entries: tuple[Entry, ...]
    metrics: tuple[str, ...]
    primary: str
    baseline: str
    n_lists: int
    n_counted: int
    """Lists that count for the primary metric."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)


def leaderboard(
    values: Mapping[str, Mapping[str, Values]],
    *,
    baseline: str,
    primary: str | None = None,
    seconds: Mapping[str, float] | None = None,
    seed: int = 0,
) -> Leaderboard:
    """Compare systems by their per-list values.

    Parameters
    ----------
    values
        For each system, for each metric, one value per list (NaN where the metric drops the list).
    baseline
        The system that the others are compared with.
    primary
        The metric that orders the systems; by default the first.
    seconds
        Time of training by system.
    seed
        Of the randomisation test.
    """
    if baseline not in values:
        raise UsageError(f"the baseline {baseline!r} is not among {', '.join(values)}.")
    metrics = tuple(values[baseline])
    chosen = metrics[0] if primary is None else primary
    if chosen not in metrics:
        raise UsageError(f"the primary metric {chosen!r} is not among {', '.join(metrics)}.")
    entries = [_entry(name, values, baseline, seconds or {}, seed) for name in values]
    entries = _adjusted(entries, metrics, baseline)
    entries.sort(key=lambda entry: -entry.means[chosen])
    reference = values[baseline][chosen]
    counted = int(np.isfinite(reference).sum())
    return Leaderboard(tuple(entries), metrics, chosen, baseline, len(reference), counted)


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


def _adjusted(entries: Sequence[Entry], metrics: tuple[str, ...], baseline: str) -> list[Entry]:
    """Correct the p-values of each metric for the number of systems compared."""
    others = [entry for entry in entries if entry.name != baseline]
    columns = {m: holm([e.comparisons[m].randomisation for e in others]) for m in metrics}
    result = [entry for entry in entries if entry.name == baseline]
    for i, entry in enumerate(others):
        result.append(replace(entry, adjusted={m: float(columns[m][i]) for m in metrics}))
    return result
