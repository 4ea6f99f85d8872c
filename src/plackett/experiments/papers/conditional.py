r"""Paper B: conditional models for non-smooth ranking loss functions (Dubey et al. 2009).

The protocol of Dubey et al. (2009), section 5, as one function.

Within a list, every copy of a document that occurs with different labels is removed, then lists
without a relevant document; labels become relevant or not. Each system is fitted on the training
lists of each fold, with C chosen on the validation lists, and judged on the test lists: MAP and
NDCG at 1, 5 and 10 with binary gain and the discount of Järvelin & Kekäläinen. A *cell* is one data
set, or all of them together, under one metric; the mean over all lists together is the average over
data sets weighted by their numbers of queries.

What Dubey et al. (2009) say of their systems, counted in the cells at hand.

How the sampler affects learning: what Figures 4 to 8 of Dubey et al. (2009) show.

=========  ==================================================================================
figure     function
=========  ==================================================================================
4          :func:`accuracy_of_samplers` over ``samples``: accuracy saturates
5          the same over ``best``, the probability of the ideal ranking as restart
6          the same with ``restarts="many"`` over ``skew``
7          :func:`smear`: losses of the rankings reached from a restart
8          :func:`dynamics`: :math:`w \cdot \phi` against the loss as w evolves, and the
           sampled objective beside the exact one
=========  ==================================================================================

How paper B's sampler of rankings affects learning: its Figures 4 to 8.

Results of the protocol as Markdown.

The experiments of Dubey et al. (2009): protocol, claims, and diagnostics of the sampler.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import ConvergenceWarning, UsageError
from plackett.base.ragged import Values
from plackett.data.cleaning import binarize, clean
from plackett.data.dataset import Dataset
from plackett.data.folds import Fold
from plackett.experiments.figures import draw_lines, draw_scatter
from plackett.experiments.papers.datasets import LETOR3
from plackett.experiments.papers.exhibits import ResultTable, judge, shown, slug
from plackett.experiments.papers.paper import (
    Budget,
    Claim,
    Done,
    Drawing,
    Findings,
    ItemContent,
    Paper,
    PaperItem,
    Study,
)
from plackett.experiments.protocols import DataSource, Folds
from plackett.experiments.results import Leaderboard, leaderboard
from plackett.experiments.tables import Row, TextTable
from plackett.metrics import Metric, evaluate, metric, per_list
from plackett.models import recipe
from plackett.models.linear import GRID, LinearRanker
from plackett.models.linear.lbfgs import minimize
from plackett.models.linear.loss import DenseLoss, RankingLoss
from plackett.models.ranker import Progress, no_progress
from plackett.objectives import objective
from plackett.objectives.conditional.rankings import GainName, gain_of
from plackett.objectives.conditional.sampler import mutate, restart, start_walk

BASELINES = ("ranksvm", "rankboost", "svmmap", "listnet-linear", "boltzrank")
SYSTEMS = (
    "logrank-mle",
    *(
        f"logrank-{loss}-{gain}"
        for loss in ("expgain", "convex", "l3")
        for gain in ("auc", "map", "ndcg")
    ),
    *BASELINES,
)
"""The paper's systems and those it compares with."""

METRICS = (
    metric("map"),
    *(metric(f"ndcg@{k}", discount="letor") for k in (1, 5, 10)),
)
"""On binary labels."""

ALL = "all"
"""The data sets together."""


@dataclass(frozen=True)
class Outcome:
    """One system on one data set: the test lists of all folds, one after the other."""

    system: str
    data: str
    values: dict[str, Values]
    """One value per list, by metric."""
    penalties: tuple[float, ...]
    """The C of each fold; empty for systems without one."""
    unconverged: int
    """Folds whose solver stopped early."""
    seconds: float


@dataclass(frozen=True)
class Results:
    """All systems on all data sets."""

    outcomes: tuple[Outcome, ...]

    @property
    def systems(self) -> tuple[str, ...]:
        """In the order they were given."""
        return tuple(dict.fromkeys(each.system for each in self.outcomes))

    @property
    def data(self) -> tuple[str, ...]:
        """In the order they were given."""
        return tuple(dict.fromkeys(each.data for each in self.outcomes))

    @property
    def metrics(self) -> tuple[str, ...]:
        """Their spellings."""
        return tuple(self.outcomes[0].values)

    @property
    def columns(self) -> tuple[str, ...]:
        """The data sets, and all of them together where there are several."""
        return self.data if len(self.data) == 1 else (*self.data, ALL)

    def values(self, system: str, data: str) -> dict[str, Values]:
        """The values of the test lists by metric; of all data sets one after the other."""
        chosen = [o for o in self.outcomes if o.system == system and data in (ALL, o.data)]
        if not chosen:
            raise UsageError(f"there is no result of {system!r} on {data!r}.")
        return {m: np.concatenate([o.values[m] for o in chosen]) for m in self.metrics}

    def mean(self, system: str, data: str, metric: str) -> float:
        """One cell."""
        return float(np.nanmean(self.values(system, data)[metric]))

    def cells(self) -> list[tuple[str, str]]:
        """Data set and metric of every cell."""
        return [(column, m) for column in self.columns for m in self.metrics]

    def board(self, data: str, baseline: str) -> Leaderboard:
        """All systems on one data set, with paired tests against a baseline."""
        values = {system: self.values(system, data) for system in self.systems}
        return leaderboard(values, baseline=baseline)


def run_protocol(
    data: Mapping[str, Sequence[Fold]],
    systems: Sequence[str] = SYSTEMS,
    *,
    select: str | Metric = "map",
    settings: Mapping[str, Any] | None = None,
    metrics: Sequence[Metric] = METRICS,
    cleaned: bool = True,
    progress: Progress = no_progress,
) -> Results:
    """Fit and judge systems on data sets with folds.

    Parameters
    ----------
    data
        Folds by the name of the data set: OHSUMED, the six .gov sets of LETOR 3 ...
    systems
        Names of recipes.
    select
        What C (and the number of rounds) is chosen by on the validation lists.
    settings
        Parameters to change in those systems that have them.
    metrics
        What the test lists are judged by.
    cleaned
        Apply the paper's cleaning and make labels binary; False: the data as they are.
    progress
        Called before each fit.
    """
    _refuse_unknown(systems, settings or {})
    folds = {
        name: [cleaned_fold(fold) for fold in each] if cleaned else list(each)
        for name, each in data.items()
    }
    total = len(systems) * sum(len(each) for each in folds.values())
    outcomes: list[Outcome] = []
    done = 0
    for name, parts in folds.items():
        for system in systems:
            runs = []
            for fold in parts:
                progress(f"{system} on {name} {fold.name}", done, total)
                runs.append(_run(system, fold, select, settings or {}, metrics))
                done += 1
            outcomes.append(_pooled(system, name, runs))
    return Results(tuple(outcomes))


def _refuse_unknown(systems: Sequence[str], settings: Mapping[str, Any]) -> None:
    """A setting that no system has would change nothing."""
    known = {key for system in systems for key in recipe(system).get_params()}
    there = ", ".join(sorted(known))
    for key in settings:
        if key not in known:
            raise UsageError(f"none of the systems has a parameter {key!r}. They have {there}.")


_FoldRun = tuple[dict[str, Values], float | None, bool, float]


def _run(
    system: str,
    fold: Fold,
    select: str | Metric,
    settings: Mapping[str, Any],
    metrics: Sequence[Metric],
) -> _FoldRun:
    ranker = recipe(system)
    known = ranker.get_params()
    ranker.set_params(**{key: value for key, value in settings.items() if key in known})
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # counted in the outcome
        ranker.fit(fold.train, fold.validation, metric=select)
    seconds = time.perf_counter() - begin
    values = per_list(ranker.predict(fold.test), fold.test, list(metrics))
    if isinstance(ranker, LinearRanker):
        return values, ranker.C_, ranker.convergence_.converged, seconds
    return values, None, True, seconds


def _pooled(system: str, data: str, runs: Sequence[_FoldRun]) -> Outcome:
    values = {m: np.concatenate([run[0][m] for run in runs]) for m in runs[0][0]}
    penalties = tuple(run[1] for run in runs if run[1] is not None)
    unconverged = sum(not run[2] for run in runs)
    return Outcome(system, data, values, penalties, unconverged, sum(run[3] for run in runs))


def cleaned_fold(fold: Fold) -> Fold:
    """The fold after the paper's cleaning, with binary labels."""

    def part(ds: Dataset, *rules: str) -> Dataset:
        return clean(binarize(clean(ds, ("conflicting",))[0]), rules)[0]

    validation = None if fold.validation is None else part(fold.validation, "blank")
    # Training lists without an irrelevant document hold no pair.
    return Fold(fold.name, part(fold.train, "uniform"), validation, part(fold.test, "blank"))


_GAINS = ("auc", "map", "ndcg")
_CONVEX = tuple(f"logrank-convex-{gain}" for gain in _GAINS)
_EXPGAIN = tuple(f"logrank-expgain-{gain}" for gain in _GAINS)
_L3 = tuple(f"logrank-l3-{gain}" for gain in _GAINS)
_MLE = ("logrank-mle",)


@dataclass(frozen=True)
class CellClaim:
    """The best of some systems against the best of others, cell by cell."""

    text: str
    paper: str
    """What the paper counts."""
    wins: int
    cells: int

    @property
    def holds(self) -> bool:
        """Whether it is so in most cells."""
        return 2 * self.wins > self.cells


_CLAIMS = (
    ("MLE beats all baselines", "16 of 32", _MLE, BASELINES),
    ("ExpGain (its best) beats all baselines", "26 of 32", _EXPGAIN, BASELINES),
    ("ExpGain (its best) beats MLE", "21 of 32", _EXPGAIN, _MLE),
    ("ExpGain-MAP beats SVM-MAP", "said", ("logrank-expgain-map",), ("svmmap",)),
    ("ExpGain-AUC beats RankSVM", "said", ("logrank-expgain-auc",), ("ranksvm",)),
    (
        "ConvexLoss (its best) is the best of all",
        "26 of 32",
        _CONVEX,
        (*_MLE, *_EXPGAIN, *_L3, *BASELINES),
    ),
    ("ConvexLoss (its best) beats MLE", "29 of 32", _CONVEX, _MLE),
    ("ConvexLoss (its best) beats ExpGain (its best)", "25 of 32", _CONVEX, _EXPGAIN),
    (
        "ConvexLoss-NDCG beats ExpGain-NDCG",
        "25",
        ("logrank-convex-ndcg",),
        ("logrank-expgain-ndcg",),
    ),
    ("ConvexLoss-MAP beats SVM-MAP", "said", ("logrank-convex-map",), ("svmmap",)),
    ("ConvexLoss-AUC beats RankSVM", "said", ("logrank-convex-auc",), ("ranksvm",)),
    (
        "ConvexLoss-NDCG is the best of all",
        "said",
        ("logrank-convex-ndcg",),
        (*_MLE, *_EXPGAIN, *_L3, *BASELINES, "logrank-convex-auc", "logrank-convex-map"),
    ),
)


def claims(results: Results) -> tuple[CellClaim, ...]:
    """The paper's claims about the systems that were run."""
    known = set(results.systems)
    found = []
    for text, paper, ours, others in _CLAIMS:
        if known >= {*ours, *others}:
            wins = _wins(results, ours, others)
            found.append(CellClaim(text, paper, wins, len(results.cells())))
    return tuple(found)


def _wins(results: Results, ours: Sequence[str], others: Sequence[str]) -> int:
    """Cells in which the best of ours is above the best of the others."""
    wins = 0
    for data, name in results.cells():
        best = max(results.mean(system, data, name) for system in ours)
        wins += best > max(results.mean(system, data, name) for system in others)
    return wins


def accuracy_of_samplers(
    folds: Sequence[Fold],
    samplers: Mapping[str, Mapping[str, Any]],
    *,
    name: str = "convexloss-ndcg",
    metrics: Sequence[str | Metric] = ("ndcg@10", "map"),
    select: str | Metric = "map",
    C: float | tuple[float, ...] = GRID,
) -> dict[str, dict[str, float]]:
    """Mean accuracy on the test lists for each way to sample.

    Parameters
    ----------
    folds
        The data.
    samplers
        Parameters of the objective by a name for them, such as ``{"50": {"samples": 50}}``.
    name
        The objective.
    metrics
        What to measure on the test lists.
    select, C
        What C is chosen by on the validation lists, and among what.
    """
    found: dict[str, dict[str, float]] = {}
    for label, parameters in samplers.items():
        loss = objective(name, **parameters)
        means: list[dict[str, float]] = []
        for fold in folds:
            ranker = LinearRanker(objective=loss, C=C)
            scores = ranker.fit(fold.train, fold.validation, metric=select).predict(fold.test)
            means.append(evaluate(scores, fold.test, list(metrics)))
        found[label] = {m: float(np.mean([each[m] for each in means])) for m in means[0]}
    return found


def smear(
    n_goods: int,
    n_bads: int,
    *,
    above: int,
    walk: int = 10,
    walks: int = 100,
    gain: GainName = "map",
    key: int = 0,
) -> NDArray[np.float64]:
    """Losses of all rankings visited by walks from one restart.

    Parameters
    ----------
    n_goods, n_bads
        Numbers of relevant and irrelevant documents.
    above
        How many of the irrelevant stand above all relevant ones at the restart: 0 is the ideal
        ranking, ``n_bads`` the worst.
    walk, walks
        Mutations of a walk, and number of walks.
    gain
        The loss is one minus this gain.
    key
        Source of randomness.
    """
    if not 0 <= above <= n_bads:
        raise UsageError(f"above must lie between 0 and n_bads={n_bads}, got {above}.")
    state = start_walk(n_goods, n_bads)
    rng = np.random.default_rng(key)
    losses = np.empty((walks, walk + 1))
    for w in range(walks):
        words = rng.integers(0, 2**63, walk + 1).astype(np.uint64)
        restart(state, above, words[0])
        losses[w, 0] = 1.0 - gain_of(state.state.good_wins, n_bads, gain=gain)
        for step in range(walk):
            mutate(state, words[step + 1])
            losses[w, step + 1] = 1.0 - gain_of(state.state.good_wins, n_bads, gain=gain)
    return losses


@dataclass(frozen=True)
class Dynamics:
    """An objective over sampled rankings as the weights evolve from zero."""

    losses: NDArray[np.float64]
    """Loss of each ranking looked at, fixed."""
    compatibilities: NDArray[np.float64]
    """w . (phi of the ranking - phi of the ideal one): iterations x rankings, from w = 0 on."""
    sampled: NDArray[np.float64]
    """The sampled objective after each iteration, without the penalty."""
    exact: NDArray[np.float64] | None
    """The closed form over all sign vectors at the same weights, where there is one."""


def dynamics(
    data: Dataset,
    *,
    name: str = "convexloss-ndcg",
    C: float = 1e-3,
    iterations: int = 10,
    lists: int = 10,
    rankings: int = 10,
    seed: int = 0,
) -> Dynamics:
    """Follow the optimiser for some iterations and look at some rankings of some lists.

    Parameters
    ----------
    data
        The training lists.
    name
        A conditional model; those for AUC, and MLE, have a closed form to compare with.
    C, iterations
        The penalty; iterations of the optimiser.
    lists, rankings
        How many lists to look at, and how many rankings of each.
    seed
        Which ones.
    """
    loss = RankingLoss(objective(name, space="sampled"), data)
    closed = None
    if name == "mle" or name.endswith("-auc"):
        closed = DenseLoss(objective(name, space="cube"), data)
    chosen = _choose(loss, lists, rankings, seed)
    weights = np.zeros(data.n_features)
    seen, sampled, exact = [], [], []
    for step in range(iterations + 1):
        if step:
            found = minimize(loss, weights, C=C, max_iterations=1, tolerance=0.0)
            weights = found.weights
        seen.append(loss.products[chosen].astype(np.float64) @ weights)
        sampled.append(loss.evaluate(weights)[0])
        if closed is not None:
            exact.append(closed.evaluate(weights)[0])
    known = None if closed is None else np.array(exact)
    return Dynamics(loss.losses[chosen], np.array(seen), np.array(sampled), known)


def _choose(loss: RankingLoss, lists: int, rankings: int, seed: int) -> NDArray[np.int64]:
    """Positions of some rankings of some lists."""
    rng = np.random.default_rng(seed)
    where = loss.ranking_offsets
    usable = np.flatnonzero(np.diff(where) > 0)
    picked = rng.choice(usable, min(lists, len(usable)), replace=False)
    parts = [
        rng.choice(np.arange(where[q], where[q + 1]), min(rankings, where[q + 1] - where[q]), False)
        for q in np.sort(picked)
    ]
    return np.concatenate(parts)


_OBJECTIVE = "convexloss-ndcg"
_RESTARTS = {"the ideal ranking": 0, "in between": 2, "the worst ranking": 60}
_GOODS, _BADS = 3, 60
_BINS = 25


@dataclass(frozen=True)
class SamplerCurves(PaperItem):
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

    def show(self, found: Findings) -> ItemContent:
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
            grids.append(TextTable(f"{self.name}: {done.plan.source.name}", columns, tuple(rows)))
            numbers[data] = dict(judged.means)
        note = "One seed; differences of a hundredth mean little on sets of this size."
        return ItemContent(tuple(grids), tuple(drawings), (), (note,), numbers)


@dataclass(frozen=True)
class Smear(PaperItem):
    """Losses reached by walks of ten mutations from three restarts; needs no data."""

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:  # noqa: ARG002
        return ()

    def show(self, found: Findings) -> ItemContent:
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
        grid = TextTable(f"{self.name}: {title}", ("walks from", "mean", "deviation"), tuple(rows))
        note = "From the ideal ranking the loss spreads widely, from the worst one hardly at all."
        return ItemContent((grid,), (drawing,), (), (note,), numbers)


@dataclass(frozen=True)
class Evolution(PaperItem):
    """The optimiser's first ten iterations on a training fold, looked at ranking by ranking."""

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:  # noqa: ARG002
        return ()

    def show(self, found: Findings) -> ItemContent:
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
            grids.append(TextTable(f"{self.name}: {source.name}, fold 1", columns, tuple(rows)))
            numbers[data] = {"sampled": way.sampled.tolist(), "losses": way.losses.tolist()}
        return ItemContent(tuple(grids), tuple(drawings), (), (), numbers)


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


def _cleaned(source: DataSource) -> DataSource:
    """Conflicting documents and lists without a relevant one removed, labels binary."""
    return DataSource(source.name, folds=tuple(cleaned_fold(fold) for fold in source.folds))


def _study(data: str, budget: Budget) -> Study:
    names = _QUICK if budget.quick else SYSTEMS
    systems = {name: budget.ranker(name) for name in names}
    return Study(data, systems, Folds(seed=budget.seed), _METRICS, _SELECT, baseline="ranksvm")


def _against(_: str) -> Mapping[str, str]:
    return {name: "ranksvm" for name in SYSTEMS if name != "ranksvm"}


@dataclass(frozen=True)
class Cells(PaperItem):
    """A table per data set, all sets together, and the paper's counts of wins over the cells."""

    table: ResultTable = field(kw_only=True)

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:
        return self.table.studies(data, budget)

    def show(self, found: Findings) -> ItemContent:
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
        return ItemContent((*alone.grids, *together), (), counted, alone.notes, alone.numbers)


def _outcome(data: str, done: Done, name: str) -> Outcome:
    gathered = done.gathered
    return Outcome(name, data, dict(gathered.values[name]), (), 0, gathered.seconds[name])


def _together(name: str, results: Results) -> TextTable:
    rows = [
        Row((system, *(_spelt(results.mean(system, ALL, m)) for m in results.metrics)), "ours")
        for system in results.systems
    ]
    lists = int(np.sum([len(o.values[_METRICS[0]]) for o in results.outcomes])) // len(rows)
    note = f"The {lists:,} lists of all sets together, each counting once."
    columns = ("system", *(shown(m) for m in results.metrics))
    return TextTable(f"{name}: all sets, micro-average", columns, tuple(rows), note)


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


_SURE = 0.05


def as_markdown(results: Results, *, baselines: Sequence[str] = ("ranksvm", "svmmap")) -> str:
    """A table per data set with paired tests, the penalties, and the paper's claims."""
    parts = [_board(results, data, baselines) for data in results.columns]
    parts.append(_claims(results))
    return "\n\n".join(parts) + "\n"


def _board(results: Results, data: str, baselines: Sequence[str]) -> str:
    present = [each for each in baselines if each in results.systems]
    boards = {each: results.board(data, each) for each in present}
    adjusted = {
        (base, entry.name, m): p
        for base, board in boards.items()
        for entry in board.entries
        for m, p in entry.adjusted.items()
    }
    rows = []
    for system in results.systems:
        cells = []
        for m in results.metrics:
            mean = results.mean(system, data, m)
            marks = ""
            for mark, base in zip("†‡", present, strict=False):
                sure = adjusted.get((base, system, m), 1.0) < _SURE
                sign = "+" if mean > results.mean(base, data, m) else "−"
                marks += f"{mark}{sign}" if sure else ""
            cells.append(f"{mean:.4f} {marks}".strip())
        rows.append([f"`{system}`", *cells, *_notes(results, system, data)])
    count = len(next(iter(results.values(results.systems[0], data).values())))
    heading = [*results.metrics, "C, fold by fold", "seconds"]
    return f"## {data}: {count:,} lists\n\n{_table(['system', *heading], rows)}"


def _notes(results: Results, system: str, data: str) -> list[str]:
    chosen = [o for o in results.outcomes if o.system == system and data == o.data]
    if not chosen:
        return ["", ""]
    outcome = chosen[0]
    powers = " ".join(f"{round(np.log10(c)):d}" for c in outcome.penalties)
    note = f"10^ {powers}" if powers else ""
    if outcome.unconverged:
        note += f" ({outcome.unconverged} not converged)"
    return [note, f"{outcome.seconds:.1f}"]


def _claims(results: Results) -> str:
    rows = [
        [c.text, c.paper, f"{c.wins} of {c.cells}", "yes" if c.holds else "no"]
        for c in claims(results)
    ]
    table = _table(["claim", "paper", "here", "in most cells"], rows)
    return f"## What the paper says, in our cells\n\n{table}"


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


__all__ = [
    "METRICS",
    "SYSTEMS",
    "Claim",
    "Dynamics",
    "Outcome",
    "Results",
    "accuracy_of_samplers",
    "as_markdown",
    "claims",
    "draw_lines",
    "draw_scatter",
    "dynamics",
    "run_protocol",
    "smear",
]
