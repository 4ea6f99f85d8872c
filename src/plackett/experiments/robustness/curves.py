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
from plackett.experiments.compare import run_trials
from plackett.experiments.figures import Line, LineChart
from plackett.experiments.plan import Plan, plan_comparison
from plackett.experiments.protocols import DataSource, Protocol
from plackett.experiments.protocols import protocol as as_protocol
from plackett.experiments.results import metric_values, read_outcome
from plackett.experiments.robustness.noise import LEVELS, Corruption, NoiseProtocol
from plackett.experiments.significance import mean_interval, t_test
from plackett.experiments.store import RunStore
from plackett.experiments.tables import Row, TextTable
from plackett.models.ranker import Progress, Ranker


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

    def mark(self, alpha: float) -> str:
        """▲ or ▼ if it is significant."""
        return "" if self.p >= alpha else "▲" if self.mean > 0 else "▼"


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
    data: Dataset | Fold | Sequence[Fold] | DataSource,
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
        As for :func:`plackett.experiments.compare.compare`.
    corruption
        The kind of noise, in training lists and, if it is meant for them, validation lists.
    levels
        How much of it.
    protocol
        Repeated trials, such as ``splits:100``; trials of a level are paired by their division.
    metric
        What to measure on the test lists.
    """
    noisy = NoiseProtocol(as_protocol(protocol, seed=seed), corruption, tuple(map(float, levels)))
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
        return read_curves(plan, store=kept)


def read_curves(plan: Plan, *, store: RunStore) -> RobustnessCurves:
    """The curves of a plan under noise whose trials are all in the store.

    Parameters
    ----------
    plan
        Of :func:`plackett.experiments.plan.plan_comparison` with the protocol ``UnderNoise``;
        its first metric counts.
    store
        Of finished trials.
    """
    noisy = plan.protocol
    if not isinstance(noisy, NoiseProtocol):
        raise UsageError(f"curves under noise need the protocol UnderNoise, got {noisy}.")
    means = {s.name: _means(plan, s.name, store, len(noisy.levels)) for s in plan.systems}
    return _curves(plan, noisy, means)


def _means(plan: Plan, system: str, store: RunStore, n_levels: int) -> Values:
    """Mean of the metric in each trial: a row per level."""
    means = []
    for trial in (trial for trial in plan.trials if trial.system.name == system):
        values = metric_values(
            trial,
            read_outcome(trial, store),
            store=store,
            metrics=plan.metrics,
            load=partial(plan.protocol.load, plan.source, trial.split),
        )
        means.append(float(np.nanmean(values[plan.metrics[0]])))
    return np.array(means).reshape(n_levels, -1)


def _curves(plan: Plan, noisy: NoiseProtocol, means: Mapping[str, Values]) -> RobustnessCurves:
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


def curve_table(curves: RobustnessCurves, *, caption: str | None = None) -> TextTable:
    """Means and half-widths of their 95 % intervals, then differences from the baseline.

    Parameters
    ----------
    curves
        The curves.
    caption
        By default the metric and the noise.
    """
    title = caption or f"{curves.metric} under {curves.corruption}"
    rows = []
    for i, level in enumerate(curves.levels):
        means = [points[i] for points in curves.curves.values()]
        cells = [f"{p.mean:.4f} ±{(p.high - p.low) / 2:.4f}" for p in means]
        differences = [points[i] for points in curves.differences.values()]
        cells += [f"{d.mean:+.4f}{d.mark(curves.alpha)}" for d in differences]
        rows.append(Row((level_text(level), *cells)))
    columns = ("level", *curves.curves, *(f"{n} − {curves.baseline}" for n in curves.differences))
    note = (
        f"{curves.metric} on clean test lists, noise in {curves.noisy}; means of {curves.trials} "
        f"trials ± half of the 95 % interval; level: {curves.unit}. ▲ better, ▼ worse than "
        f"{curves.baseline}: two-sided paired t-test over trials, level {curves.alpha:g}, not "
        "corrected for the number of levels."
    )
    return TextTable(title, columns, tuple(rows), note)


def level_text(level: float) -> str:
    """A level for people.

    >>> level_text(0.4), level_text(0.125)
    ('40 %', '12.5 %')
    """
    return f"{100 * level:.3g} %"


def curve_charts(curves: RobustnessCurves, *, on: str = "") -> dict[str, LineChart]:
    """Charts by name: the curves, and the differences from the baseline.

    Parameters
    ----------
    curves
        What to draw.
    on
        The data set, for titles.
    """
    prefix = f"{on}: " if on else ""
    order = list(curves.curves)
    charts = {
        "curves": LineChart(
            f"{prefix}{curves.metric} under {curves.corruption}",
            curves.unit,
            [_line(name, curves.levels, points) for name, points in curves.curves.items()],
            percent=True,
            order=order,
        )
    }
    if curves.differences:
        charts["differences"] = LineChart(
            f"{prefix}difference in {curves.metric} from {curves.baseline}",
            curves.unit,
            [_line(name, curves.levels, points) for name, points in curves.differences.items()],
            zero=True,
            percent=True,
            order=order,
        )
    return charts


def _line(name: str, levels: Sequence[float], points: Sequence[Point]) -> Line:
    low, high = [p.low for p in points], [p.high for p in points]
    return Line(name, levels, [p.mean for p in points], low, high, style="both")
