"""Paper D: listwise learning to rank by exploring unique ratings (Zhu & Klabjan 2020)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from plackett.data import describe
from plackett.experiments.figures import Line, LineChart
from plackett.experiments.papers import result_tables as tables
from plackett.experiments.papers.paper import (
    Budget,
    Claim,
    FinishedStudy,
    ItemContent,
    ItemData,
    Paper,
    PaperFigure,
    PaperItem,
    Study,
    claim_positive,
)
from plackett.experiments.protocols import DataSource, Folds, Protocol, Split, SplitData
from plackett.experiments.results import read_outcome
from plackett.experiments.significance import t_test
from plackett.experiments.tables import Row, TextTable
from plackett.models.fit_context import LEXICOGRAPHIC

_CUTS = (1, 3, 5, 10)


@dataclass(frozen=True)
class DataTable(PaperItem):
    """Counts and shares of the data sets; nothing is trained."""

    def show(self, content: ItemContent, data: Sequence[ItemData]) -> None:
        rows: list[Row] = []
        for one in data:
            d = describe(one.source.pooled)
            content.numbers[one.name] = d.to_dict()
            counts = (f"{d.n_lists:,}", f"{d.n_docs:,}", f"{d.n_features}", f"{d.n_levels}")
            shares = (f"{100 * d.lowest_share:.2f}", f"{d.longest:,}", f"{100 * d.mean_lowest_share:.2f}")
            rows.append(Row((one.name, *counts, *shares), "ours"))
            if one.published:
                rows.append(Row(("paper", *tables.D_TABLE_1[one.role]), "paper"))
        columns = ("set", "queries", "documents", "features", "levels", "LR %", "MPQ", "ALRPQ %")
        note = (
            "LR: share of documents with the lowest label; MPQ: documents of the longest list; "
            "ALRPQ: the mean over lists of the share with the lowest label."
        )
        content.tables.append(TextTable(f"{self.name}: data sets", columns, tuple(rows), note))


@dataclass(frozen=True, kw_only=True)
class Improvements(PaperFigure):
    """How much the best of the paper's models is above the best benchmark, in percent of it."""

    published: Mapping[str, tables.Published]
    ours: tuple[str, ...]  # the paper's models; all others are benchmarks

    def show(self, content: ItemContent, data: Sequence[ItemData]) -> None:
        rows: list[Row] = []
        for one in data:
            judged = tables.judge(one.studies[0].results, {}, alpha=0.05)
            gains = {"NDCG, here": self._here(judged, "ndcg"), "ERR, here": self._here(judged, "err")}
            if one.published:
                gains["NDCG, paper"] = self._printed(one.role, judged.metrics)
            content.numbers[one.name] = {name: dict(zip(_CUTS, ys, strict=True)) for name, ys in gains.items()}
            rows += [Row((f"{one.name}: {n}", *(f"{y:+.1f} %" for y in ys))) for n, ys in gains.items()]
            content.charts[self.file_name(one.name)] = LineChart(
                f"{one.name}: improvement over the best benchmark, in percent",
                "cut-off of the metric",
                [Line(name, _CUTS, ys, style="both") for name, ys in gains.items()],
                zero=True,
            )
        columns = ("set and metric", *(f"@{k}" for k in _CUTS))
        note = (
            "The best of the paper's four models under a metric against the best of its benchmarks "
            "under it. The paper's ERR of benchmarks follows other conventions and is left out."
        )
        content.tables.append(TextTable(f"{self.name}: relative improvements", columns, tuple(rows), note))

    def _here(self, judged: tables.TableTests, metric: str) -> list[float]:
        return [self._gain({name: means[f"{metric}@{k}"] for name, means in judged.means.items()}) for k in _CUTS]

    def _printed(self, data: str, metrics: Sequence[str]) -> list[float]:
        columns = [metrics.index(f"ndcg@{k}") for k in _CUTS]
        cells = self.published[data]
        return [self._gain({name: tables.number(row[column]) for name, row in cells.items()}) for column in columns]

    def _gain(self, means: Mapping[str, float]) -> float:
        best = max(mean for name, mean in means.items() if name in self.ours)
        return 100 * (best / max(m for name, m in means.items() if name not in self.ours) - 1)


OHSUMED, MQ2007, WEB10K, WEB30K = "OHSUMED", "MQ2007", "MSLR-WEB10K", "MSLR-WEB30K"
_METRICS = tuple(f"{name}@{k}" for k in (1, 3, 5, 10) for name in ("ndcg", "err"))
_SELECT = ",".join(LEXICOGRAPHIC)
_PRESETS = {OHSUMED: "D-ohsumed", MQ2007: "D-mq2007", WEB10K: "D-mslr", WEB30K: "D-mslr"}
_RECIPES = {
    "uRank": "urank",
    "uBoost": "uboost",
    "uMart": "umart",
    "urBoost": "urboost",
    "MDPRank": "mdprank",
    "LambdaMart-L": "lambdamart",
    "LambdaMart-R": "lambdamart-ranklib",
    "LambdaLoss": "lambdaloss-net",
    "p-ListMLE": "plistmle-net",
}
_OURS = ("uRank", "uBoost", "uMart", "urBoost")
_BEST = {OHSUMED: ("uRank", "uBoost", "urBoost"), MQ2007: _OURS, WEB10K: ("uMart",), WEB30K: ("uMart",)}
"""Systems that the paper finds significantly better than its best benchmark."""


@dataclass(frozen=True)
class OnTest(Protocol):
    """Models are chosen on the same lists that they are measured on, as LightGBM's authors did.

    The numbers are too good by construction; the protocol exists to repeat a table that was made this way.
    """

    protocol: Protocol
    description = "Models are chosen on the test lists themselves: numbers are too good."

    def splits(self, source: DataSource) -> tuple[Split, ...]:
        splits = self.protocol.splits(source)
        return tuple(replace(split, division=f"{split.division}; chosen on the test lists") for split in splits)

    def load(self, source: DataSource, split: Split) -> SplitData:
        data = self.protocol.load(source, split)
        return replace(data, validation=data.test)

    def __str__(self) -> str:
        return f"{self.protocol}, chosen on the test lists"


def _study(data: str, budget: Budget) -> Study:
    # MDPRank ran out of memory on the large sets.
    names = [n for n in _RECIPES if n != "MDPRank" or data in (OHSUMED, MQ2007)]
    systems = {name: budget.ranker(_RECIPES[name], _PRESETS[data]) for name in names}
    return Study(systems, Folds(seed=budget.seed), _METRICS, _SELECT, baseline=_base(data))


def _on_test(data: str, budget: Budget) -> Study:
    systems = {n: budget.ranker(_RECIPES[n], _PRESETS[data]) for n in ("uMart", "LambdaMart-L")}
    metrics = tuple(f"{name}:lightgbm" for name in LEXICOGRAPHIC)
    return Study(systems, OnTest(Folds(seed=budget.seed)), metrics, ",".join(metrics))


def _base(data: str) -> str:
    return "LambdaLoss" if data == OHSUMED else "LambdaMart-L"


def _against(data: str) -> Mapping[str, str]:
    return {name: _base(data) for name in _RECIPES if name != _base(data)}


def _claims(data: str, judged: tables.TableTests, finished: FinishedStudy) -> Sequence[Claim]:
    metrics = {"NDCG": LEXICOGRAPHIC, "ERR": tuple(f"err@{k}" for k in _CUTS)}
    better = [
        tables.claim_better(judged, name, _base(data), cells, under=under)
        for under, cells in metrics.items()
        for name in _BEST[data]
    ]
    return [*better, *_claim_fast(finished)]


_FASTER = {"p-ListMLE": "7 to 14", "MDPRank": "15 to 32"}


def _claim_fast(finished: FinishedStudy) -> list[Claim]:
    """Time of an epoch, fold by fold; epochs differ in number by early stopping."""
    seconds: dict[str, list[float]] = {}
    for trial in finished.plan.trials:
        outcome = read_outcome(trial, finished.store)
        epochs = max((len(means) for means in outcome.curves.get("validation", {}).values()), default=0)
        if epochs:
            seconds.setdefault(trial.system.name, []).append(outcome.seconds / epochs)
    claims = []
    for slow, paper in _FASTER.items():
        if {"uRank", slow} <= set(seconds):
            logs = np.log(np.array(seconds[slow]) / np.array(seconds["uRank"]))
            here = f"an epoch of {slow} takes {np.exp(logs.mean()):.2f} times as long (paper: {paper} times)"
            test = f"paired t-test of log times over {len(logs)} folds, as fast as the machine was free"
            claims.append(claim_positive(f"uRank is faster than {slow}", here, [(logs.mean(), t_test(logs))], test))
    reason = "no test: our losses are compiled loops over lists; benchmarks/neural.py times both forms in PyTorch"
    return [*claims, Claim("tensors are 2 to 3 times faster than loops", "not run", None, test=reason)]


_NOTES = (
    "The paper tests without a correction: there △ ▽ count as well. Its marks are the stars.",
    "The paper's baselines were tuned by their authors' tools: LambdaMart-R is RankLib's algorithm with its defaults "
    "here, LambdaLoss and p-ListMLE are nets trained as uRank is, without groupwise scores.",
    "Cells of the paper with † cannot be right: ERR falls with the cut-off, or lies outside what "
    "NDCG@1 allows. Compare ERR between our own rows only.",
)

_SPREAD = (
    "One seed. On the 105 lists of OHSUMED NDCG@1 moves by about .02 from seed to seed, and its standard "
    "error over lists is .04: smaller differences are no findings."
)


def _table(number: int, data: str) -> tables.ResultTable:
    notes = (_SPREAD, *_NOTES) if data == OHSUMED else _NOTES
    return tables.ResultTable(
        number, f"NDCG and ERR on {data} or data in its place, five folds", (data,),
        study=_study, published=tables.D_TABLES, against=_against, claims=_claims, notes=notes, exclusive=True,
    )  # fmt: skip


PAPER = Paper(
    letter="D",
    authors="Zhu & Klabjan (2020)",
    title="Listwise learning to rank by exploring unique ratings",
    items=(
        DataTable(1, "Statistics of the data sets", (OHSUMED, MQ2007, WEB10K, WEB30K)),
        *(_table(i + 2, data) for i, data in enumerate((OHSUMED, MQ2007, WEB10K, WEB30K))),
        tables.ResultTable(
            6, "NDCG as LightGBM computes it, chosen on the test lists", (WEB10K, WEB30K),
            study=_on_test, published=tables.D_TABLE_6, against=lambda _: {"uMart": "LambdaMart-L"},
            notes=(
                "Lists without a relevant document count as 1, and models are chosen on the test "
                "lists, as in the experiments of LightGBM's authors: numbers are too good.",
            ),
        ),
        Improvements(
            1, "Improvement of the best model over the best benchmark",
            (OHSUMED, MQ2007, WEB10K, WEB30K), study=_study, published=tables.D_TABLES, ours=_OURS,
        ),
    ),
    convention="NDCG with gain 2^label - 1 and discount 1/log2(1 + rank), ERR with the top label "
    "of each list; lists without a relevant document left out; test lists of five folds pooled.",
)  # fmt: skip
