"""Systems under growing noise: means with intervals, differences from a baseline, a report."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from plackett.base.errors import UsageError
from plackett.base.files import write_json, write_text
from plackett.base.ragged import Values
from plackett.data import Dataset, Fold
from plackett.distributed import Cluster
from plackett.experiments.compare import open_store, run_trials
from plackett.experiments.figures import FORMATS, Line, LineChart, can_draw, write_figure
from plackett.experiments.noise import NOISE_KINDS, Augmentation, Clicks, LabelNoise, Noise, NoiseProtocol, noise_kind
from plackett.experiments.plan import Plan, plan_comparison
from plackett.experiments.protocols import DataSource, Protocol, Splits, protocol as as_protocol
from plackett.experiments.report.page import render_page, write_page
from plackett.experiments.report.write import CONVENTION, WrittenFiles
from plackett.experiments.results import metric_values, read_outcome
from plackett.experiments.significance import mean_interval, t_test
from plackett.experiments.store import RunStore
from plackett.experiments.tables import Row, TextTable
from plackett.models import Progress, Ranker

__all__ = [
    "NOISE_KINDS",
    "Augmentation",
    "Clicks",
    "LabelNoise",
    "Noise",
    "NoiseProtocol",
    "RobustnessCurves",
    "curve_charts",
    "curve_table",
    "noise_kind",
    "read_curves",
    "render_curves",
    "robustness",
    "robustness_payload",
    "write_curves",
    "write_robustness",
]


@dataclass(frozen=True)
class Point:
    """A mean over trials and its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference(Point):
    """A mean difference from the baseline over paired trials."""

    p: float  # two-sided p-value of the paired t-test
    corrected: float = 1.0  # the same for random splits, which overlap (Nadeau & Bengio 2003)

    def mark(self, alpha: float) -> str:
        """▲ or ▼ if it is significant."""
        return "" if self.p >= alpha else "▲" if self.mean > 0 else "▼"


@dataclass(frozen=True)
class RobustnessCurves:
    """One point per level of noise for each system."""

    noise: str  # name of the kind of noise
    unit: str  # what a level means, for example a share of a list's documents
    metric: str
    levels: tuple[float, ...]
    trials: int
    baseline: str
    alpha: float
    curves: dict[str, tuple[Point, ...]]
    differences: dict[str, tuple[Difference, ...]]  # from the baseline, for the other systems
    noisy: str = "training lists"  # which lists have the noise, as a text
    slopes: dict[str, Point] = field(default_factory=dict)
    """Change of the metric from level 0 to 1, along the straight line fitted to the levels of a trial."""
    slope_differences: dict[str, Difference] = field(default_factory=dict)  # from the baseline; positive: loses less

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON, in which the noise keeps its earlier name."""
        return {"corruption" if key == "noise" else key: value for key, value in asdict(self).items()}


def robustness(
    data: Dataset | Fold | Sequence[Fold] | DataSource,
    models: Sequence[str] | Mapping[str, Ranker],
    *,
    noise: Noise,
    levels: Sequence[float] | None = None,
    protocol: str | Protocol = "splits:100",
    metric: str = "ndcg@5",
    baseline: str | None = None,
    select: str = "ndcg@10",
    store: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    threads: int | None = None,
    cluster: Cluster | str | None = None,
    seed: int = 0,
    progress: Progress = lambda *_: None,
) -> RobustnessCurves:
    """Train systems on lists with increasing noise, and measure them on clean ones.

    Parameters
    ----------
    data, models, baseline, store, jobs, threads, cluster, seed, progress
        As for :func:`plackett.experiments.compare.compare`; ``select`` is its ``metric``.
    noise
        The kind of noise; it applies to training lists and, for some kinds, to validation lists.
    levels
        Levels of noise; by default those of the kind of noise.
    protocol
        Repeated trials, such as ``splits:100``; trials of a level are paired by their division.
    metric
        What to measure on the test lists.
    """
    noisy = NoiseProtocol(
        as_protocol(protocol, seed=seed), noise, tuple(map(float, noise.levels if levels is None else levels))
    )
    plan = plan_comparison(data, models, protocol=noisy, metrics=[metric], baseline=baseline, metric=select, seed=seed)
    with open_store(store) as (runs, scratch):
        run_trials(plan, store=runs, scratch=scratch, jobs=jobs, threads=threads, cluster=cluster, progress=progress)
        return read_curves(plan, store=runs)


def read_curves(plan: Plan, *, store: RunStore) -> RobustnessCurves:
    """The curves, by the first metric, of a plan with a :class:`NoiseProtocol` whose trials are all in the store."""
    noisy = plan.protocol
    if not isinstance(noisy, NoiseProtocol):
        raise UsageError(f"curves under noise need a NoiseProtocol, got {noisy}.")
    means = {s.name: _means(plan, s.name, store, len(noisy.levels)) for s in plan.systems}
    base = means[plan.baseline]
    others = {name: rows for name, rows in means.items() if name != plan.baseline}
    return RobustnessCurves(
        noise=noisy.noise.name,
        unit=noisy.noise.unit,
        metric=plan.metrics[0],
        levels=noisy.levels,
        trials=base.shape[1],
        baseline=plan.baseline,
        alpha=noisy.protocol.alpha,
        curves={name: tuple(_point(row) for row in rows) for name, rows in means.items()},
        differences={
            name: tuple(_difference(row, noisy.protocol) for row in rows - base) for name, rows in others.items()
        },
        noisy="training and validation lists" if noisy.noise.validation else "training lists",
        slopes={name: _point(_slopes(noisy.levels, rows)) for name, rows in means.items()},
        slope_differences={
            name: _difference(_slopes(noisy.levels, rows) - _slopes(noisy.levels, base), noisy.protocol)
            for name, rows in others.items()
        },
    )


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


def _slopes(levels: Sequence[float], means: Values) -> Values:
    """The slope of each trial over the levels, by least squares."""
    return np.polyfit(levels, means, 1)[0] if len(levels) > 1 else np.zeros(means.shape[1])


def _point(values: Values) -> Point:
    return Point(float(values.mean()), *mean_interval(values))


def _difference(values: Values, protocol: Protocol) -> Difference:
    p = corrected = t_test(values)
    if isinstance(protocol, Splits):
        corrected = protocol.resampled_t_test(values)
    return Difference(float(values.mean()), *mean_interval(values), p=p, corrected=corrected)


def curve_table(curves: RobustnessCurves, *, caption: str | None = None) -> TextTable:
    """Means and half-widths of their 95 % intervals, then differences from the baseline."""
    title = caption or f"{curves.metric} under {curves.noise}"
    rows = []
    for i, level in enumerate(curves.levels):
        means = [points[i] for points in curves.curves.values()]
        cells = [f"{p.mean:.4f} ±{(p.high - p.low) / 2:.4f}" for p in means]
        differences = [points[i] for points in curves.differences.values()]
        cells += [f"{d.mean:+.4f}{d.mark(curves.alpha)}" for d in differences]
        rows.append(Row((level_text(level), *cells)))
    columns = ("level", *curves.curves, *(f"{n} − {curves.baseline}" for n in curves.differences))
    note = (
        f"{curves.metric} on clean test lists, noise in {curves.noisy}; means of {curves.trials} trials ± half of the "
        f"95 % interval; level: {curves.unit}. ▲ better, ▼ worse than {curves.baseline}: two-sided paired t-test over "
        f"trials, significance at {curves.alpha:g}, not corrected for the number of levels."
    )
    if curves.slope_differences:
        slopes = [f"{name} {d.mean:+.4f} (p {d.corrected:.2g})" for name, d in curves.slope_differences.items()]
        note += f" Slope over the levels, less that of {curves.baseline}: {', '.join(slopes)}; positive: loses less."
    return TextTable(title, columns, tuple(rows), note)


def level_text(level: float) -> str:
    """A level for people.

    >>> level_text(0.4), level_text(0.125)
    ('40 %', '12.5 %')
    """
    return f"{100 * level:.3g} %"


def curve_charts(curves: RobustnessCurves, *, on: str = "") -> dict[str, LineChart]:
    """Charts by name: the curves, and the differences from the baseline; titles name the data set ``on``."""
    prefix = f"{on}: " if on else ""

    def chart(title: str, by_system: Mapping[str, Sequence[Point]], *, zero: bool) -> LineChart:
        lines = [
            Line(name, curves.levels, [p.mean for p in own], [p.low for p in own], [p.high for p in own], style="both")
            for name, own in by_system.items()
        ]
        return LineChart(prefix + title, curves.unit, lines, zero=zero, percent=True, order=list(curves.curves))

    charts = {"curves": chart(f"{curves.metric} under {curves.noise}", curves.curves, zero=False)}
    if curves.differences:
        title = f"difference in {curves.metric} from {curves.baseline}"
        charts["differences"] = chart(title, curves.differences, zero=True)
    return charts


CurvesByKind = Sequence[tuple[str, Plan, RobustnessCurves]]
"""For each kind of noise its name, its trials and its curves."""


def write_robustness(by_kind: CurvesByKind, folder: Path, *, command: str | None = None) -> WrittenFiles:
    """Write report, tables and figures of curves; ``command`` tells the reader how to repeat it."""
    formats = FORMATS if can_draw() else ()
    for name, _, curves in by_kind:
        for figure, chart in curve_charts(curves).items():
            write_figure(chart, folder / f"{name}-{figure}", formats)
    files = WrittenFiles(folder / "report.html", folder / "results.json")
    tables = [curve_table(curves) for _, _, curves in by_kind]
    write_text(folder / "robustness.md", "\n".join(table.markdown() for table in tables))
    write_text(folder / "robustness.tex", "\n".join(table.latex() for table in tables))
    write_json(files.results, robustness_payload(by_kind))
    plan, first = by_kind[0][1], by_kind[0][2]
    write_page(
        files.report,
        "robustness.html",
        title=f"Robustness curves on {plan.source.name}",
        lead=f"{len(plan.systems)} systems, {first.trials} trials at each level, selected by {plan.select}. Bands are "
        "95 % intervals of the means over trials; test lists are clean.",
        kinds=[_kind(curves) for _, _, curves in by_kind],
        command=command,
        notes=[*(f"{c.noise}: {p.protocol}; noise in {c.noisy} only." for _, p, c in by_kind), CONVENTION],
        settings=plan.settings(),
        environment=plan.environment(),
    )
    return files


def robustness_payload(by_kind: CurvesByKind) -> dict[str, Any]:
    """Curves as plain data."""
    plan = by_kind[0][1]
    return {
        "data": plan.source.name,
        "selected_by": plan.select,
        "noise": {name: curves.to_dict() for name, _, curves in by_kind},
        "settings": plan.settings(),
        "environment": plan.environment(),
    }


def render_curves(curves: RobustnessCurves) -> str:
    """The HTML of one kind of noise: curves, differences from the baseline, and numbers."""
    lead = f"{curves.trials} trials at each level; noise in {curves.noisy} only. Bands are 95 % intervals of the means."
    title = f"{curves.metric} under {curves.noise}"
    return render_page("robustness.html", title=title, lead=lead, kinds=[_kind(curves)])


def write_curves(curves: RobustnessCurves, path: Path) -> None:
    """Write the curves as a self-contained HTML file."""
    write_text(path, render_curves(curves))


def _kind(curves: RobustnessCurves) -> dict[str, Any]:
    """What the template shows of one kind of noise."""
    return {"curves": curves, "charts": curve_charts(curves), "levels": [level_text(level) for level in curves.levels]}
