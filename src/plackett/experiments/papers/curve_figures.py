"""Figures over the steps of training, and over levels of noise."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plackett.experiments.figures import Line, line_figure
from plackett.experiments.gathering import outcome_of
from plackett.experiments.papers.budget import Budget
from plackett.experiments.papers.exhibit import Claim, Drawing, Exhibit, Findings, Shown
from plackett.experiments.papers.study import Done, Study
from plackett.experiments.report.charts import curves as curves_chart
from plackett.experiments.robustness import RobustnessCurves
from plackett.experiments.robustness.page import curve_charts, curve_figures
from plackett.experiments.robustness.tables import curve_grid
from plackett.experiments.tables.grid import Grid, Row

_MANY = 400
"""Points of a curve that a figure shows; longer ones are thinned."""


def slug(text: str) -> str:
    """A name as part of a file's.

    >>> slug("MSLR-WEB30K, sampled negatives")
    'mslr-web30k-sampled-negatives'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


@dataclass(frozen=True)
class LearningCurves(Exhibit):
    """A metric on validation (and training) lists as training goes on, in the first trial."""

    study: Callable[[str, Budget], Study] = field(kw_only=True)
    panels: Mapping[str, tuple[str, ...]] = field(kw_only=True)
    """Systems of each panel."""
    parts: tuple[str, ...] = field(default=("validation",), kw_only=True)
    """Which lists, as far as the models follow them."""
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:
        return (self.study(data, budget),)

    def show(self, found: Findings) -> Shown:
        drawings, rows, numbers = [], [], {}
        for data, (done,) in found.done.items():
            metric = done.plan.select.split(",")[0]
            own = _curves(done, metric, self.parts)
            numbers[data] = own
            for panel, systems in self.panels.items():
                chosen = {n: c for n, c in own.items() if n.partition(",")[0] in systems}
                if chosen:
                    drawings.append(self._drawing(data, panel, metric, chosen))
            rows += [_milestones(data, n, c) for n, c in own.items() if not n.endswith(", train")]
        columns = ("validation lists of", "best", "at step", "after 10 %", "after 25 %", "steps")
        grid = Grid(f"{self.name}: the curves in numbers", columns, tuple(rows))
        return Shown((grid,), tuple(drawings), (), self.notes, numbers)

    def _drawing(
        self, data: str, panel: str, metric: str, chosen: Mapping[str, Sequence[float]]
    ) -> Drawing:
        title = f"{data}, {panel}: {metric} during training"
        lines = {name: _thinned(values) for name, values in chosen.items()}
        svg = line_figure(lines, title=title, x_label="step of training (trees, or epochs)")
        html = curves_chart(chosen, title=title, x_label="step of training")
        return Drawing(f"{self.file}-{slug(f'{data} {panel}')}", title, svg, html)


def _curves(done: Done, metric: str, parts: Sequence[str]) -> dict[str, list[float]]:
    """By system, and by part where there are several."""
    found: dict[str, list[float]] = {}
    for job in (job for job in done.plan.jobs if job.part.index == 0):
        kept = outcome_of(job, done.store).curves
        for part in parts:
            values = kept.get(part, {}).get(metric)
            if values:
                suffix = f", {part}" if len(parts) > 1 else ""
                found[f"{job.system.name}{suffix}"] = list(values)
    return found


def _thinned(values: Sequence[float]) -> Line:
    stride = max(1, len(values) // _MANY)
    places = range(0, len(values), stride)
    return Line([float(i + 1) for i in places], [values[i] for i in places])


def _milestones(data: str, name: str, values: Sequence[float]) -> Row:
    best = max(range(len(values)), key=values.__getitem__)
    early = [f"{values[max(0, round(share * len(values)) - 1)]:.4f}" for share in (0.1, 0.25)]
    who = f"{data}: {name.removesuffix(', validation')}"
    cells = (who, f"{values[best]:.4f}", f"{best + 1}", *early, f"{len(values)}")
    return Row(cells)


@dataclass(frozen=True)
class NoiseCurves(Exhibit):
    """Systems under growing noise, and the difference between them."""

    noisy: Callable[[str, Budget], Sequence[Study]] = field(kw_only=True)
    """A study for each kind of noise."""
    claim: tuple[str, str] = field(kw_only=True)
    """The system that is said to lose less, and the other."""
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:
        return self.noisy(data, budget)

    def show(self, found: Findings) -> Shown:
        grids: list[Grid] = []
        drawings: list[Drawing] = []
        claims: list[Claim] = []
        numbers: dict[str, Any] = {}
        for data, studies in found.done.items():
            for done in studies:
                curves = done.under_noise
                what = f"{data}, {curves.corruption}"
                grids.append(curve_grid(curves, caption=f"{self.name}: {what}"))
                drawings += self._drawings(what, curves)
                claims += _robust(what, curves, *self.claim)
                numbers[what] = curves.to_dict()
        return Shown(tuple(grids), tuple(drawings), tuple(claims), self.notes, numbers)

    def _drawings(self, what: str, curves: RobustnessCurves) -> list[Drawing]:
        charts = curve_charts(curves)
        return [
            Drawing(f"{self.file}-{slug(f'{what} {name}')}", f"{what}: {name}", svg, charts[name])
            for name, svg in curve_figures(curves, on=what.partition(",")[0]).items()
        ]


def _robust(what: str, found: RobustnessCurves, better: str, other: str) -> list[Claim]:
    """Better at every level, and losing less from the first level to the last."""
    differences = found.differences[better]
    sure = [d.mean > 0 and d.p < found.alpha for d in differences]
    at = ", ".join(f"{d.mean:+.4f}" for d in differences)
    lost = {n: found.curves[n][0].mean - found.curves[n][-1].mean for n in (better, other)}
    return [
        Claim(
            f"{what}: {better} is better than {other} at every level",
            f"{at}; significant at {sum(sure)} of {len(sure)} levels",
            all(d.mean > 0 for d in differences),
        ),
        Claim(
            f"{what}: {better} loses less than {other} from the first level to the last",
            f"{lost[better]:.4f} and {lost[other]:.4f} of {found.metric}",
            lost[better] < lost[other],
        ),
    ]
