"""Figures over the steps of training, and over levels of noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plackett.base.ragged import Values
from plackett.experiments.figures import Chart, Line, LineChart
from plackett.experiments.papers.paper import Budget, Claim, FinishedStudy, ItemContent, ItemInputs, PaperFigure, Study
from plackett.experiments.protocols import Protocol, Seeds
from plackett.experiments.results import read_outcome
from plackett.experiments.robustness import RobustnessCurves, curve_charts, curve_table
from plackett.experiments.significance import decide, randomisation_test
from plackett.experiments.tables import Row, TextTable

_SHOWN = 5
"""Trials whose curves are drawn."""
_LEVEL = 0.05
_NEAR = 0.99
"""Share of the other system's best value that counts as having converged."""


@dataclass(frozen=True)
class LearningCurves(PaperFigure):
    """A metric on validation (and training) lists as training goes on, in repeated trials."""

    study: Callable[[str, Budget], Study] = field(kw_only=True)
    panels: Mapping[str, tuple[str, ...]] = field(kw_only=True)
    """Systems of each panel."""
    parts: tuple[str, ...] = field(default=("validation",), kw_only=True)
    """Which lists, as far as the models follow them."""
    faster: tuple[tuple[str, str], ...] = field(default=(), kw_only=True)
    """Systems that are said to converge faster, and the others."""
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:
        return (self.study(data, budget),)

    def show(self, inputs: ItemInputs) -> ItemContent:
        charts: dict[str, Chart] = {}
        rows, numbers = [], {}
        claims: list[Claim] = []
        for data, finished in inputs.single_studies():
            metric = finished.plan.select.split(",")[0]
            curves = _read_curves(finished, metric, self.parts)
            numbers[data] = curves
            for panel, systems in self.panels.items():
                lines = [
                    line
                    for (name, part), trials in curves.items()
                    if name in systems
                    for line in _lines(_title(name, part, self.parts), trials)
                ]
                if lines:
                    title = f"{data}, {panel}: {metric} during training"
                    label = "step of training (trees, or epochs)"
                    charts[self.file_name(data, panel)] = LineChart(title, label, lines)
            validation = {name: trials for (name, part), trials in curves.items() if part == "validation"}
            rows += [_milestones(f"{data}: {name}", trials) for name, trials in validation.items()]
            for pair in self.faster:
                if set(pair) <= set(validation):
                    claims += _claim_faster(data, metric, *pair, validation, finished.plan.protocol)
        columns = ("validation lists, means of trials", "best", "at step", "after 10 %", "after 25 %", "steps")
        table = TextTable(f"{self.name}: the curves in numbers", columns, tuple(rows))
        plain = {data: {", ".join(key): own for key, own in c.items()} for data, c in numbers.items()}
        return ItemContent((table,), charts, tuple(claims), self.notes, plain)


Curves = dict[tuple[str, str], list[list[float]]]
"""By system and part of the data, a curve per trial."""


def _read_curves(finished: FinishedStudy, metric: str, parts: Sequence[str]) -> Curves:
    curves: Curves = {}
    for trial in finished.plan.trials:
        by_part = read_outcome(trial, finished.store).curves
        for part in parts:
            values = by_part.get(part, {}).get(metric)
            if values:
                curves.setdefault((trial.system.name, part), []).append(list(values))
    return curves


def _title(name: str, part: str, parts: Sequence[str]) -> str:
    return f"{name}, {part}" if len(parts) > 1 else name


def _lines(name: str, trials: Sequence[Sequence[float]]) -> list[Line]:
    """The mean of the trials, and thin lines for some of them."""
    length = max(map(len, trials))
    mean = np.mean([_extended(values, length) for values in trials], axis=0).tolist()
    thin = [
        Line(name, range(1, len(ys) + 1), ys, label=f"trial {i + 1}", thin=True)
        for i, ys in enumerate(trials[:_SHOWN] if len(trials) > 1 else ())
    ]
    return [Line(name, range(1, length + 1), mean, label=f"mean of {len(trials)} trials"), *thin]


def _milestones(name: str, trials: Sequence[Sequence[float]]) -> Row:
    best = [int(np.argmax(values)) for values in trials]
    early = [[v[max(0, round(share * len(v)) - 1)] for v in trials] for share in (0.1, 0.25)]
    top = np.mean([v[i] for v, i in zip(trials, best, strict=True)])
    steps = (np.mean(best) + 1, np.mean([len(v) for v in trials]))
    return Row((name, f"{top:.4f}", f"{steps[0]:.0f}", *(f"{np.mean(v):.4f}" for v in early), f"{steps[1]:.0f}"))


def _claim_faster(
    data: str, metric: str, quick: str, slow: str, curves: Mapping[str, Sequence[Sequence[float]]], protocol: Protocol
) -> list[Claim]:
    """A larger area under the curve, and fewer steps to 99 % of the other's best value."""
    areas, steps = [], []
    for a, b in zip(curves[quick], curves[slow], strict=True):
        length = max(len(a), len(b))
        areas.append([_extended(values, length).mean() for values in (a, b)])
        target = _NEAR * max(b)
        steps.append([_first_at(values, target, length) for values in (a, b)])
    area, step = np.array(areas), np.array(steps, np.float64)
    test = "no test: a single trial"
    ps: list[float | None] = [None, None]
    if len(areas) > 1:
        unit = "seeds on the same lists" if isinstance(protocol, Seeds) else "trials"
        test = f"paired randomisation test over {len(areas)} {unit}"
        least = 2.0 ** (1 - len(areas))
        if least >= _LEVEL:
            test += f", whose p cannot be below {least:.2g}"
        ps = [randomisation_test(pairs[:, 0] - pairs[:, 1]) for pairs in (area, step)]
    rises = float((area[:, 0] - area[:, 1]).mean())
    saved = float((step[:, 1] - step[:, 0]).mean())
    means = step.mean(axis=0)
    return [
        Claim(
            f"{data}: {quick} is above {slow} during training",
            f"mean {metric} over the steps {rises:+.4f}",
            None if ps[0] is None else decide([(rises, ps[0])], _LEVEL),
            ps[0],
            test,
        ),
        Claim(
            f"{data}: {quick} converges faster than {slow}",
            f"{means[0]:.0f} and {means[1]:.0f} steps to {_NEAR:.0%} of the best {metric} of {slow}",
            None if ps[1] is None else decide([(saved, ps[1])], _LEVEL),
            ps[1],
            test,
        ),
    ]


def _extended(values: Sequence[float], length: int) -> Values:
    """A curve to this length: after the last step the best model stays."""
    return np.concatenate([values, np.full(length - len(values), max(values))])


def _first_at(values: Sequence[float], target: float, length: int) -> int:
    """The first step at which the target is reached; one more than all if it never is."""
    reached = np.flatnonzero(np.asarray(values) >= target)
    return int(reached[0]) + 1 if len(reached) else length + 1


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
    """Better at every level, and losing less as noise grows."""
    differences = curves.differences[better]
    at = ", ".join(f"{d.mean:+.4f}" for d in differences)
    # Better at every level: as sure as the least sure level.
    p = max(d.corrected for d in differences)
    sure = sum(d.mean > 0 and d.corrected < curves.alpha for d in differences)
    slope = curves.slope_differences[better]
    slopes = [curves.slopes[name].mean for name in (better, other)]
    test = f"paired t-test over {curves.trials} trials corrected for overlapping splits"
    return [
        Claim(
            f"{title}: {better} is better than {other} at every level",
            f"{at}; significant at {sure} of {len(differences)} levels",
            decide([(d.mean, d.corrected) for d in differences], curves.alpha),
            p,
            f"{test}, the largest p of the levels",
        ),
        Claim(
            f"{title}: {better} loses less than {other} as noise grows",
            f"slopes {slopes[0]:+.4f} and {slopes[1]:+.4f} of {curves.metric} from level 0 to 1",
            decide([(slope.mean, slope.corrected)], curves.alpha),
            slope.corrected,
            f"{test}, of the slopes",
        ),
    ]
