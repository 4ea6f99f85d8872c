"""Systems under growing noise: means with intervals, and differences from a baseline."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from plackett.base.errors import UsageError
from plackett.base.ragged import Values
from plackett.data.dataset import Dataset
from plackett.data.folds import Fold
from plackett.distributed import Cluster
from plackett.experiments.comparing import run_trials
from plackett.experiments.gathering import outcome_of, values_of
from plackett.experiments.planning import Plan, plan_comparison
from plackett.experiments.protocols import Protocol, Source
from plackett.experiments.protocols import protocol as as_protocol
from plackett.experiments.robustness.corruption import Corruption
from plackett.experiments.robustness.protocol import UnderNoise
from plackett.experiments.running.schedule import Progress
from plackett.experiments.significance import mean_interval, t_test
from plackett.experiments.store import RunStore
from plackett.models.ranker import Ranker

LEVELS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Shares of noise from none to as much as there are documents."""


@dataclass(frozen=True)
class Point:
    """A mean over trials and its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference(Point):
    """A mean difference from the baseline over paired trials."""

    p: float
    """Two-sided p-value of the paired t-test."""


@dataclass(frozen=True)
class RobustnessCurves:
    """One point per level of noise for each system."""

    corruption: str
    unit: str
    """What a level is the share of."""
    metric: str
    levels: tuple[float, ...]
    trials: int
    baseline: str
    alpha: float
    curves: dict[str, tuple[Point, ...]]
    differences: dict[str, tuple[Difference, ...]]
    """From the baseline, for the other systems."""
    noisy: str = "training lists"
    """Where the noise is."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)


def robustness(
    data: Dataset | Fold | Sequence[Fold] | Source,
    models: Sequence[str] | Mapping[str, Ranker],
    *,
    corruption: Corruption,
    levels: Sequence[float] = LEVELS,
    protocol: str | Protocol = "splits:100",
    metric: str = "ndcg@5",
    baseline: str | None = None,
    select: str = "ndcg@5",
    store: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    threads: int | None = None,
    cluster: Cluster | str | None = None,
    seed: int = 0,
    progress: Progress = lambda *_: None,
) -> RobustnessCurves:
    """Train systems on lists with growing noise, and measure them on clean ones.

    Parameters
    ----------
    data, models, baseline, select, store, jobs, threads, cluster, seed, progress
        As for :func:`plackett.experiments.comparing.compare`.
    corruption
        The kind of noise, in training lists and, if it is meant for them, validation lists.
    levels
        How much of it.
    protocol
        Repeated trials, such as ``splits:100``; trials of a level are paired by their division.
    metric
        What to measure on the test lists.
    """
    noisy = UnderNoise(as_protocol(protocol, seed=seed), corruption, tuple(map(float, levels)))
    plan = plan_comparison(
        data, models, protocol=noisy, metrics=[metric], baseline=baseline, select=select, seed=seed
    )
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kept = stack.enter_context(RunStore(scratch / "runs.db" if store is None else store))
        run_trials(
            plan,
            store=kept,
            scratch=scratch,
            jobs=jobs,
            threads=threads,
            cluster=cluster,
            progress=progress,
        )
        return curves_of(plan, store=kept)


def curves_of(plan: Plan, *, store: RunStore) -> RobustnessCurves:
    """The curves of a plan under noise whose trials are all in the store.

    Parameters
    ----------
    plan
        Of :func:`plackett.experiments.planning.plan_comparison` with the protocol ``UnderNoise``;
        its first metric counts.
    store
        Of finished trials.
    """
    noisy = plan.protocol
    if not isinstance(noisy, UnderNoise):
        raise UsageError(f"curves under noise need the protocol UnderNoise, got {noisy}.")
    means = {s.name: _means(plan, s.name, store, len(noisy.levels)) for s in plan.systems}
    return _curves(plan, noisy, means)


def _means(plan: Plan, system: str, store: RunStore, n_levels: int) -> Values:
    """Mean of the metric in each trial: a row per level."""
    found = []
    for job in (job for job in plan.jobs if job.system.name == system):
        values = values_of(
            job,
            outcome_of(job, store),
            store=store,
            metrics=plan.metrics,
            trial=partial(plan.protocol.trial, plan.source, job.part),
        )
        found.append(float(np.nanmean(values[plan.metrics[0]])))
    return np.array(found).reshape(n_levels, -1)


def _curves(plan: Plan, noisy: UnderNoise, means: Mapping[str, Values]) -> RobustnessCurves:
    base = means[plan.baseline]
    return RobustnessCurves(
        corruption=noisy.corruption.name,
        unit=noisy.corruption.unit,
        metric=plan.metrics[0],
        levels=noisy.levels,
        trials=base.shape[1],
        baseline=plan.baseline,
        alpha=noisy.protocol.alpha,
        curves={name: tuple(_point(row) for row in own) for name, own in means.items()},
        differences={
            name: tuple(_difference(a - b) for a, b in zip(own, base, strict=True))
            for name, own in means.items()
            if name != plan.baseline
        },
        noisy="training and validation lists" if noisy.corruption.validation else "training lists",
    )


def _point(values: Values) -> Point:
    return Point(float(values.mean()), *mean_interval(values))


def _difference(values: Values) -> Difference:
    return Difference(float(values.mean()), *mean_interval(values), p=t_test(values))
