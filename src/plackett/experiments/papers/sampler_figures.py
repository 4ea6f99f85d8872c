"""How paper B's sampler of rankings affects learning: its Figures 4 to 8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plackett.experiments.conditional import METRICS, draw_lines, draw_scatter, dynamics, smear
from plackett.experiments.papers.budget import Budget
from plackett.experiments.papers.curve_figures import slug
from plackett.experiments.papers.exhibit import Drawing, Exhibit, Findings, Shown
from plackett.experiments.papers.judging import judge
from plackett.experiments.papers.result_table import shown
from plackett.experiments.papers.study import Study
from plackett.experiments.protocols import Folds
from plackett.experiments.tables.grid import Grid, Row
from plackett.models.linear import GRID, LinearRanker
from plackett.objectives import objective

_OBJECTIVE = "convexloss-ndcg"
_METRICS = tuple(str(each) for each in METRICS)
_RESTARTS = {"the ideal ranking": 0, "in between": 2, "the worst ranking": 60}
_GOODS, _BADS = 3, 60
_BINS = 25


@dataclass(frozen=True)
class SamplerCurves(Exhibit):
    """Accuracy on the test lists as one option of the sampler changes."""

    option: str = field(kw_only=True)
    values: tuple[float, ...] = field(kw_only=True)
    fixed: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    """Other options, the same for all values."""

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:
        systems = {
            f"{self.option} {value:g}": budget.cut(
                LinearRanker(
                    objective=objective(_OBJECTIVE, **{self.option: value}, **self.fixed), C=GRID
                )
            )
            for value in self.values
        }
        return (Study(data, systems, Folds(seed=budget.seed), _METRICS, "map"),)

    def show(self, found: Findings) -> Shown:
        grids, drawings, numbers = [], [], {}
        for data, (done,) in found.done.items():
            judged = judge(done.gathered, {}, alpha=0.05)
            means = list(judged.means.values())
            series = {shown(m): (self.values, [own[m] for own in means]) for m in _METRICS}
            title = f"{data}, ConvexLoss-NDCG: accuracy by {self.option}"
            svg = draw_lines(series, title=title, x=self.option, y="mean over test lists")
            drawings.append(Drawing(f"{self.file}-{slug(data)}", title, svg, ""))
            rows = [
                Row((name, *(f"{own[m]:.4f}" for m in _METRICS)))
                for name, own in judged.means.items()
            ]
            columns = (self.option, *series)
            grids.append(Grid(f"{self.name}: {done.plan.source.name}", columns, tuple(rows)))
            numbers[data] = dict(judged.means)
        note = "One seed; differences of a hundredth mean little on sets of this size."
        return Shown(tuple(grids), tuple(drawings), (), (note,), numbers)


@dataclass(frozen=True)
class Smear(Exhibit):
    """Losses reached by walks of ten mutations from three restarts; needs no data."""

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:  # noqa: ARG002
        return ()

    def show(self, found: Findings) -> Shown:
        seed = found.budget.seed
        series, rows, numbers = {}, [], {}
        for name, above in _RESTARTS.items():
            losses = smear(_GOODS, _BADS, above=above, key=seed)
            counts, edges = np.histogram(losses, bins=_BINS, range=(0.0, 1.0))
            series[name] = (0.5 * (edges[1:] + edges[:-1]), counts / counts.sum())
            spread = (float(losses.mean()), float(losses.std()))
            rows.append(Row((name, f"{spread[0]:.3f}", f"{spread[1]:.4f}")))
            numbers[name] = {"mean": spread[0], "deviation": spread[1]}
        title = f"Loss (1 - MAP) of rankings visited, {_GOODS} of {_GOODS + _BADS} relevant"
        svg = draw_lines(series, title=title, x="loss", y="share")
        drawing = Drawing(self.file, title, svg, "")
        grid = Grid(f"{self.name}: {title}", ("walks from", "mean", "deviation"), tuple(rows))
        note = "From the ideal ranking the loss spreads widely, from the worst one hardly at all."
        return Shown((grid,), (drawing,), (), (note,), numbers)


@dataclass(frozen=True)
class Evolution(Exhibit):
    """The optimiser's first ten iterations on a training fold, looked at ranking by ranking."""

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:  # noqa: ARG002
        return ()

    def show(self, found: Findings) -> Shown:
        grids, drawings, numbers = [], [], {}
        for data, source in found.sources.items():
            train = source.folds[0].train
            way = dynamics(train, name=_OBJECTIVE, seed=found.budget.seed)
            grown = np.abs(way.compatibilities[1:]).mean(axis=0)
            title = f"{data}: |w·δφ| of sampled rankings, mean of ten iterations"
            svg = draw_scatter({"rankings": (way.losses, grown)}, title=title, x="loss", y="|w·δφ|")
            drawings.append(Drawing(f"{self.file}-{slug(data)}", title, svg, ""))
            rows = [
                Row((str(i), f"{value:.3f}", f"{np.abs(seen).mean():.3f}"))
                for i, (value, seen) in enumerate(
                    zip(way.sampled, way.compatibilities, strict=True)
                )
            ]
            columns = ("iteration", "sampled objective", "mean of |w·δφ|")
            grids.append(Grid(f"{self.name}: {source.name}, fold 1", columns, tuple(rows)))
            numbers[data] = {"sampled": way.sampled.tolist(), "losses": way.losses.tolist()}
        return Shown(tuple(grids), tuple(drawings), (), (), numbers)
