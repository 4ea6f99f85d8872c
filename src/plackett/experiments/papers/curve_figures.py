"""Figures over the steps of training, and over levels of noise."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plackett.base.ragged import Values
from plackett.experiments.figures import Line, LineChart
from plackett.experiments.papers import paper
from plackett.experiments.protocols import Protocol, Seeds
from plackett.experiments.results import read_outcome
from plackett.experiments.robustness import RobustnessCurves, curve_charts, curve_table, read_curves
from plackett.experiments.significance import randomization_test
from plackett.experiments.tables import Row, TextTable

_SHOWN = 5  # trials whose curves are drawn
_LEVEL = 0.05
_NEAR = 0.99  # share of the other system's best value that counts as having converged


@dataclass(frozen=True, kw_only=True)
class LearningCurves(paper.PaperFigure):
    """A metric on validation (and training) lists during training, in repeated trials."""

    panels: Mapping[str, tuple[str, ...]]  # systems of each panel
    parts: tuple[str, ...] = ("validation",)  # which lists, if the models record curves for them
    faster: tuple[tuple[str, str], ...] = ()  # systems that are said to converge faster, and the others

    def show(self, content: paper.ItemContent, data: Sequence[paper.ItemData]) -> None:
        rows: list[Row] = []
        for one in data:
            (finished,) = one.studies
            metric = finished.plan.selection_metric
            curves = _read_curves(finished, metric, self.parts)
            content.numbers[one.name] = {", ".join(key): trials for key, trials in curves.items()}
            for panel, systems in self.panels.items():
                lines = [
                    line
                    for (name, part), trials in curves.items()
                    if name in systems
                    for line in _lines(f"{name}, {part}" if len(self.parts) > 1 else name, trials)
                ]
                if lines:
                    title = f"{one.name}, {panel}: {metric} during training"
                    label = "step of training (trees, or epochs)"
                    content.charts[self.file_name(one.name, panel)] = LineChart(title, label, lines)
            validation = {name: trials for (name, part), trials in curves.items() if part == "validation"}
            rows += [_milestones(f"{one.name}: {name}", trials) for name, trials in validation.items()]
            for pair in self.faster:
                if set(pair) <= set(validation):
                    content.claims += _claim_faster(one.name, metric, *pair, validation, finished.plan.protocol)
        columns = ("validation lists, means of trials", "best", "at step", "after 10 %", "after 25 %", "steps")
        content.tables.append(TextTable(f"{self.name}: the curves in numbers", columns, tuple(rows)))


TrialCurves = dict[tuple[str, str], list[list[float]]]  # by system and part of the data, a curve per trial


def _read_curves(finished: paper.FinishedStudy, metric: str, parts: Sequence[str]) -> TrialCurves:
    curves: TrialCurves = {}
    for trial in finished.plan.trials:
        by_part = read_outcome(trial, finished.store).curves
        for part in parts:
            values = by_part.get(part, {}).get(metric)
            if values:
                curves.setdefault((trial.system.name, part), []).append(list(values))
    return curves


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
) -> list[paper.Claim]:
    """A larger area under the curve, and fewer steps to 99 % of the other's best value."""
    areas, steps = [], []
    for a, b in zip(curves[quick], curves[slow], strict=True):
        length = max(len(a), len(b))
        areas.append([_extended(values, length).mean() for values in (a, b)])
        reached = [np.flatnonzero(np.asarray(values) >= _NEAR * max(b)) for values in (a, b)]
        steps.append([hits[0] + 1 if len(hits) else length + 1 for hits in reached])
    area, step = np.array(areas), np.array(steps, np.float64)
    rises = float((area[:, 0] - area[:, 1]).mean())
    saved = float((step[:, 1] - step[:, 0]).mean())
    means = step.mean(axis=0)
    gains = (
        (f"{data}: {quick} is above {slow} during training", f"mean {metric} over the steps {rises:+.4f}", rises),
        (
            f"{data}: {quick} converges faster than {slow}",
            f"{means[0]:.0f} and {means[1]:.0f} steps to {_NEAR:.0%} of the best {metric} of {slow}",
            saved,
        ),
    )
    if len(areas) == 1:
        return [paper.Claim(text, here, None, test="no test: a single trial") for text, here, _ in gains]
    unit = "seeds on the same lists" if isinstance(protocol, Seeds) else "trials"
    test = f"paired randomization test over {len(areas)} {unit}"
    least = 2.0 ** (1 - len(areas))
    if least >= _LEVEL:
        test += f", whose p cannot be below {least:.2g}"
    ps = [randomization_test(pairs[:, 0] - pairs[:, 1]) for pairs in (area, step)]
    return [
        paper.claim_positive(text, here, [(gain, p)], test, _LEVEL)
        for (text, here, gain), p in zip(gains, ps, strict=True)
    ]


def _extended(values: Sequence[float], length: int) -> Values:
    """A curve to this length: after the last step the best model stays."""
    return np.concatenate([values, np.full(length - len(values), max(values))])


@dataclass(frozen=True, kw_only=True)
class NoiseCurves(paper.PaperFigure):
    """Systems under growing noise, and the difference between them."""

    noisy: Callable[[str, paper.Budget], Sequence[paper.Study]]  # a study for each kind of noise
    claim: tuple[str, str]  # the system that is said to lose less, and the other

    def studies(self, data: str, budget: paper.Budget) -> Sequence[paper.Study]:
        return self.noisy(data, budget)

    def show(self, content: paper.ItemContent, data: Sequence[paper.ItemData]) -> None:
        for finished in (study for one in data for study in one.studies):
            curves = read_curves(finished.plan, store=finished.store)
            on = finished.plan.source.name
            title = f"{on}, {curves.noise}"
            content.tables.append(curve_table(curves, caption=f"{self.name}: {title}"))
            for name, chart in curve_charts(curves, on=on).items():
                content.charts[self.file_name(title, name)] = chart
            content.claims += _claim_robust(title, curves, *self.claim)
            content.numbers[title] = curves.to_dict()


def _claim_robust(title: str, curves: RobustnessCurves, better: str, other: str) -> list[paper.Claim]:
    """Better at every level, and losing less as noise grows."""
    differences = curves.differences[better]
    at = ", ".join(f"{d.mean:+.4f}" for d in differences)
    sure = sum(d.mean > 0 and d.corrected < curves.alpha for d in differences)
    slope = curves.slope_differences[better]
    slopes = [curves.slopes[name].mean for name in (better, other)]
    test = f"paired t-test over {curves.trials} trials corrected for overlapping splits"
    return [
        paper.claim_positive(
            f"{title}: {better} is better than {other} at every level",
            f"{at}; significant at {sure} of {len(differences)} levels",
            [(d.mean, d.corrected) for d in differences],
            f"{test}, the largest p of the levels",
            curves.alpha,
        ),
        paper.claim_positive(
            f"{title}: {better} loses less than {other} as noise grows",
            f"slopes {slopes[0]:+.4f} and {slopes[1]:+.4f} of {curves.metric} from level 0 to 1",
            [(slope.mean, slope.corrected)],
            f"{test}, of the slopes",
            curves.alpha,
        ),
    ]
