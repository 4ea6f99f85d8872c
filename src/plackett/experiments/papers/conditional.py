"""Paper B: conditional models for non-smooth ranking loss functions (Dubey et al. 2009).

The protocol of its section 5: within a list, every copy of a document that occurs with different labels is removed,
then lists without a relevant document; labels become relevant or not. Copies are identified by their features: by
document id OHSUMED has none, and there would be nothing to clean. Each system is fitted on the training lists of each
fold, with C selected on the validation lists, and measured on the test lists: MAP and NDCG at 1, 5 and 10 with binary
gain and the discount of Järvelin & Kekäläinen. A *cell* is one data set, or all of them together, under one metric. The
mean over all lists together is the average over data sets weighted by their numbers of queries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from plackett.base.errors import UsageError
from plackett.base.ragged import Values
from plackett.data import Dataset, Fold
from plackett.data.filters import binarize, clean
from plackett.experiments.papers.datasets import LETOR3
from plackett.experiments.papers.paper import Budget, Claim, FinishedStudy, ItemContent, ItemData, Paper, Study
from plackett.experiments.papers.result_tables import ResultTable, metric_heading
from plackett.experiments.papers.sampler import METRICS, Evolution, SamplerCurves, Smear
from plackett.experiments.protocols import DataSource, Folds
from plackett.experiments.significance import paired_differences, randomization_test
from plackett.experiments.tables import Row, TextTable

BASELINES = ("ranksvm", "rankboost", "svmmap", "listnet-linear", "boltzrank")
_GAINS = ("auc", "map", "ndcg")
_EXPGAIN, _CONVEX, _L3 = (tuple(f"logrank-{loss}-{g}" for g in _GAINS) for loss in ("expgain", "convex", "l3"))
_MLE = ("logrank-mle",)
SYSTEMS = (*_MLE, *_EXPGAIN, *_CONVEX, *_L3, *BASELINES)
"""The paper's systems and those it compares with."""

ALL = "all"  # the data sets together
SELECT = "map"  # metric that selects C and the number of rounds on the validation lists
_METRICS = tuple(map(str, METRICS))
_QUICK = ("logrank-mle", "logrank-expgain-auc", "logrank-convex-auc", "logrank-convex-ndcg", "ranksvm", "svmmap")
"""The systems of a quick run."""


@dataclass(frozen=True)
class CellResults:
    """Values of the test lists of all folds, by data set, system and metric."""

    values_by_data: Mapping[str, Mapping[str, Mapping[str, Values]]]

    @property
    def systems(self) -> tuple[str, ...]:
        """Names of the systems."""
        return tuple(next(iter(self.values_by_data.values())))

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics."""
        return tuple(next(iter(next(iter(self.values_by_data.values())).values())))

    @property
    def columns(self) -> tuple[str, ...]:
        """The data sets, and all of them together if there are several."""
        names = tuple(self.values_by_data)
        return names if len(names) == 1 else (*names, ALL)

    def values(self, system: str, data: str) -> dict[str, Values]:
        """Values of the test lists by metric; those of all data sets one after the other."""
        parts = [
            by_system[system]
            for name, by_system in self.values_by_data.items()
            if data in (ALL, name) and system in by_system
        ]
        if not parts:
            raise UsageError(f"there is no result of {system!r} on {data!r}.")
        return {m: np.concatenate([part[m] for part in parts]) for m in self.metrics}

    def mean(self, system: str, data: str, metric: str) -> float:
        """Mean of one cell."""
        return float(np.nanmean(self.values(system, data)[metric]))

    def cells(self) -> list[tuple[str, str]]:
        """Data set and metric of every cell."""
        return [(column, m) for column in self.columns for m in self.metrics]


def clean_source(source: DataSource, conflicts: str = "conflicting-features") -> DataSource:
    """Data in folds after the paper's cleaning, with binary labels.

    ``conflicts`` is the rule that removes documents with conflicting labels: ``"conflicting-features"``, or
    ``"conflicting"`` to identify copies by document id.
    """
    return DataSource(source.name, folds=tuple(clean_fold(fold, conflicts) for fold in source.folds))


def clean_fold(fold: Fold, conflicts: str = "conflicting-features") -> Fold:
    """The fold after the paper's cleaning, with binary labels."""

    def part(ds: Dataset, *rules: str) -> Dataset:
        return clean(binarize(clean(ds, (conflicts,))[0]), rules)[0]

    validation = None if fold.validation is None else part(fold.validation, "blank")
    # Training lists without an irrelevant document hold no pair.
    return Fold(fold.name, part(fold.train, "uniform"), validation, part(fold.test, "blank"))


_CLAIMS = (
    ("MLE beats all baselines", "16 of 32", _MLE, BASELINES),
    ("ExpGain (its best) beats all baselines", "26 of 32", _EXPGAIN, BASELINES),
    ("ExpGain (its best) beats MLE", "21 of 32", _EXPGAIN, _MLE),
    ("ExpGain-MAP beats SVM-MAP", "said", ("logrank-expgain-map",), ("svmmap",)),
    ("ExpGain-AUC beats RankSVM", "said", ("logrank-expgain-auc",), ("ranksvm",)),
    ("ConvexLoss (its best) is the best of all", "26 of 32", _CONVEX, (*_MLE, *_EXPGAIN, *_L3, *BASELINES)),
    ("ConvexLoss (its best) beats MLE", "29 of 32", _CONVEX, _MLE),
    ("ConvexLoss (its best) beats ExpGain (its best)", "25 of 32", _CONVEX, _EXPGAIN),
    ("ConvexLoss-NDCG beats ExpGain-NDCG", "25", ("logrank-convex-ndcg",), ("logrank-expgain-ndcg",)),
    ("ConvexLoss-MAP beats SVM-MAP", "said", ("logrank-convex-map",), ("svmmap",)),
    ("ConvexLoss-AUC beats RankSVM", "said", ("logrank-convex-auc",), ("ranksvm",)),
    (
        "ConvexLoss-NDCG is the best of all",
        "said",
        ("logrank-convex-ndcg",),
        (*_MLE, *_EXPGAIN, *_L3, *BASELINES, "logrank-convex-auc", "logrank-convex-map"),
    ),
)
"""Text, what the paper counts, a family of systems, and the systems it beats."""

_ALPHA = 0.05


def count_claims(results: CellResults) -> list[Claim]:
    """The paper's claims; those about systems that were not run are undecided.

    The paper counts the cells in which the best of a family is above the best of the others. A
    claim holds if this is true in most cells and the difference in MAP over all lists is significant.
    It does not hold if both say the opposite; otherwise it is undecided.
    """
    cells, column, metric = results.cells(), results.columns[-1], results.metrics[0]
    claims = []
    for text, paper, ours, others in _CLAIMS:
        missing = [name for name in (*ours, *others) if name not in results.systems]
        if missing:
            here = f"not run: {', '.join(missing)} (paper: {paper})"
            claims.append(Claim(text, here, None, test="no test: systems are missing"))
            continue
        means = [[max(results.mean(name, *cell) for name in family) for family in (ours, others)] for cell in cells]
        wins = sum(mean > other for mean, other in means)
        a, b = (max(family, key=lambda name: results.mean(name, column, metric)) for family in (ours, others))
        d = paired_differences(*(results.values(name, column)[metric] for name in (a, b)))
        p = randomization_test(d)
        here = f"{wins} of {len(cells)} cells (paper: {paper}); {a} − {b}: MAP {d.mean():+.4f}"
        most = 2 * wins > len(cells)
        holds = most if p < _ALPHA and most == (d.mean() > 0) else None
        claims.append(Claim(text, here, holds, p, f"paired randomization test over {len(d):,} lists, MAP"))
    return claims


def _study(_: str, budget: Budget, names: Sequence[str] = (), **options: Any) -> Study:
    chosen = names or (_QUICK if budget.quick else SYSTEMS)
    systems = {name: budget.ranker(name) for name in chosen}
    return Study(systems, Folds(seed=budget.seed), _METRICS, SELECT, baseline="ranksvm", **options)


_OTHER_CLEANING = ("logrank-mle", "logrank-convex-ndcg", "ranksvm", "svmmap")
"""Systems that are also run on data cleaned by document id."""

_clean_by_id = partial(clean_source, conflicts="conflicting")


@dataclass(frozen=True)
class CellTable(ResultTable):
    """A table per data set, all sets together, and the paper's counts of wins over the cells."""

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:
        by_id = _study(data, budget, _OTHER_CLEANING, prepare=_clean_by_id)
        return (*super().studies(data, budget), by_id)

    def show(self, content: ItemContent, data: Sequence[ItemData]) -> None:
        super().show(content, data)
        results = CellResults({one.name: one.studies[0].results.values for one in data})
        content.tables += [_cleanings(self.name, one.name, *one.studies) for one in data]
        if ALL in results.columns:
            content.tables.append(_micro_average(self.name, results))
        content.claims += count_claims(results)


def _cleanings(name: str, data: str, by_features: FinishedStudy, by_id: FinishedStudy) -> TextTable:
    """The same systems on the data after both kinds of cleaning."""
    kinds = {"features": by_features, "document id": by_id}
    rows = []
    for system in by_id.results.values:
        for kind, study in kinds.items():
            means = [float(np.nanmean(values)) for values in study.results.values[system].values()]
            rows.append(Row((f"{system}, copies by {kind}", *map(_format, means)), "ours"))
    counts = {kind: study.plan.source.pooled for kind, study in kinds.items()}
    left = ", ".join(f"{d.n_lists:,} lists and {d.n_docs:,} documents by {kind}" for kind, d in counts.items())
    note = (
        f"Left after cleaning: {left}. The paper gives no count of documents, and its 575 queries are those of the "
        "six .gov sets; it does mention documents with conflicting labels, so copies are identified by features."
    )
    columns = ("system", *(metric_heading(m) for m in _METRICS))
    return TextTable(f"{name}: {data}, two ways to clean", columns, tuple(rows), note)


def _micro_average(name: str, results: CellResults) -> TextTable:
    rows = [(system, *(_format(results.mean(system, ALL, m)) for m in results.metrics)) for system in results.systems]
    n_lists = len(results.values(results.systems[0], ALL)[_METRICS[0]])
    note = f"The {n_lists:,} lists of all sets together, each counting once."
    columns = ("system", *(metric_heading(m) for m in results.metrics))
    return TextTable(f"{name}: all sets, micro-average", columns, tuple(Row(cells, "ours") for cells in rows), note)


def _format(mean: float) -> str:
    return f"{mean:.3f}".removeprefix("0")


PAPER = Paper(
    letter="B",
    authors="Dubey, Machchhar, Bhattacharyya & Chakrabarti (2009)",
    title="Conditional models for non-smooth ranking loss functions",
    items=(
        CellTable(
            3, "MAP and NDCG of all systems (the paper: on the seven sets of LETOR 3)", LETOR3, kind="figure",
            study=_study, against=lambda _: {name: "ranksvm" for name in SYSTEMS if name != "ranksvm"},
            notes=(
                "The paper's text has lost its numbers, but not its counts of wins over cells (a set or "
                "all sets, under a metric). It has no tests; the marks are ours.",
                "Labels are relevant (above 0) or not. 'Its best' takes the best of three systems on the "
                "test lists, as the paper does, which favors the family. Sampled rankings have one seed.",
            ),
        ),
        SamplerCurves(
            4, "accuracy by the number of sampled rankings", ("HP2004",),
            option="samples", values=(10, 20, 50, 100, 200, 500),
            better=(("accuracy increases with the number of samples", 500, 10),), saturated=(500, 200),
        ),
        SamplerCurves(
            5, "accuracy by the chance to restart from the ideal ranking", ("HP2004",),
            option="best", values=(0.1, 0.5, 0.9),
            better=(
                ("restarting mostly from the ideal ranking is better than mostly from the worst", 0.9, 0.1),
                ("restarting mostly from the ideal ranking is better than an even mix", 0.9, 0.5),
            ),
        ),
        SamplerCurves(
            6, "accuracy by the skew over many restarts", ("HP2004",),
            option="skew", values=(-5.0, 0.0, 5.0), fixed={"restarts": "many"},
            better=(
                ("restarts near the ideal ranking are better than restarts near the worst", -5.0, 5.0),
                ("restarts near the ideal ranking are better than an even mix", -5.0, 0.0),
            ),
        ),
        Smear(
            7, "losses of the rankings reached from three restarts", ("HP2004",), needs_data=False,
            notes=(
                "From the ideal ranking the loss spreads widely, from the worst one hardly at all.",
                "Walks of 10 or 100 mutations by the paper's law stay near the ideal ranking where many documents are "
                "relevant; 'auto' moves one relevant document at a time and collects ten rankings a walk.",
            ),
        ),
        Evolution(8, "w·φ against the loss as w evolves", ("HP2004",)),
    ),
    convention="On binary labels: MAP, and NDCG with gain 1, no discount at the first two ranks "
    "and 1/log2(rank) after them (Järvelin & Kekäläinen); lists without a relevant document removed.",
    left_out="Figures 1 and 2 are formulas and an algorithm.",
    prepare=clean_source,
)  # fmt: skip
