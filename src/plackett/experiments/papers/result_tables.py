"""Tables of results: our means, the paper's below them, and tests as the papers make them.

The papers' numbers are as they print them. A ``*`` is the paper's mark of significance; ``†`` marks ERR that cannot be
right, since it falls with the cut-off or lies outside what NDCG allows (another convention was used for these rows).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from plackett.experiments.papers import paper
from plackett.experiments.protocols import Protocol, Splits
from plackett.experiments.results import ComparisonResults
from plackett.experiments.significance import holm, mean_interval, paired_differences, t_test
from plackett.experiments.tables import Row, TextTable

Published = Mapping[str, tuple[str, ...]]  # cells by system, in the order of the table's metrics


def number(cell: str) -> float:
    """The number of a cell without its marks and interval.

    >>> number("*.602"), number("42.66±.36"), number(".400†")
    (0.602, 42.66, 0.4)
    """
    return float(cell.strip("*†").partition("±")[0])


def _table(text: str) -> Published:
    """One system a line, its cells after a colon."""
    lines = [line.partition(":") for line in text.strip().splitlines()]
    return {name.strip(): tuple(cells.split()) for name, _, cells in lines}


A_TABLE_1: Mapping[str, Published] = {
    "MSLR-WEB30K": _table("""
        CrossEntropy: 42.66±.36 43.06±.16 45.44±.16
        E[CrossEntropy]: 42.98±.75 43.28±.65 45.63±.62
        ApproxNDCG: 46.64±.22 45.38±.11 47.31±.10
        E[ApproxNDCG]: 48.81±.25 47.48±.10 49.33±.10
        λMART: 50.06±.27 49.39±.08 51.26±.04
        E[λMART]: 50.22±.18 49.44±.06 51.40±.04
    """),
    "Yahoo set 1": _table("""
        ApproxNDCG: 69.63±.17 72.32±.10 76.77±.06
        E[ApproxNDCG]: 70.10±.12 72.69±.13 77.11±.09
        λMART: 72.47±.15 74.97±.09 79.16±.06
        E[λMART]: 72.58±.09 75.16±.04 79.34±.05
    """),
}
"""NDCG@1, @5, @10 in percent with 95 % intervals."""

D_TABLES: Mapping[str, Published] = {
    "OHSUMED": _table("""
        uRank: *.602 *.449 *.511 *.547 *.481 *.573 *.455 *.586
        uBoost: *.609 *.454 *.531 *.555 *.493 *.580 *.464 *.594
        uMart: .530 .395 .452 .497 .431 .523 .411 .538
        urBoost: *.612 *.457 *.529 *.555 *.494 *.578 *.467 *.590
        MDPRank: .500 .317 .440 .415 .421 .449 .409 .464
        LambdaMart-L: .506 .375 .445 .488 .426 .514 .409 .527
        LambdaMart-R: .468 .346 .412 .463 .389 .485 .380 .500
        LambdaLoss: .563 .389 .449 .489 .441 .518 .420 .531
        p-ListMLE: .469 .311 .410 .430 .398 .453 .396 .472
    """),
    "MQ2007": _table("""
        uRank: *.481 *.295 *.482 *.404 *.490 *.430 *.526 *.448
        uBoost: *.489 *.300 *.481 *.406 *.491 *.433 *.523 *.450
        uMart: *.480 *.295 *.477 *.404 *.487 *.432 .519 *.449
        urBoost: *.492 *.301 *.486 *.410 *.493 *.436 *.524 *.453
        MDPRank: .406 .166† .410 .257† .417 .286† .442 .309†
        LambdaMart-L: .469 .234† .472 .346† .478 .362† .512 .369†
        LambdaMart-R: .465 .224† .464 .315† .474 .341† .508 .360†
        LambdaLoss: .406 .192† .412 .274† .419 .296† .448 .313†
        p-ListMLE: .380 .177† .338 .236† .387 .255† .372 .272†
    """),
    "MSLR-WEB10K": _table("""
        uRank: .458 .387 .441 .501 .443 .526 .458 .542
        uBoost: .459 .388 .441 .502 .444 .528 .460 .544
        uMart: *.481 *.407 *.468 *.525 *.474 *.550 *.495 *.565
        urBoost: .461 .390 .442 .503 .444 .529 .462 .545
        LambdaMart-L: .468 .396 .451 .512 .457 .538 .475 .553
        LambdaMart-R: .421 .326† .419 .400† .427 .325† .446 .344†
        LambdaLoss: .423 .308† .423 .378† .427 .294† .446 .322†
        p-ListMLE: .407 .286† .396 .370† .377 .274† .420 .300†
    """),
    "MSLR-WEB30K": _table("""
        uRank: .465 .401 .450 .515 .453 .517 .471 .545
        uBoost: .474 .403 .452 .517 .457 .543 .472 .548
        uMart: *.505 *.429 *.490 *.545 *.494 *.570 *.512 *.584
        urBoost: .478 .405 .455 .518 .458 .543 .472 .558
        LambdaMart-L: .489 .415 .468 .530 .472 .556 .490 .571
        LambdaMart-R: .458 .353† .442 .315† .448 .336† .464 .440†
        LambdaLoss: .430 .310† .399 .307† .410 .400† .428 .377†
        p-ListMLE: .411 .310† .386 .285† .394 .347† .410 .384†
    """),
}
"""NDCG@1, ERR@1, NDCG@3, ERR@3, NDCG@5, ERR@5, NDCG@10, ERR@10."""

D_TABLE_6: Mapping[str, Published] = {
    "MSLR-WEB10K": _table("""
        uMart: .496 .484 .490 .509
        LambdaMart-L: .484 .478 .484 .504
    """),
    "MSLR-WEB30K": _table("uMart: .522 .507 .510 .529"),
}
"""NDCG@1, @3, @5, @10 by LightGBM's convention, tuned on test lists; a row is lost."""

D_TABLE_1: Published = {
    "OHSUMED": ("106", "16,140", "45", "3", "68.12", "320", "71.87"),
    "MQ2007": ("1,692", "69,623", "46", "3", "87.22", "147", "73.74"),
    "MSLR-WEB10K": ("10,000", "1,200,192", "136", "5", "51.75", "908", "56.02"),
    "MSLR-WEB30K": ("31,531", "3,711,000", "136", "5", "52.22", "1,251", "53.33"),
}
"""Queries, documents, features, rating levels, LR %, MPQ, ALRPQ %."""


@dataclass(frozen=True)
class SystemDifference:
    """One system minus another over paired lists or trials."""

    system: str
    against: str
    metric: str
    mean: float
    low: float
    high: float  # ends of the 95 % interval
    p: float  # two-sided p-value of the paired t-test, as the papers have it
    adjusted: float  # the same by Holm's method for all systems of the table under this metric
    alpha: float
    resampled: float | None = None  # p-value corrected for random splits that overlap (Nadeau & Bengio 2003)

    @property
    def mark(self) -> str:
        """Hollow: significant by the paper's test. Filled: with Holm's correction as well."""
        if self.p >= self.alpha or self.mean == 0:
            return ""
        sure = self.adjusted < self.alpha
        return ("▲" if sure else "△") if self.mean > 0 else ("▼" if sure else "▽")


@dataclass(frozen=True)
class TableTests:
    """The means of systems on one data set, and their differences."""

    metrics: tuple[str, ...]
    means: Mapping[str, Mapping[str, float]]
    half_widths: Mapping[str, Mapping[str, float]]
    """Half the width of the 95 % interval over trials; 0 for a single one."""
    differences: Mapping[tuple[str, str, str], SystemDifference]  # by system, the one it is compared with, and metric
    unit: str = "lists"  # what the tests pair

    def mark(self, system: str, metric: str) -> str:
        """Of a system, where it was compared; of several comparisons the first."""
        for (name, _, m), difference in self.differences.items():
            if (name, m) == (system, metric):
                return difference.mark
        return ""


def judge(
    results: ComparisonResults,
    against: Mapping[str, str | tuple[str, ...]],
    *,
    alpha: float,
    protocol: Protocol | None = None,
) -> TableTests:
    """Means of all systems, and tests of the pairs that the paper compares.

    ``against`` has, for each system that is compared, the one or those that it is compared with; ``alpha`` is the
    paper's. If the protocol has random splits, p-values that take their overlap into account are added.
    """
    metrics = tuple(next(iter(results.values.values())))
    wanted = [(a, b) for a, others in against.items() for b in ((others,) if isinstance(others, str) else others)]
    pairs = [(a, b) for a, b in wanted if a in results.values and b in results.values]
    differences: dict[tuple[str, str, str], SystemDifference] = {}
    for metric in metrics:
        rows = [paired_differences(results.values[a][metric], results.values[b][metric]) for a, b in pairs]
        adjusted = holm([t_test(d) for d in rows])
        for (a, b), d, sure in zip(pairs, rows, adjusted, strict=True):
            ends = mean_interval(d)
            differences[a, b, metric] = SystemDifference(
                a, b, metric, float(d.mean()), *ends, t_test(d), float(sure), alpha,
                protocol.resampled_t_test(d) if isinstance(protocol, Splits) else None,
            )  # fmt: skip
    means = {name: {m: float(np.nanmean(v)) for m, v in own.items()} for name, own in results.values.items()}
    half_widths = {
        name: {m: float(np.diff(mean_interval(values))[0]) / 2 for m, values in own.items()}
        for name, own in results.trial_means.items()
    }
    return TableTests(metrics, means, half_widths, differences, "lists" if protocol is None else protocol.unit)


_MARKS = (
    "▲ better, ▼ worse than the system named below: two-sided paired t-test over {unit}, level "
    "{alpha:g}, by Holm's method corrected for the number of systems; △ ▽ only without the "
    "correction."
)

_ROUNDING = 1e-9  # differences between equal trials: sums are rounded


@dataclass(frozen=True, kw_only=True)
class ResultTable(paper.PaperItem):
    """Means of metrics by system, a table per data set."""

    published: Mapping[str, Published] = field(default_factory=dict)
    """The paper's cells by data set; none where they are lost."""
    against: Callable[[str], Mapping[str, str | tuple[str, ...]]]
    """By data set: systems, and those that they are compared with."""
    alpha: float = 0.05
    percent: bool = False
    spread: bool = False  # whether the paper gives intervals over trials
    claims: Callable[[str, TableTests, paper.FinishedStudy], Sequence[paper.Claim]] | None = None
    """What the paper says of a set, judged by our numbers."""

    def show(self, content: paper.ItemContent, data: Sequence[paper.ItemData]) -> None:
        for one in data:
            finished = one.studies[0]
            judged = judge(finished.results, self.against(one.role), alpha=self.alpha, protocol=finished.plan.protocol)
            printed = self.published.get(one.role, {}) if one.published else {}
            content.tables.append(self._table(finished, judged, printed))
            content.numbers[one.name] = self._numbers(finished, judged, printed)
            if self.claims is not None:
                on_data = self.claims(one.role, judged, finished)
                content.claims += [replace(claim, text=f"{one.name}: {claim.text}") for claim in on_data]

    def _table(self, finished: paper.FinishedStudy, judged: TableTests, printed: Published) -> TextTable:
        rows: list[Row] = []
        for system in judged.means:
            cells = [self._cell(judged, system, m) for m in judged.metrics]
            rows.append(Row((system, *cells), "ours"))
            if system in printed:
                rows.append(Row(("paper", *printed[system]), "paper"))
        columns = ("system", *(metric_heading(m) for m in judged.metrics))
        caption = f"{self.name}: {finished.plan.source.name}" + (" (%)" if self.percent else "")
        return TextTable(caption, columns, tuple(rows), self._note(finished, judged))

    def _cell(self, judged: TableTests, system: str, metric: str) -> str:
        text = self._format(judged.means[system][metric])
        if self.spread:
            half = judged.half_widths[system][metric]
            # Without anything random every trial is the same: an interval of 0 would say it is exact.
            text += f"±{self._format(half)}" if half > _ROUNDING else " (deterministic)"
        return text + judged.mark(system, metric)

    def _format(self, value: float) -> str:
        return f"{100 * value:.2f}" if self.percent else f"{value:.3f}".removeprefix("0")

    def _note(self, finished: paper.FinishedStudy, judged: TableTests) -> str:
        unit = finished.plan.protocol.unit
        parts = [f"Protocol {finished.plan.protocol}; chosen by {finished.plan.select}."]
        pairs = dict.fromkeys((d.system, d.against) for d in judged.differences.values())
        if pairs:
            others = {other for _, other in pairs}
            compared = f"all with {others.pop()}" if len(others) == 1 else ", ".join(f"{a} with {b}" for a, b in pairs)
            parts += [_MARKS.format(unit=unit, alpha=self.alpha), f"Compared: {compared}."]
        if self.spread:
            parts.append("±: 95 % interval of the mean over trials (Student's).")
        return " ".join(parts)

    def _numbers(self, finished: paper.FinishedStudy, judged: TableTests, printed: Published) -> dict[str, Any]:
        return {
            "protocol": str(finished.plan.protocol),
            "selected_by": finished.plan.select,
            "means": judged.means,
            "half_intervals": judged.half_widths,
            "paper": {
                name: dict(zip(judged.metrics, map(number, cells), strict=True)) for name, cells in printed.items()
            },
            "differences": [vars(difference) for difference in judged.differences.values()],
            "seconds": finished.results.seconds,
        }


def metric_heading(metric: str) -> str:
    """A metric as the heading of a column, without options.

    >>> metric_heading("ndcg@10:discount=letor")
    'NDCG@10'
    """
    return metric.partition(":")[0].upper()


def claim_better(
    judged: TableTests, above: str, below: str, metrics: Sequence[str] = (), *, under: str = ""
) -> paper.Claim:
    """The claim that a system is significantly better than another under all metrics.

    The systems must have been compared. By default all metrics of the table count; ``under`` names them in the claim.
    """
    wanted = [m for m in metrics or judged.metrics if (above, below, m) in judged.differences]
    differences = [judged.differences[above, below, m] for m in wanted]
    text = f"{above} is better than {below}" + (f" in {under}" if under else "")
    if not differences:
        return paper.Claim(text, "was not run", None, test="no test: was not run")
    here = ", ".join(f"{metric_heading(d.metric)} {d.mean:+.4f} ({_p_values(d)})" for d in differences)
    tested = [(d.mean, d.p if d.resampled is None else d.resampled) for d in differences]
    corrected = "" if differences[0].resampled is None else " corrected for overlapping splits"
    test = f"paired t-test over {judged.unit}{corrected}" + (", the largest p" if len(differences) > 1 else "")
    return paper.claim_positive(f"{text}, significantly", here, tested, test, differences[0].alpha)


def _p_values(d: SystemDifference) -> str:
    corrected = "" if d.resampled is None else f", resampled {paper.format_p(d.resampled)}"
    return f"p {paper.format_p(d.p)}{corrected}"
