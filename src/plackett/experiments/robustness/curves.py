"""Systems under growing noise: means with intervals, and differences from a baseline.

Curves under noise as a table: a row per level, systems and differences in columns.

Curves under noise as one HTML file.

The files that curves under noise leave: a report, tables, figures, data.

Kinds of noise by name, with the levels of Bruch (2021).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from plackett.base.errors import UsageError
from plackett.base.files import atomic_file, write_json, write_text
from plackett.base.ragged import Values
from plackett.data.dataset import Dataset
from plackett.data.folds import Fold
from plackett.distributed import Cluster
from plackett.experiments.compare import run_trials
from plackett.experiments.figures import Line, bands, line_figure
from plackett.experiments.plan import Plan, plan_comparison
from plackett.experiments.protocols import DataSource, Protocol
from plackett.experiments.protocols import protocol as as_protocol
from plackett.experiments.report.render import closing, page
from plackett.experiments.results import metric_values, read_outcome
from plackett.experiments.robustness.noise import (
    CLICK_LEVELS,
    Augmentation,
    Clicks,
    Corruption,
    LabelNoise,
    NoiseProtocol,
)
from plackett.experiments.significance import mean_interval, t_test
from plackett.experiments.store import RunStore
from plackett.experiments.systems import environment
from plackett.experiments.tables import Row, TextTable
from plackett.models.ranker import Progress, Ranker

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
    found = []
    for job in (job for job in plan.jobs if job.system.name == system):
        values = metric_values(
            job,
            read_outcome(job, store),
            store=store,
            metrics=plan.metrics,
            trial=partial(plan.protocol.trial, plan.source, job.part),
        )
        found.append(float(np.nanmean(values[plan.metrics[0]])))
    return np.array(found).reshape(n_levels, -1)


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


def curve_table(found: RobustnessCurves, *, caption: str | None = None) -> TextTable:
    """Means and half-widths of their 95 % intervals, then differences from the baseline.

    Parameters
    ----------
    found
        The curves.
    caption
        By default the metric and the noise.
    """
    title = caption or f"{found.metric} under {found.corruption}"
    rows = []
    for i, level in enumerate(found.levels):
        means = [points[i] for points in found.curves.values()]
        cells = [f"{p.mean:.4f} ±{(p.high - p.low) / 2:.4f}" for p in means]
        cells += [_difference_cell(points[i], found.alpha) for points in found.differences.values()]
        rows.append(Row((level_text(level), *cells)))
    columns = ("level", *found.curves, *(f"{n} − {found.baseline}" for n in found.differences))
    note = (
        f"{found.metric} on clean test lists, noise in {found.noisy}; means of {found.trials} "
        f"trials ± half of the 95 % interval; level: {found.unit}. ▲ better, ▼ worse than "
        f"{found.baseline}: two-sided paired t-test over trials, level {found.alpha:g}, not "
        "corrected for the number of levels."
    )
    return TextTable(title, columns, tuple(rows), note)


def level_text(level: float) -> str:
    """A level for people.

    >>> level_text(0.4), level_text(0.125)
    ('40 %', '12.5 %')
    """
    return f"{100 * level:.3g} %"


def _difference_cell(found: Difference, alpha: float) -> str:
    mark = "" if found.p >= alpha else "▲" if found.mean > 0 else "▼"
    return f"{found.mean:+.4f}{mark}"


def write_curves(found: RobustnessCurves, path: Path) -> None:
    """Write the curves as a self-contained HTML file."""
    with atomic_file(path) as temporary:
        temporary.write_text(render_curves(found), encoding="utf-8")


def render_curves(found: RobustnessCurves) -> str:
    """The HTML: each system's curve, the differences from the baseline, and the numbers."""
    title = f"{found.metric} under {found.corruption}"
    lead = (
        f"{found.trials} trials at each level; noise in {found.noisy} only. Bands are 95 % "
        "intervals of the means."
    )
    body = f"<h1>{escape(title)}</h1><p class='lead'>{lead}</p>{curve_section(found)}"
    return page(title, body)


def curve_section(found: RobustnessCurves) -> str:
    """The charts and numbers, for a page that shows more than one kind of noise."""
    charts = curve_charts(found)
    sections = [charts["curves"]]
    if found.differences:
        sections.append(f"<h2>{escape(_under(found))}</h2>{charts['differences']}")
    return "".join([*sections, _table(found)])


def curve_charts(found: RobustnessCurves) -> dict[str, str]:
    """HTML of each chart, by the names of :func:`curve_figures`."""
    title = f"{found.metric} under {found.corruption}"
    result = {"curves": _chart(found, found.curves, title, zero=False)}
    if found.differences:
        result["differences"] = _chart(found, found.differences, _under(found), zero=True)
    return result


def _under(found: RobustnessCurves) -> str:
    return f"Difference from {found.baseline}"


def _chart(
    found: RobustnessCurves, series: Mapping[str, Sequence[Point]], title: str, *, zero: bool
) -> str:
    return bands(
        {name: [(p.mean, p.low, p.high) for p in points] for name, points in series.items()},
        levels=found.levels,
        title=title,
        x_label=found.unit,
        zero=zero,
        order=list(found.curves),
    )


def curve_figures(found: RobustnessCurves, *, on: str = "") -> dict[str, str]:
    """SVG files by name: the curves, and the differences from the baseline.

    Parameters
    ----------
    found
        The curves.
    on
        The data, for titles.
    """
    order = list(found.curves)
    head = f"{on}: " if on else ""
    result = {
        "curves": line_figure(
            {name: _line(found.levels, points) for name, points in found.curves.items()},
            title=f"{head}{found.metric} under {found.corruption}",
            x_label=found.unit,
        )
    }
    if found.differences:
        result["differences"] = line_figure(
            {name: _line(found.levels, points) for name, points in found.differences.items()},
            title=f"{head}difference in {found.metric} from {found.baseline}",
            x_label=found.unit,
            zero=True,
            order=order,
        )
    return result


def _line(levels: Sequence[float], points: Sequence[Point]) -> Line:
    return Line(levels, [p.mean for p in points], [p.low for p in points], [p.high for p in points])


def _table(found: RobustnessCurves) -> str:
    head = "".join(f"<th>{level_text(level)}</th>" for level in found.levels)
    rows = []
    for name, points in found.curves.items():
        marks = [
            "" if d.p >= found.alpha else "▲" if d.mean > 0 else "▼"
            for d in found.differences.get(name, ())
        ] or [""] * len(points)
        cells = "".join(
            f"<td>{p.mean:.4f} {mark}<span class='interval'>{p.low:.4f} … {p.high:.4f}</span></td>"
            for p, mark in zip(points, marks, strict=True)
        )
        rows.append(f"<tr><td>{escape(name)}</td>{cells}</tr>")
    return (
        f"<h2>Numbers</h2><div class='scroll'><table class='board'><thead><tr><th>system</th>{head}"
        f"</tr></thead><tbody>{''.join(rows)}</tbody></table></div><p class='small'>▲ better, ▼ "
        f"worse than {escape(found.baseline)}: paired t-test over trials, level {found.alpha:g}, "
        "not corrected for the number of levels.</p>"
    )


Found = Sequence[tuple[str, Plan, RobustnessCurves]]
"""For each kind of noise its name, its trials and its curves."""


@dataclass(frozen=True)
class CurveFiles:
    """What was written."""

    report: Path
    results: Path
    markdown: Path
    latex: Path
    figures: tuple[Path, ...]


def write_robustness(found: Found, folder: Path, *, command: str | None = None) -> CurveFiles:
    """Write report, tables and figures of curves under several kinds of noise.

    Parameters
    ----------
    found
        The curves.
    folder
        Made if it is not there; files in it are replaced.
    command
        What repeats it, for the reader.
    """
    drawn = {
        f"{name}-{figure}": svg
        for name, _, curves in found
        for figure, svg in curve_figures(curves).items()
    }
    files = CurveFiles(
        folder / "report.html",
        folder / "results.json",
        folder / "robustness.md",
        folder / "robustness.tex",
        tuple(folder / f"{name}.svg" for name in drawn),
    )
    grids = [curve_table(curves) for _, _, curves in found]
    write_text(files.markdown, "\n".join(grid.markdown() for grid in grids))
    write_text(files.latex, "\n".join(grid.latex() for grid in grids))
    for path, svg in zip(files.figures, drawn.values(), strict=True):
        write_text(path, svg)
    write_json(files.results, robustness_payload(found))
    write_text(files.report, _report(found, command))
    return files


def robustness_payload(found: Found) -> dict[str, Any]:
    """Curves as plain data."""
    plan = found[0][1]
    return {
        "data": plan.source.name,
        "selected_by": plan.select,
        "noise": {name: curves.to_dict() for name, _, curves in found},
        "settings": _settings(plan),
        "environment": _environment(plan),
    }


def _report(found: Found, command: str | None) -> str:
    plan, first = found[0][1], found[0][2]
    title = f"Robustness curves on {plan.source.name}"
    lead = (
        f"{len(plan.systems)} systems, {first.trials} trials at each level, chosen by "
        f"{plan.select}. Bands are 95 % intervals of the means over trials; test lists are clean."
    )
    sections = [
        f"<h2>Robustness curves: {escape(f'{c.metric} under {c.corruption}')}</h2>"
        f"{curve_section(c)}"
        for _, _, c in found
    ]
    notes = [
        *(f"{c.corruption}: {p.protocol}; noise in {c.noisy} only." for _, p, c in found),
        "Metrics, unless their names say otherwise: gain 2^label - 1, discount 1/log2(1 + rank), "
        "lists without a relevant document left out, ERR with the top label of each list.",
    ]
    end = closing(
        command=command, notes=notes, settings=_settings(plan), environment=_environment(plan)
    )
    head = f"<h1>{escape(title)}</h1><p class='lead'>{escape(lead)}</p>"
    return page(title, "".join([head, *sections, end]))


def _settings(plan: Plan) -> dict[str, Mapping[str, Any]]:
    seed = plan.jobs[0].part.seed
    return {system.name: system.settings(seed) for system in plan.systems}


def _environment(plan: Plan) -> dict[str, str]:
    return environment({name for system in plan.systems for name in system.libraries()})


@dataclass(frozen=True)
class NoiseKind:
    """What a name stands for."""

    corruption: Corruption
    levels: tuple[float, ...]
    """Those of the paper."""


KINDS: dict[str, NoiseKind] = {
    "negatives": NoiseKind(Augmentation(), LEVELS),
    "labels": NoiseKind(LabelNoise(), LEVELS),
    "clicks": NoiseKind(Clicks(), CLICK_LEVELS),
}
"""By name."""


def noise_kind(name: str) -> NoiseKind:
    """The kind of noise of this name."""
    if name not in KINDS:
        raise UsageError(f"there is no noise {name!r}. There are: {', '.join(KINDS)}.")
    return KINDS[name]
