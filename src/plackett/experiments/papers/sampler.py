r"""How paper B's sampler of rankings affects learning: Figures 4 to 8 of Dubey et al. (2009).

=========  ==================================================================================
figure     function
=========  ==================================================================================
4          :class:`SamplerCurves` over ``samples``: accuracy saturates
5          the same over ``best``, the probability of restarting from the ideal ranking
6          the same with ``restarts="many"`` over ``skew``
7          :func:`smear`: losses of the rankings reached from a restart
8          :func:`dynamics`: :math:`w \cdot \phi` against the loss as w evolves, and the
           sampled objective beside the exact one
=========  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from plackett.base.errors import UsageError
from plackett.data.dataset import Dataset
from plackett.experiments.figures import Chart, Line, LineChart
from plackett.experiments.papers.paper import Budget, Claim, FinishedStudy, ItemContent, ItemInputs, PaperFigure, Study
from plackett.experiments.papers.result_tables import judge, metric_heading
from plackett.experiments.protocols import Folds
from plackett.experiments.results import read_outcome
from plackett.experiments.runners import BY_PENALTY
from plackett.experiments.significance import decide, randomisation_test, wilcoxon_test
from plackett.experiments.tables import Row, TextTable
from plackett.metrics import metric
from plackett.models.linear import GRID, LinearRanker
from plackett.models.linear.lbfgs import minimize
from plackett.models.linear.loss import DenseLoss, RankingLoss
from plackett.objectives import objective
from plackett.objectives.conditional.rankings import GainName, gain_of
from plackett.objectives.conditional.sampler import COLLECTED, WalkLength, advance, restart, start_walk

METRICS = (metric("map"), *(metric(f"ndcg@{k}", discount="letor") for k in (1, 5, 10)))
"""Metrics of the paper, on binary labels."""
_METRICS = tuple(map(str, METRICS))


def smear(
    n_goods: int,
    n_bads: int,
    *,
    above: int,
    walk: WalkLength = "auto",
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
        Mutations of a walk, or ``"auto"``, and number of walks.
    gain
        The loss is one minus this gain.
    key
        Source of randomness.
    """
    if not 0 <= above <= n_bads:
        raise UsageError(f"above must lie between 0 and n_bads={n_bads}, got {above}.")
    state = start_walk(n_goods, n_bads)
    rng = np.random.default_rng(key)
    length = COLLECTED if walk == "auto" else int(walk)
    losses = np.empty((walks, length + 1))
    for w in range(walks):
        words = rng.integers(0, 2**63, length + 1).astype(np.uint64)
        restart(state, above, words[0])
        losses[w, 0] = 1.0 - gain_of(state.state.good_wins, n_bads, gain=gain)
        for step in range(length):
            advance(state, walk == "auto", words[step + 1], np.uint64(0))
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
            solution = minimize(loss, weights, C=C, max_iterations=1, tolerance=0.0)
            weights = solution.weights
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
_CLOSED = "convexloss-auc"
"""The same loss for a gain that has a closed form."""
_CHOSEN = "chosen on validation"
_RESTARTS = {"the ideal ranking": 0, "in between": 2, "the worst ranking": 60}
_GOODS, _BADS = 3, 60
_SIZES = ((1, 60), (10, 60), (45, 100), (100, 200))
_ALPHA = 0.05
_BINS = 25


@dataclass(frozen=True)
class SamplerCurves(PaperFigure):
    """Accuracy on the test lists as one option of the sampler changes."""

    option: str = field(kw_only=True)
    values: tuple[float, ...] = field(kw_only=True)
    fixed: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    """Other options, the same for all values."""
    better: tuple[tuple[str, float, float], ...] = field(kw_only=True)
    """What the paper says, the value that is said to be better, and the other one."""
    saturated: tuple[float, float] | None = field(default=None, kw_only=True)
    """Values between which accuracy is said to grow little."""

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:  # noqa: ARG002
        systems = {
            f"{self.option} {value:g}": budget.reduce(
                LinearRanker(objective=objective(_OBJECTIVE, **{self.option: value}, **self.fixed), C=GRID)
            )
            for value in self.values
        }
        return (Study(systems, Folds(seed=budget.seed), _METRICS, "map"),)

    def show(self, inputs: ItemInputs) -> ItemContent:
        tables, numbers = [], {}
        charts: dict[str, Chart] = {}
        claims: list[Claim] = []
        for data, finished in inputs.single_studies():
            means = judge(finished.results, {}, alpha=0.05).means
            lines = [
                Line(metric_heading(m), self.values, [own[m] for own in means.values()], style="both") for m in _METRICS
            ]
            title = f"{data}, ConvexLoss-NDCG: accuracy by {self.option}"
            charts[self.file_name(data)] = LineChart(title, self.option, lines, y_label="mean over test lists")
            tables.append(_accuracy_table(f"{self.name}: {data}", self.option, finished))
            numbers[data] = dict(means)
            claims += self._claims(data, finished)
        note = "One seed; differences of a hundredth mean little on sets of this size."
        return ItemContent(tuple(tables), charts, tuple(claims), (note,), numbers)

    def _claims(self, data: str, finished: FinishedStudy) -> list[Claim]:
        claims = []
        for text, above, below in self.better:
            mean, p, here, test = self._compare(finished, above, below)
            claims.append(Claim(f"{data}: {text}", here, decide([(mean, p)], _ALPHA), p, test))
        if self.saturated is not None:
            mean, p, here, test = self._compare(finished, *self.saturated)
            text = f"{data}: accuracy is close to saturation at the largest numbers"
            claims.append(Claim(text, here, p >= _ALPHA, p, f"{test}; no difference found is no proof of none"))
        return claims

    def _compare(self, finished: FinishedStudy, above: float, below: float) -> tuple[float, float, str, str]:
        """MAP of one value minus that of another: mean, p-value, and both in words."""
        names = [f"{self.option} {value:g}" for value in (above, below)]
        a, b = (finished.results.values[name]["map"] for name in names)
        d = (a - b)[~np.isnan(a - b)]
        here = f"{names[0]} − {names[1]}: MAP {d.mean():+.4f}"
        return float(d.mean()), randomisation_test(d), here, f"paired randomisation test over {len(d):,} lists, MAP"


def _accuracy_table(caption: str, option: str, finished: FinishedStudy) -> TextTable:
    """Means on the test lists, and MAP on the validation lists for the C chosen there."""
    results, bests = finished.results, _validation_map(finished)
    by_fold = {fold.split.name: fold.values for fold in results.details}
    chosen = {fold: max((own[fold], name) for name, own in bests.items()) for fold in by_fold}
    bests[_CHOSEN] = {fold: value for fold, (value, _) in chosen.items()}
    parts = [by_fold[fold][name] for fold, (_, name) in chosen.items()]
    by_system = {**results.values, _CHOSEN: {m: np.concatenate([part[m] for part in parts]) for m in _METRICS}}
    rows = [
        Row((name, f"{_mean(bests[name]):.4f}", *(f"{np.nanmean(values[m]):.4f}" for m in _METRICS)))
        for name, values in by_system.items()
    ]
    columns = (option, "MAP, validation", *map(metric_heading, _METRICS))
    note = (
        f"Validation: mean over folds, for the best C. {_CHOSEN.capitalize()}: the best value of {option} in each fold."
    )
    return TextTable(caption, columns, tuple(rows), note)


def _validation_map(finished: FinishedStudy) -> dict[str, dict[str, float]]:
    """MAP on the validation lists with the best C, by system and fold."""
    bests: dict[str, dict[str, float]] = {}
    for trial in finished.plan.trials:
        curves = read_outcome(trial, finished.store).curves[f"validation{BY_PENALTY}"]
        bests.setdefault(trial.system.name, {})[trial.split.name] = max(curves["map"])
    return bests


def _mean(by_fold: Mapping[str, float]) -> float:
    return float(np.mean(list(by_fold.values())))


def _preferred(data: str, finished: FinishedStudy) -> str:
    bests = _validation_map(finished)
    best = max(bests, key=lambda name: _mean(bests[name]))
    return f"The validation lists of {data} prefer {best}; the systems of Figure 3 have walk auto, the default."


@dataclass(frozen=True)
class Smear(PaperFigure):
    """Losses reached by walks from three restarts; with data, accuracy by the length of the walk."""

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:  # noqa: ARG002
        systems = {
            f"walk {walk}": budget.reduce(LinearRanker(objective=objective(_OBJECTIVE, walk=walk), C=GRID))
            for walk in (10, 100, "auto")
        }
        return (Study(systems, Folds(seed=budget.seed), _METRICS, "map"),)

    def show(self, inputs: ItemInputs) -> ItemContent:
        lines, rows, numbers = [], [], {}
        for name, above in _RESTARTS.items():
            losses = smear(_GOODS, _BADS, above=above, key=inputs.budget.seed)
            counts, edges = np.histogram(losses, bins=_BINS, range=(0.0, 1.0))
            shares = (counts / counts.sum()).tolist()
            lines.append(Line(name, (0.5 * (edges[1:] + edges[:-1])).tolist(), shares, style="both"))
            mean, deviation = float(losses.mean()), float(losses.std())
            rows.append(Row((name, f"{mean:.3f}", f"{deviation:.4f}")))
            numbers[name] = {"mean": mean, "deviation": deviation}
        title = f"Loss (1 - MAP) of rankings visited, {_GOODS} of {_GOODS + _BADS} relevant"
        chart = LineChart(title, "loss", lines, y_label="share")
        columns = ("walks from", "mean", "deviation")
        table = TextTable(f"{self.name}: {title}", columns, tuple(rows))
        accuracy = [_accuracy_table(f"{self.name}: {d}, by the walk", "walk", f) for d, f in inputs.single_studies()]
        notes = (
            "From the ideal ranking the loss spreads widely, from the worst one hardly at all.",
            "Walks of 10 or 100 mutations by the paper's law stay near the ideal ranking where many documents are "
            "relevant; 'auto' moves one relevant document at a time and collects ten rankings a walk.",
            *(_preferred(data, finished) for data, finished in inputs.single_studies()),
        )
        tables = (table, self._sizes(inputs.budget), *accuracy)
        return ItemContent(tables, {self.file_name(): chart}, (self._claim(inputs.budget),), notes, numbers)

    def _sizes(self, budget: Budget) -> TextTable:
        """Losses from the ideal ranking for lists of several sizes."""
        rows = []
        for goods, bads in _SIZES:
            for walk in (10, 100, "auto"):
                losses = smear(goods, bads, above=0, walk=walk, key=budget.seed)[:, 1:]
                cells = (f"{q:.3f}" for q in np.quantile(losses, [0.1, 0.5, 0.9]))
                rows.append(Row((f"{goods} of {goods + bads} relevant, walk {walk}", *cells)))
        columns = ("list", "10 %", "median", "90 %")
        return TextTable(f"{self.name}: quantiles of the loss (1 - MAP) from the ideal ranking", columns, tuple(rows))

    def _claim(self, budget: Budget) -> Claim:
        """The deviation of the loss in each walk, from the best and from the worst ranking."""
        near, far = (smear(_GOODS, _BADS, above=k, key=budget.seed).std(axis=1) for k in (0, _BADS))
        text = "the losses spread more around the best ranking than around the worst"
        p = float(scipy.stats.mannwhitneyu(near, far).pvalue)
        here = f"mean deviation within a walk {near.mean():.4f} and {far.mean():.4f}"
        return Claim(text, here, bool(near.mean() > far.mean() and p < _ALPHA), p, "Mann-Whitney test over walks")


@dataclass(frozen=True)
class Evolution(PaperFigure):
    """The optimiser's first ten iterations on a training fold, looked at ranking by ranking."""

    def studies(self, data: str, budget: Budget) -> Sequence[Study]:  # noqa: ARG002
        return ()

    def show(self, inputs: ItemInputs) -> ItemContent:
        tables, numbers = [], {}
        charts: dict[str, Chart] = {}
        claims: list[Claim] = []
        for data, source in inputs.sources.items():
            path = dynamics(source.folds[0].train, name=_OBJECTIVE, seed=inputs.budget.seed)
            closed = dynamics(source.folds[0].train, name=_CLOSED, seed=inputs.budget.seed)
            claims += [_claim_improving(data, closed), _claim_dominates(data, path)]
            mean = np.abs(path.compatibilities[1:]).mean(axis=0)
            charts[self.file_name(data)] = LineChart(
                f"{data}: |w·δφ| of sampled rankings, mean of ten iterations",
                "loss",
                [Line("rankings", path.losses.tolist(), mean.tolist(), style="dots")],
                y_label="|w·δφ|",
            )
            rows = [
                Row((str(i), f"{value:.3f}", f"{np.abs(products).mean():.3f}"))
                for i, (value, products) in enumerate(zip(path.sampled, path.compatibilities, strict=True))
            ]
            columns = ("iteration", "sampled objective", "mean of |w·δφ|")
            tables.append(TextTable(f"{self.name}: {source.name}, fold 1", columns, tuple(rows)))
            numbers[data] = {"sampled": path.sampled.tolist(), "losses": path.losses.tolist()}
        return ItemContent(tuple(tables), charts, tuple(claims), (), numbers)


def _claim_improving(data: str, path: Dynamics) -> Claim:
    """Both the sampled objective and the exact one fall over the iterations."""
    text = f"{data}: the exact and the sampled objective improve as iterations progress"
    parts, trends = [], []
    for name, values in (("sampled", path.sampled), ("exact", path.exact)):
        assert values is not None
        trend = scipy.stats.kendalltau(range(len(values)), values)
        trends.append((-float(trend.statistic), float(trend.pvalue)))
        parts.append(f"{name} {values[0]:.1f} to {values[-1]:.1f}")
    test = f"Kendall's test of a trend over {len(path.sampled) - 1} iterations of ConvexLoss-AUC, the larger p"
    return Claim(text, ", ".join(parts), decide(trends, _ALPHA), max(p for _, p in trends), test)


def _claim_dominates(data: str, path: Dynamics) -> Claim:
    """The size of w . phi against the loss, ranking by ranking."""
    size = np.abs(path.compatibilities[1:]).mean(axis=0)
    d = size - path.losses
    text = f"{data}: w·φ dominates the loss once w has left zero"
    here = f"the size of w·δφ is above the loss for {np.mean(d > 0):.0%} of {len(d)} rankings; means {size.mean():.2f}"
    here += f" and {path.losses.mean():.2f}"
    p = wilcoxon_test(d)
    return Claim(text, here, decide([(float(np.median(d)), p)], _ALPHA), p, "Wilcoxon's test over rankings")
