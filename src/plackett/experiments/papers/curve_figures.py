"""Figures over the steps of training, and over levels of noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plackett.experiments.figures import Chart, Line, LineChart
from plackett.experiments.papers.paper import (
    Budget,
    Claim,
    FinishedStudy,
    ItemContent,
    ItemInputs,
    PaperFigure,
    Study,
)
from plackett.experiments.results import read_outcome
from plackett.experiments.robustness import RobustnessCurves, curve_charts, curve_table
from plackett.experiments.tables import Row, TextTable


@dataclass(frozen=True)
class LearningCurves(PaperFigure):
    """A metric on validation (and training) lists as training goes on, in the first trial."""

    study: Callable[[str, Budget], Study] = field(kw_only=True)
    panels: Mapping[str, tuple[str, ...]] = field(kw_only=True)
    """Systems of each panel."""
    parts: tuple[str, ...] = field(default=("validation",), kw_only=True)
    """Which lists, as far as the models follow them."""
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:
        return (self.study(data, budget),)

    def show(self, inputs: ItemInputs) -> ItemContent:
        charts: dict[str, Chart] = {}
        rows, numbers = [], {}
        for data, finished in inputs.single_studies():
            metric = finished.plan.select.split(",")[0]
            curves = _read_first_trial(finished, metric, self.parts)
            numbers[data] = curves
            for panel, systems in self.panels.items():
                lines = [
                    Line(name, range(1, len(ys) + 1), ys)
                    for name, ys in curves.items()
                    if name.partition(",")[0] in systems
                ]
                if lines:
                    title = f"{data}, {panel}: {metric} during training"
                    label = "step of training (trees, or epochs)"
                    charts[self.file_name(data, panel)] = LineChart(title, label, lines)
            rows += [
                _milestones(data, name, ys)
                for name, ys in curves.items()
                if not name.endswith(", train")
            ]
        columns = ("validation lists of", "best", "at step", "after 10 %", "after 25 %", "steps")
        table = TextTable(f"{self.name}: the curves in numbers", columns, tuple(rows))
        return ItemContent((table,), charts, (), self.notes, numbers)


def _read_first_trial(
    finished: FinishedStudy, metric: str, parts: Sequence[str]
) -> dict[str, list[float]]:
    """Curves of the first trial by system, and by part of the data if there are several."""
    curves: dict[str, list[float]] = {}
    for trial in (trial for trial in finished.plan.trials if trial.split.index == 0):
        by_part = read_outcome(trial, finished.store).curves
        for part in parts:
            values = by_part.get(part, {}).get(metric)
            if values:
                suffix = f", {part}" if len(parts) > 1 else ""
                curves[f"{trial.system.name}{suffix}"] = list(values)
    return curves


def _milestones(data: str, name: str, values: Sequence[float]) -> Row:
    best = max(range(len(values)), key=values.__getitem__)
    early = [f"{values[max(0, round(share * len(values)) - 1)]:.4f}" for share in (0.1, 0.25)]
    who = f"{data}: {name.removesuffix(', validation')}"
    return Row((who, f"{values[best]:.4f}", f"{best + 1}", *early, f"{len(values)}"))


@dataclass(frozen=True)
class NoiseCurves(PaperFigure):
    """Systems under growing noise, and the difference between them."""

    noisy: Callable[[str, Budget], Sequence[Study]] = field(kw_only=True)
    """A study for each kind of noise."""
    claim: tuple[str, str] = field(kw_only=True)
    """The system that is said to lose less, and the other."""
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:
        return self.noisy(data, budget)

    def show(self, inputs: ItemInputs) -> ItemContent:
        tables: list[TextTable] = []
        charts: dict[str, Chart] = {}
        claims: list[Claim] = []
        numbers: dict[str, Any] = {}
        for data, studies in inputs.studies.items():
            for finished in studies:
                curves = finished.noise_curves
                title = f"{data}, {curves.noise}"
                tables.append(curve_table(curves, caption=f"{self.name}: {title}"))
                for name, chart in curve_charts(curves, on=data).items():
                    charts[self.file_name(title, name)] = chart
                claims += _claim_robust(title, curves, *self.claim)
                numbers[title] = curves.to_dict()
        return ItemContent(tuple(tables), charts, tuple(claims), self.notes, numbers)


def _claim_robust(title: str, curves: RobustnessCurves, better: str, other: str) -> list[Claim]:
    """Better at every level, and losing less from the first level to the last."""
    differences = curves.differences[better]
    sure = [d.mean > 0 and d.p < curves.alpha for d in differences]
    at = ", ".join(f"{d.mean:+.4f}" for d in differences)
    lost = {n: curves.curves[n][0].mean - curves.curves[n][-1].mean for n in (better, other)}
    return [
        Claim(
            f"{title}: {better} is better than {other} at every level",
            f"{at}; significant at {sum(sure)} of {len(sure)} levels",
            all(d.mean > 0 for d in differences),
        ),
        Claim(
            f"{title}: {better} loses less than {other} from the first level to the last",
            f"{lost[better]:.4f} and {lost[other]:.4f} of {curves.metric}",
            lost[better] < lost[other],
        ),
    ]
