r"""How paper B's sampler of rankings affects learning: Figures 4 to 8 of Dubey et al. (2009).

Figures 4 to 6 are :class:`SamplerCurves` over ``samples``, over ``best``, the probability of restarting from the ideal
ranking, and over ``skew`` with ``restarts="many"``. Figure 7 is :func:`smear`: losses of the rankings reached from a
restart. Figure 8 is :func:`dynamics`: :math:`w \cdot \phi` against the loss as w evolves, and the sampled objective
next to the exact one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy  # its stats is imported when it is used
from numpy.typing import NDArray

from plackett.base.errors import UsageError
from plackett.data import Dataset
from plackett.experiments.figures import Line, LineChart
from plackett.experiments.papers import paper
from plackett.experiments.papers.result_tables import judge, metric_heading
from plackett.experiments.protocols import Folds
from plackett.experiments.results import read_outcome
from plackett.experiments.runners import BY_PENALTY
from plackett.experiments.significance import paired_differences, randomization_test, wilcoxon_test
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
    """Losses (one minus the gain) of all rankings visited by walks from one restart.

    ``above`` says how many irrelevant documents stand above all relevant ones at the restart: 0 is the ideal ranking,
    ``n_bads`` the worst. ``walk`` is the number of mutations of a walk, or ``"auto"``.
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

    losses: NDArray[np.float64]  # loss of each recorded ranking, fixed
    compatibilities: NDArray[np.float64]
    """w . (phi of the ranking - phi of the ideal one): iterations x rankings, from w = 0 on."""
    sampled: NDArray[np.float64]  # the sampled objective after each iteration, without the penalty
    exact: NDArray[np.float64] | None  # the closed form over all sign vectors at the same weights, where there is one


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
    """Follow the optimizer for some iterations and record some rankings of some training lists.

    ``name`` is a conditional model; those for AUC, and MLE, have a closed form to compare with.
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
_CLOSED = "convexloss-auc"  # the same loss for a gain that has a closed form
_CHOSEN = "chosen on validation"
_RESTARTS = {"the ideal ranking": 0, "in between": 2, "the worst ranking": 60}
_GOODS, _BADS = 3, 60
_WALKS: tuple[WalkLength, ...] = (10, 100, "auto")
_SIZES = ((1, 60), (10, 60), (45, 100), (100, 200))
_ALPHA = 0.05
_BINS = 25


def _vary(budget: paper.Budget, option: str, values: Sequence[Any], **fixed: Any) -> tuple[paper.Study]:
    """A system for each value of an option of the sampler."""
    systems = {}
    for value in values:
        ranker = LinearRanker(objective=objective(_OBJECTIVE, **{option: value}, **fixed), C=GRID)
        systems[_system(option, value)] = budget.reduce(ranker)
    return (paper.Study(systems, Folds(seed=budget.seed), _METRICS, "map"),)


def _system(option: str, value: Any) -> str:
    return f"{option} {value}" if isinstance(value, str) else f"{option} {value:g}"


@dataclass(frozen=True, kw_only=True)
class SamplerCurves(paper.PaperFigure):
    """Accuracy on the test lists as one option of the sampler changes."""

    option: str
    values: tuple[float, ...]
    fixed: Mapping[str, Any] = field(default_factory=dict)  # other options, the same for all values
    better: tuple[tuple[str, float, float], ...]
    """What the paper says, the value that is said to be better, and the other one."""
    saturated: tuple[float, float] | None = None  # values between which accuracy is said to grow little
    notes: tuple[str, ...] = ("One seed; differences of a hundredth mean little on sets of this size.",)

    def studies(self, data: str, budget: paper.Budget) -> Sequence[paper.Study]:  # noqa: ARG002
        return _vary(budget, self.option, self.values, **self.fixed)

    def show(self, content: paper.ItemContent, data: Sequence[paper.ItemData]) -> None:
        for one in data:
            (finished,) = one.studies
            means = judge(finished.results, {}, alpha=_ALPHA).means
            lines = [
                Line(metric_heading(m), self.values, [own[m] for own in means.values()], style="both") for m in _METRICS
            ]
            title = f"{one.name}, ConvexLoss-NDCG: accuracy by {self.option}"
            chart = LineChart(title, self.option, lines, y_label="mean over test lists")
            content.charts[self.file_name(one.name)] = chart
            content.tables.append(_accuracy_table(f"{self.name}: {one.name}", self.option, finished))
            content.numbers[one.name] = dict(means)
            for text, above, below in self.better:
                mean, p, here, test = self._compare(finished, above, below)
                content.claims.append(paper.claim_positive(f"{one.name}: {text}", here, [(mean, p)], test))
            if self.saturated is not None:
                _, p, here, test = self._compare(finished, *self.saturated)
                text = f"{one.name}: accuracy is close to saturation at the largest numbers"
                test = f"{test}; no difference found is no proof of none"
                content.claims.append(paper.Claim(text, here, p >= _ALPHA, p, test))

    def _compare(self, finished: paper.FinishedStudy, above: float, below: float) -> tuple[float, float, str, str]:
        """MAP of one value minus that of another: mean, p-value, and both in words."""
        names = [_system(self.option, value) for value in (above, below)]
        d = paired_differences(*(finished.results.values[name]["map"] for name in names))
        here = f"{names[0]} − {names[1]}: MAP {d.mean():+.4f}"
        return float(d.mean()), randomization_test(d), here, f"paired randomization test over {len(d):,} lists, MAP"


def _accuracy_table(caption: str, option: str, finished: paper.FinishedStudy) -> TextTable:
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


def _validation_map(finished: paper.FinishedStudy) -> dict[str, dict[str, float]]:
    """MAP on the validation lists with the best C, by system and fold."""
    bests: dict[str, dict[str, float]] = {}
    for trial in finished.plan.trials:
        curves = read_outcome(trial, finished.store).curves[f"validation{BY_PENALTY}"]
        bests.setdefault(trial.system.name, {})[trial.split.name] = max(curves["map"])
    return bests


def _mean(by_fold: Mapping[str, float]) -> float:
    return float(np.mean(list(by_fold.values())))


@dataclass(frozen=True)
class Smear(paper.PaperFigure):
    """Losses reached by walks from three restarts; with data, accuracy by the length of the walk."""

    def studies(self, data: str, budget: paper.Budget) -> Sequence[paper.Study]:  # noqa: ARG002
        return _vary(budget, "walk", _WALKS)

    def show(self, content: paper.ItemContent, data: Sequence[paper.ItemData]) -> None:
        lines, rows = [], []
        for name, above in _RESTARTS.items():
            losses = smear(_GOODS, _BADS, above=above, key=content.budget.seed)
            counts, edges = np.histogram(losses, bins=_BINS, range=(0.0, 1.0))
            shares = (counts / counts.sum()).tolist()
            lines.append(Line(name, (0.5 * (edges[1:] + edges[:-1])).tolist(), shares, style="both"))
            mean, deviation = float(losses.mean()), float(losses.std())
            rows.append(Row((name, f"{mean:.3f}", f"{deviation:.4f}")))
            content.numbers[name] = {"mean": mean, "deviation": deviation}
        title = f"Loss (1 - MAP) of rankings visited, {_GOODS} of {_GOODS + _BADS} relevant"
        content.charts[self.file_name()] = LineChart(title, "loss", lines, y_label="share")
        table = TextTable(f"{self.name}: {title}", ("walks from", "mean", "deviation"), tuple(rows))
        content.tables += [table, self._sizes(content.budget)]
        content.claims.append(self._claim(content.budget))
        for one in data:
            (finished,) = one.studies
            content.tables.append(_accuracy_table(f"{self.name}: {one.name}, by the walk", "walk", finished))
            bests = _validation_map(finished)
            best = max(bests, key=lambda name: _mean(bests[name]))
            preferred = f"The validation lists of {one.name} prefer {best}"
            content.notes.append(f"{preferred}; the systems of Figure 3 have walk auto, the default.")

    def _sizes(self, budget: paper.Budget) -> TextTable:
        """Losses from the ideal ranking for lists of several sizes."""
        rows = []
        for goods, bads in _SIZES:
            for walk in _WALKS:
                losses = smear(goods, bads, above=0, walk=walk, key=budget.seed)[:, 1:]
                cells = (f"{q:.3f}" for q in np.quantile(losses, [0.1, 0.5, 0.9]))
                rows.append(Row((f"{goods} of {goods + bads} relevant, walk {walk}", *cells)))
        columns = ("list", "10 %", "median", "90 %")
        return TextTable(f"{self.name}: quantiles of the loss (1 - MAP) from the ideal ranking", columns, tuple(rows))

    def _claim(self, budget: paper.Budget) -> paper.Claim:
        """The deviation of the loss in each walk, from the best and from the worst ranking."""
        near, far = (smear(_GOODS, _BADS, above=k, key=budget.seed).std(axis=1) for k in (0, _BADS))
        text = "the losses spread more around the best ranking than around the worst"
        p = float(scipy.stats.mannwhitneyu(near, far).pvalue)
        here = f"mean deviation within a walk {near.mean():.4f} and {far.mean():.4f}"
        return paper.Claim(text, here, bool(near.mean() > far.mean() and p < _ALPHA), p, "Mann-Whitney test over walks")


@dataclass(frozen=True)
class Evolution(paper.PaperFigure):
    """The optimizer's first ten iterations on a training fold, ranking by ranking."""

    def show(self, content: paper.ItemContent, data: Sequence[paper.ItemData]) -> None:
        for one in data:
            train, seed = one.source.folds[0].train, content.budget.seed
            path, closed = (dynamics(train, name=name, seed=seed) for name in (_OBJECTIVE, _CLOSED))
            content.claims += [_claim_improving(one.name, closed), _claim_dominates(one.name, path)]
            mean = np.abs(path.compatibilities[1:]).mean(axis=0)
            content.charts[self.file_name(one.name)] = LineChart(
                f"{one.name}: |w·δφ| of sampled rankings, mean of ten iterations",
                "loss",
                [Line("rankings", path.losses.tolist(), mean.tolist(), style="dots")],
                y_label="|w·δφ|",
            )
            rows = [
                Row((str(i), f"{value:.3f}", f"{np.abs(products).mean():.3f}"))
                for i, (value, products) in enumerate(zip(path.sampled, path.compatibilities, strict=True))
            ]
            columns = ("iteration", "sampled objective", "mean of |w·δφ|")
            content.tables.append(TextTable(f"{self.name}: {one.name}, fold 1", columns, tuple(rows)))
            content.numbers[one.name] = {"sampled": path.sampled.tolist(), "losses": path.losses.tolist()}


def _claim_improving(data: str, path: Dynamics) -> paper.Claim:
    """Both the sampled objective and the exact one fall over the iterations."""
    text = f"{data}: the exact and the sampled objective improve as iterations progress"
    parts, trends = [], []
    for name, values in (("sampled", path.sampled), ("exact", path.exact)):
        assert values is not None
        trend = scipy.stats.kendalltau(range(len(values)), values)
        trends.append((-float(trend.statistic), float(trend.pvalue)))
        parts.append(f"{name} {values[0]:.1f} to {values[-1]:.1f}")
    test = f"Kendall's test of a trend over {len(path.sampled) - 1} iterations of ConvexLoss-AUC, the larger p"
    return paper.claim_positive(text, ", ".join(parts), trends, test)


def _claim_dominates(data: str, path: Dynamics) -> paper.Claim:
    """The size of w . phi against the loss, ranking by ranking."""
    size = np.abs(path.compatibilities[1:]).mean(axis=0)
    d = size - path.losses
    text = f"{data}: w·φ dominates the loss once w has left zero"
    here = f"the size of w·δφ is above the loss for {np.mean(d > 0):.0%} of {len(d)} rankings; means {size.mean():.2f}"
    here += f" and {path.losses.mean():.2f}"
    return paper.claim_positive(text, here, [(float(np.median(d)), wilcoxon_test(d))], "Wilcoxon's test over rankings")
