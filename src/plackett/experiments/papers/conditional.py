"""Paper B: conditional models for non-smooth ranking loss functions (Dubey et al. 2009)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from plackett.experiments.conditional import METRICS, SYSTEMS, Outcome, Results, claims
from plackett.experiments.conditional.protocol import ALL, cleaned_fold
from plackett.experiments.papers.budget import Budget
from plackett.experiments.papers.exhibit import Claim, Exhibit, Findings, Paper, Shown
from plackett.experiments.papers.result_table import ResultTable, shown
from plackett.experiments.papers.sampler_figures import Evolution, SamplerCurves, Smear
from plackett.experiments.papers.sets import LETOR3
from plackett.experiments.papers.study import Done, Study
from plackett.experiments.protocols import Folds, Source
from plackett.experiments.tables.grid import Grid, Row

_METRICS = tuple(str(each) for each in METRICS)
_SELECT = "map"
_QUICK = (
    "logrank-mle",
    "logrank-expgain-auc",
    "logrank-convex-auc",
    "logrank-convex-ndcg",
    "ranksvm",
    "svmmap",
)
"""What a quick run has of the systems."""


def _cleaned(source: Source) -> Source:
    """Conflicting documents and lists without a relevant one removed, labels binary."""
    return Source(source.name, folds=tuple(cleaned_fold(fold) for fold in source.folds))


def _study(data: str, budget: Budget) -> Study:
    names = _QUICK if budget.quick else SYSTEMS
    systems = {name: budget.ranker(name) for name in names}
    return Study(data, systems, Folds(seed=budget.seed), _METRICS, _SELECT, baseline="ranksvm")


def _against(_: str) -> Mapping[str, str]:
    return {name: "ranksvm" for name in SYSTEMS if name != "ranksvm"}


@dataclass(frozen=True)
class Cells(Exhibit):
    """A table per data set, all sets together, and the paper's counts of wins over the cells."""

    table: ResultTable = field(kw_only=True)

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:
        return self.table.studies(data, budget)

    def show(self, found: Findings) -> Shown:
        alone = self.table.show(found)
        results = Results(
            tuple(_outcome(data, done, name) for data, (done,) in found.done.items()
                  for name in done.study.systems)
        )  # fmt: skip
        together = (_together(self.name, results),) if len(results.data) > 1 else ()
        counted = tuple(
            Claim(each.text, f"{each.wins} of {each.cells} cells (paper: {each.paper})", each.holds)
            for each in claims(results)
        )
        return Shown((*alone.grids, *together), (), counted, alone.notes, alone.numbers)


def _outcome(data: str, done: Done, name: str) -> Outcome:
    gathered = done.gathered
    return Outcome(name, data, dict(gathered.values[name]), (), 0, gathered.seconds[name])


def _together(name: str, results: Results) -> Grid:
    rows = [
        Row((system, *(_spelt(results.mean(system, ALL, m)) for m in results.metrics)), "ours")
        for system in results.systems
    ]
    lists = int(np.sum([len(o.values[_METRICS[0]]) for o in results.outcomes])) // len(rows)
    note = f"The {lists:,} lists of all sets together, each counting once."
    columns = ("system", *(shown(m) for m in results.metrics))
    return Grid(f"{name}: all sets, micro-average", columns, tuple(rows), note)


def _spelt(mean: float) -> str:
    return f"{mean:.3f}".removeprefix("0")


_TABLE = ResultTable(
    "figure", 3, "MAP and NDCG of all systems on the seven sets of LETOR 3", LETOR3,
    study=_study, against=_against,
    notes=(
        "The paper's numbers did not survive in its text; its counts of wins over cells (a set or "
        "all sets, under a metric) did. It tests nothing; the marks are ours.",
        "Labels are relevant (above 0) or not. 'Its best' takes the best of three systems on the "
        "test lists, as the paper does, which favours the family.",
    ),
)  # fmt: skip

PAPER = Paper(
    letter="B",
    authors="Dubey, Machchhar, Bhattacharyya & Chakrabarti (2009)",
    title="Conditional models for non-smooth ranking loss functions",
    exhibits=(
        Cells(_TABLE.kind, _TABLE.number, _TABLE.title, _TABLE.sets, table=_TABLE),
        SamplerCurves(
            "figure", 4, "accuracy by the number of sampled rankings", ("HP2004",),
            option="samples", values=(10, 20, 50, 100, 200, 500),
        ),
        SamplerCurves(
            "figure", 5, "accuracy by the chance to restart from the ideal ranking", ("HP2004",),
            option="best", values=(0.1, 0.5, 0.9),
        ),
        SamplerCurves(
            "figure", 6, "accuracy by the skew over many restarts", ("HP2004",),
            option="skew", values=(-5.0, 0.0, 5.0), fixed={"restarts": "many"},
        ),
        Smear("figure", 7, "losses of the rankings reached from three restarts", ()),
        Evolution("figure", 8, "w·φ against the loss as w evolves", ("HP2004",)),
    ),
    convention="On binary labels: MAP, and NDCG with gain 1, no discount at the first two ranks "
    "and 1/log2(rank) after them (Järvelin & Kekäläinen); lists without a relevant document "
    "removed.",
    left_out="Figures 1 and 2 are formulas and an algorithm.",
    prepare=_cleaned,
)  # fmt: skip
"""Its tables and figures."""
