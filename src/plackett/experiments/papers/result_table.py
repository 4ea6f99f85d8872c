"""A table of systems and metrics: our numbers, the paper's under them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plackett.experiments.papers.budget import Budget
from plackett.experiments.papers.exhibit import Claim, Exhibit, Findings, Shown
from plackett.experiments.papers.judging import Difference, Judged, judge
from plackett.experiments.papers.published import Published, number
from plackett.experiments.papers.study import Done, Study
from plackett.experiments.tables.grid import Grid, Row

_MARKS = (
    "▲ better, ▼ worse than the system named below: two-sided paired t-test over {unit}, level "
    "{alpha:g}, by Holm's method corrected for the number of systems; △ ▽ only without the "
    "correction."
)


@dataclass(frozen=True)
class ResultTable(Exhibit):
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

    def show(self, found: Findings) -> Shown:
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
        return Shown(tuple(grids), (), tuple(claims), self.notes, numbers)

    def _grid(self, data: str, done: Done, judged: Judged) -> Grid:
        rows: list[Row] = []
        printed = self.published.get(data, {})
        for system in judged.means:
            cells = [self._cell(judged, system, m) for m in judged.metrics]
            rows.append(Row((system, *cells), "ours"))
            if system in printed:
                rows.append(Row(("paper", *printed[system]), "paper"))
        columns = ("system", *(shown(m) for m in judged.metrics))
        caption = f"{self.name}: {done.plan.source.name}" + (" (%)" if self.percent else "")
        return Grid(caption, columns, tuple(rows), self._note(done, judged))

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
