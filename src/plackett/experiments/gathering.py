"""From outcomes of trials to values that can be compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from plackett.base.errors import DataError
from plackett.base.ragged import Scores, Values
from plackett.experiments.leaderboard import Interval
from plackett.experiments.protocols import Part, Protocol, Seeds, Source, Splits, Trial
from plackett.experiments.running import Job
from plackett.experiments.running.sources import without_features
from plackett.experiments.significance import mean_interval
from plackett.experiments.store import Outcome, RunStore
from plackett.experiments.store.outcome import Curves
from plackett.metrics import per_list

ByMetric = Mapping[str, Values]


@dataclass(frozen=True, eq=False)
class Shown:
    """A trial that a report looks into: its lists and every system's scores and values."""

    part: Part
    trial: Trial
    scores: Mapping[str, Scores]
    values: Mapping[str, ByMetric]


@dataclass(frozen=True, eq=False)
class Gathered:
    """All trials of a comparison, by system and metric."""

    values: Mapping[str, ByMetric]
    """One per list or per trial: what tests are made on."""
    trial_means: Mapping[str, Mapping[str, Values]]
    """Mean over the test lists of each trial."""
    intervals: Mapping[str, Mapping[str, Interval]] | None
    """Of means, where they are not over the unit of the tests."""
    seconds: Mapping[str, float]
    """Mean time of training a trial."""
    curves: Mapping[str, Sequence[float]]
    """Validation metric by step in the first trial."""
    shown: tuple[Shown, ...]


def gather(
    jobs: Sequence[Job],
    *,
    store: RunStore,
    source: Source,
    protocol: Protocol,
    metrics: Sequence[str],
    select: str,
) -> Gathered:
    """Read the outcomes of all trials; metrics that were not computed then are computed now."""
    parts = {job.part.index: job.part for job in jobs}
    light = without_features(source, protocol)
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
    first = {name: gathered[0].curves[name].get("validation", {}) for name in systems}
    return Gathered(
        values=_by_unit(values, means, protocol, metrics),
        trial_means=means,
        intervals=_over_seeds(means) if isinstance(protocol, Seeds) else None,
        seconds={name: float(np.mean(own)) for name, own in times.items()},
        curves={name: curves[select] for name, curves in first.items() if curves.get(select)},
        shown=tuple(each.shown for each in gathered if each.shown is not None),
    )


@dataclass(frozen=True, eq=False)
class _Reading:
    """Where outcomes come from, and what is wanted of them."""

    store: RunStore
    source: Source
    protocol: Protocol
    metrics: Sequence[str]


@dataclass(frozen=True, eq=False)
class _Part:
    """The outcomes of one trial's systems; scores only where they are looked into."""

    values: Mapping[str, ByMetric]
    seconds: Mapping[str, float]
    curves: Mapping[str, Curves]
    shown: Shown | None


def _gather_part(part: Part, jobs: Sequence[Job], reading: _Reading) -> _Part:
    outcomes = {job.system.name: outcome_of(job, reading.store) for job in jobs}
    # Pooled folds are all looked into; of repeated trials the first tells enough.
    look = part.index == 0 or not isinstance(reading.protocol, (Splits, Seeds))
    trial = cache(lambda: reading.protocol.trial(reading.source, part))
    values = {
        job.system.name: values_of(
            job,
            outcomes[job.system.name],
            store=reading.store,
            metrics=reading.metrics,
            trial=trial,
        )
        for job in jobs
    }
    scores = {name: outcome.scores for name, outcome in outcomes.items()}
    shown = Shown(part, trial(), scores, values) if look else None
    seconds = {name: outcome.seconds for name, outcome in outcomes.items()}
    return _Part(values, seconds, {name: o.curves for name, o in outcomes.items()}, shown)


def outcome_of(job: Job, store: RunStore) -> Outcome:
    """What a trial that is known to be finished has left."""
    outcome = store.get(job.identity)
    if outcome is None:
        raise DataError(f"the store {store.place} has lost the trial {job.title}; run again.")
    return outcome


def values_of(
    job: Job,
    outcome: Outcome,
    *,
    store: RunStore,
    metrics: Sequence[str],
    trial: Callable[[], Trial],
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
