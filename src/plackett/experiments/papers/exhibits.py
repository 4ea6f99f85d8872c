"""A table of systems and metrics: our numbers, the paper's under them.

Differences between systems, tested as the papers test them.

Figures over the steps of training, and over levels of noise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plackett.base.ragged import Values
from plackett.experiments.figures import Line, line_figure
from plackett.experiments.figures import curves as curves_chart
from plackett.experiments.papers.paper import (
    Budget,
    Claim,
    Done,
    Drawing,
    Findings,
    ItemContent,
    PaperItem,
    Study,
)
from plackett.experiments.papers.published import Published, number
from plackett.experiments.protocols import Protocol, Splits
from plackett.experiments.results import ComparisonResults, read_outcome
from plackett.experiments.robustness import RobustnessCurves
from plackett.experiments.robustness.curves import curve_charts, curve_figures, curve_table
from plackett.experiments.significance import holm, mean_interval, resampled_t_test, t_test
from plackett.experiments.tables import Row, TextTable


@dataclass(frozen=True)
class Difference:
    """One system minus another over paired lists or trials."""

    system: str
    against: str
    metric: str
    mean: float
    low: float
    high: float
    """Ends of the 95 % interval."""
    p: float
    """Two-sided p-value of the paired t-test, as the papers have it."""
    adjusted: float
    """The same by Holm's method for all systems of the table under this metric."""
    alpha: float
    resampled: float | None = None
    """p-value corrected for random splits that overlap (Nadeau & Bengio 2003)."""

    @property
    def mark(self) -> str:
        """Hollow: significant by the paper's test. Filled: with Holm's correction as well."""
        if self.p >= self.alpha or self.mean == 0:
            return ""
        sure = self.adjusted < self.alpha
        return ("▲" if sure else "△") if self.mean > 0 else ("▼" if sure else "▽")


@dataclass(frozen=True)
class Judged:
    """The means of systems on one data set, and their differences."""

    metrics: tuple[str, ...]
    means: Mapping[str, Mapping[str, float]]
    halves: Mapping[str, Mapping[str, float]]
    """Half the width of the 95 % interval over trials; 0 for a single one."""
    differences: Mapping[tuple[str, str], Difference]
    """By system and metric."""

    def mark(self, system: str, metric: str) -> str:
        """Of a system, where it was compared."""
        found = self.differences.get((system, metric))
        return found.mark if found else ""


def judge(
    gathered: ComparisonResults,
    against: Mapping[str, str],
    *,
    alpha: float,
    protocol: Protocol | None = None,
) -> Judged:
    """Compare systems with those they stand against.

    Parameters
    ----------
    gathered
        The trials.
    against
        For each system that is compared, the other one.
    alpha
        The paper's level of significance.
    protocol
        Under random splits, p-values that take their overlap into account are added.
    """
    metrics = tuple(next(iter(gathered.values.values())))
    pairs = {a: b for a, b in against.items() if a in gathered.values and b in gathered.values}
    found: dict[tuple[str, str], Difference] = {}
    for metric in metrics:
        rows = [_difference(gathered, a, b, metric) for a, b in pairs.items()]
        adjusted = holm([t_test(d) for d in rows])
        for (a, b), d, sure in zip(pairs.items(), rows, adjusted, strict=True):
            ends = mean_interval(d)
            found[a, metric] = Difference(
                a, b, metric, float(d.mean()), *ends, t_test(d), float(sure), alpha,
                _resampled(d, protocol),
            )  # fmt: skip
    means = {
        name: {m: float(np.nanmean(v)) for m, v in own.items()}
        for name, own in gathered.values.items()
    }
    halves = {
        name: {m: _half(values) for m, values in own.items()}
        for name, own in gathered.trial_means.items()
    }
    return Judged(metrics, means, halves, found)


def _difference(gathered: ComparisonResults, a: str, b: str, metric: str) -> Values:
    d = gathered.values[a][metric] - gathered.values[b][metric]
    return d[~np.isnan(d)]


def _resampled(d: Values, protocol: Protocol | None) -> float | None:
    if not isinstance(protocol, Splits):
        return None
    shares = {"test_share": protocol.test_share, "train_share": protocol.train_share}
    return resampled_t_test(d, **shares)


def _half(values: Values) -> float:
    low, high = mean_interval(values)
    return (high - low) / 2


_MARKS = (
    "▲ better, ▼ worse than the system named below: two-sided paired t-test over {unit}, level "
    "{alpha:g}, by Holm's method corrected for the number of systems; △ ▽ only without the "
    "correction."
)


@dataclass(frozen=True)
class ResultTable(PaperItem):
    """Means of metrics by system, one grid per data set."""

    study: Callable[[str, Budget], Study] = field(kw_only=True)
    """What is run on a set."""
    published: Mapping[str, Published] = field(default_factory=dict, kw_only=True)
    """The paper's cells by data set; none where they are lost."""
    against: Callable[[str], Mapping[str, str]] = field(kw_only=True)
    """For the systems on a set that are compared, the other one."""
    alpha: float = field(default=0.05, kw_only=True)
    percent: bool = field(default=False, kw_only=True)
    spread: bool = field(default=False, kw_only=True)
    """Whether the paper gives intervals over trials."""
    claims: Callable[[str, Judged], Sequence[Claim]] | None = field(default=None, kw_only=True)
    """What the paper says of a set, judged by our numbers."""
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:
        return (self.study(data, budget),)

    def show(self, found: Findings) -> ItemContent:
        grids, claims, numbers = [], [], {}
        for data, (done,) in found.done.items():
            judged = judge(
                done.gathered,
                self.against(data),
                alpha=self.alpha,
                protocol=done.plan.protocol,
            )
            grids.append(self._grid(data, done, judged))
            numbers[data] = self._numbers(data, done, judged)
            if self.claims is not None:
                claims += [_on(data, claim) for claim in self.claims(data, judged)]
        return ItemContent(tuple(grids), (), tuple(claims), self.notes, numbers)

    def _grid(self, data: str, done: Done, judged: Judged) -> TextTable:
        rows: list[Row] = []
        printed = self.published.get(data, {})
        for system in judged.means:
            cells = [self._cell(judged, system, m) for m in judged.metrics]
            rows.append(Row((system, *cells), "ours"))
            if system in printed:
                rows.append(Row(("paper", *printed[system]), "paper"))
        columns = ("system", *(shown(m) for m in judged.metrics))
        caption = f"{self.name}: {done.plan.source.name}" + (" (%)" if self.percent else "")
        return TextTable(caption, columns, tuple(rows), self._note(done, judged))

    def _cell(self, judged: Judged, system: str, metric: str) -> str:
        text = self._spelt(judged.means[system][metric])
        if self.spread:
            text += f"±{self._spelt(judged.halves[system][metric])}"
        return text + judged.mark(system, metric)

    def _spelt(self, value: float) -> str:
        return f"{100 * value:.2f}" if self.percent else f"{value:.3f}".removeprefix("0")

    def _note(self, done: Done, judged: Judged) -> str:
        unit = done.plan.protocol.unit
        parts = [f"Protocol {done.plan.protocol}; chosen by {done.plan.select}."]
        pairs = dict.fromkeys((d.system, d.against) for d in judged.differences.values())
        if pairs:
            parts.append(_MARKS.format(unit=unit, alpha=self.alpha))
            parts.append(f"Compared: {_pairs_in_words(list(pairs))}.")
        if self.spread:
            parts.append("±: 95 % interval of the mean over trials (Student's).")
        return " ".join(parts)

    def _numbers(self, data: str, done: Done, judged: Judged) -> dict[str, Any]:
        printed = self.published.get(data, {})
        return {
            "protocol": str(done.plan.protocol),
            "selected_by": done.plan.select,
            "means": judged.means,
            "half_intervals": judged.halves,
            "paper": {
                name: dict(zip(judged.metrics, map(number, cells), strict=True))
                for name, cells in printed.items()
            },
            "differences": [vars(each) for each in judged.differences.values()],
            "seconds": done.gathered.seconds,
        }


def shown(metric: str) -> str:
    """A metric as tables head it, without options.

    >>> shown("ndcg@10:discount=letor")
    'NDCG@10'
    """
    return metric.partition(":")[0].upper()


def _pairs_in_words(pairs: Sequence[tuple[str, str]]) -> str:
    others = dict.fromkeys(other for _, other in pairs)
    if len(others) == 1:
        return f"all with {next(iter(others))}"
    return ", ".join(f"{a} with {b}" for a, b in pairs)


def _on(data: str, claim: Claim) -> Claim:
    return Claim(f"{data}: {claim.text}", claim.here, claim.holds)


def ordered(judged: Judged, above: str, below: str, metrics: Sequence[str] = ()) -> Claim:
    """The claim that a system is significantly better than the one it is compared with."""
    wanted = [m for m in metrics or judged.metrics if (above, m) in judged.differences]
    found = [judged.differences[above, m] for m in wanted]
    if not found:
        return Claim(f"{above} is better than {below}", "was not run", None)
    here = ", ".join(f"{shown(d.metric)} {d.mean:+.4f} ({_p_values(d)})" for d in found)
    holds = all(d.mean > 0 and d.p < d.alpha for d in found)
    return Claim(f"{above} is better than {below}, significantly", here, holds)


def _p_values(d: Difference) -> str:
    corrected = "" if d.resampled is None else f", resampled {_p(d.resampled)}"
    return f"p {_p(d.p)}{corrected}"


def _p(p: float) -> str:
    return "<.0001" if p < 1e-4 else f"{p:.2g}"


_MANY = 400
"""Points of a curve that a figure shows; longer ones are thinned."""


def slug(text: str) -> str:
    """A name as part of a file's.

    >>> slug("MSLR-WEB30K, sampled negatives")
    'mslr-web30k-sampled-negatives'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


@dataclass(frozen=True)
class LearningCurves(PaperItem):
    """A metric on validation (and training) lists as training goes on, in the first trial."""

    study: Callable[[str, Budget], Study] = field(kw_only=True)
    panels: Mapping[str, tuple[str, ...]] = field(kw_only=True)
    """Systems of each panel."""
    parts: tuple[str, ...] = field(default=("validation",), kw_only=True)
    """Which lists, as far as the models follow them."""
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:
        return (self.study(data, budget),)

    def show(self, found: Findings) -> ItemContent:
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
        grid = TextTable(f"{self.name}: the curves in numbers", columns, tuple(rows))
        return ItemContent((grid,), tuple(drawings), (), self.notes, numbers)

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
        kept = read_outcome(job, done.store).curves
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
class NoiseCurves(PaperItem):
    """Systems under growing noise, and the difference between them."""

    noisy: Callable[[str, Budget], Sequence[Study]] = field(kw_only=True)
    """A study for each kind of noise."""
    claim: tuple[str, str] = field(kw_only=True)
    """The system that is said to lose less, and the other."""
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:
        return self.noisy(data, budget)

    def show(self, found: Findings) -> ItemContent:
        grids: list[TextTable] = []
        drawings: list[Drawing] = []
        claims: list[Claim] = []
        numbers: dict[str, Any] = {}
        for data, studies in found.done.items():
            for done in studies:
                curves = done.under_noise
                what = f"{data}, {curves.corruption}"
                grids.append(curve_table(curves, caption=f"{self.name}: {what}"))
                drawings += self._drawings(what, curves)
                claims += _robust(what, curves, *self.claim)
                numbers[what] = curves.to_dict()
        return ItemContent(tuple(grids), tuple(drawings), tuple(claims), self.notes, numbers)

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
