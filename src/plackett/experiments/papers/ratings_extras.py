"""Exhibits of paper D beside its tables of results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from plackett.data.describe import Description, describe
from plackett.experiments.figures import Line, line_figure
from plackett.experiments.papers.budget import Budget
from plackett.experiments.papers.curve_figures import slug
from plackett.experiments.papers.exhibit import Drawing, Exhibit, Findings, Shown
from plackett.experiments.papers.judging import Judged, judge
from plackett.experiments.papers.published import D_TABLE_1, Published, number
from plackett.experiments.papers.study import Study
from plackett.experiments.tables.grid import Grid, Row

_CUTS = (1, 3, 5, 10)


@dataclass(frozen=True)
class DataTable(Exhibit):
    """Counts and shares of the data sets; nothing is trained."""

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:  # noqa: ARG002
        return ()

    def show(self, found: Findings) -> Shown:
        rows: list[Row] = []
        described = {data: describe(source.pooled) for data, source in found.sources.items()}
        for data, facts in described.items():
            rows.append(Row((found.sources[data].name, *_cells(facts)), "ours"))
            rows.append(Row(("paper", *D_TABLE_1[data]), "paper"))
        columns = ("set", "queries", "documents", "features", "levels", "LR %", "MPQ", "ALRPQ %")
        note = (
            "LR: share of documents with the lowest label; MPQ: documents of the longest list; "
            "ALRPQ: the mean over lists of the share with the lowest label."
        )
        grid = Grid(f"{self.name}: data sets", columns, tuple(rows), note)
        return Shown((grid,), numbers={data: d.to_dict() for data, d in described.items()})


def _cells(d: Description) -> tuple[str, ...]:
    return (
        f"{d.n_lists:,}",
        f"{d.n_docs:,}",
        f"{d.n_features}",
        f"{d.n_levels}",
        f"{100 * d.lowest_share:.2f}",
        f"{d.longest:,}",
        f"{100 * d.mean_lowest_share:.2f}",
    )


@dataclass(frozen=True)
class Improvements(Exhibit):
    """How much the best of the paper's models is above the best benchmark, in percent of it."""

    study: Callable[[str, Budget], Study] = field(kw_only=True)
    published: Mapping[str, Published] = field(kw_only=True)
    ours: tuple[str, ...] = field(kw_only=True)
    """The paper's models; all others are benchmarks."""

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:
        return (self.study(data, budget),)

    def show(self, found: Findings) -> Shown:
        drawings, rows, numbers = [], [], {}
        for data, (done,) in found.done.items():
            judged = judge(done.gathered, {}, alpha=0.05)
            lines = {
                "NDCG, here": self._here(judged, "ndcg"),
                "ERR, here": self._here(judged, "err"),
                "NDCG, paper": self._printed(data, judged.metrics),
            }
            numbers[data] = {name: dict(zip(_CUTS, ys, strict=True)) for name, ys in lines.items()}
            rows += [Row((f"{data}: {n}", *(f"{y:+.1f} %" for y in ys))) for n, ys in lines.items()]
            title = f"{data}: improvement over the best benchmark, in percent"
            svg = line_figure(
                {name: Line(list(map(float, _CUTS)), ys) for name, ys in lines.items()},
                title=title,
                x_label="cut-off of the metric",
                zero=True,
            )
            drawings.append(Drawing(f"{self.file}-{slug(data)}", title, svg, ""))
        columns = ("set and metric", *(f"@{k}" for k in _CUTS))
        note = (
            "The best of the paper's four models under a metric against the best of its benchmarks "
            "under it. The paper's ERR of benchmarks follows other conventions and is left out."
        )
        grid = Grid(f"{self.name}: relative improvements", columns, tuple(rows), note)
        return Shown((grid,), tuple(drawings), numbers=numbers)

    def _here(self, judged: Judged, metric: str) -> list[float]:
        return [
            self._gain({name: own[f"{metric}@{k}"] for name, own in judged.means.items()})
            for k in _CUTS
        ]

    def _printed(self, data: str, metrics: Sequence[str]) -> list[float]:
        places = [metrics.index(f"ndcg@{k}") for k in _CUTS]
        cells = self.published[data]
        return [
            self._gain({name: number(row[place]) for name, row in cells.items()})
            for place in places
        ]

    def _gain(self, means: Mapping[str, float]) -> float:
        best = max(mean for name, mean in means.items() if name in self.ours)
        return 100 * (best / max(m for name, m in means.items() if name not in self.ours) - 1)
