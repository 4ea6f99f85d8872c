r"""Linear models that maximize the metric of the fit itself, without a loss.

Both use only the value of the metric on each list, so they support any metric.

**Coordinate ascent** (Metzler & Croft 2007). Each weight in turn, in random order, is moved to the best of several
values, on both sides and at 0, while the others are fixed. After a sweep over all weights they are scaled to
:math:`\sum_j |w_j| = 1`, which does not change the ranking. The search starts from equal weights and again from random
ones, because it ends in local maxima.

**AdaRank** (Xu & Li 2007). A weak ranker :math:`h_k` orders documents by a single feature. With :math:`E_q(h)` the
metric of list q, round t takes the weak ranker with the highest mean under weights :math:`P_t` of the lists:

.. math:: \alpha_t = \tfrac12 \ln \frac{\sum_q P_t(q)\,(1 + E_q(h_t))}{\sum_q P_t(q)\,(1 - E_q(h_t))}, \qquad
    P_{t+1}(q) \propto e^{-E_q(\alpha_1 h_1 + \dots + \alpha_t h_t)}.

The weak ranker of the previous round is excluded: alone it gives the same order with any weight, so a strong feature
would be chosen in every round. RankLib excludes it for longer; here it may be chosen again after one other round.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import UsageError
from plackett.base.ragged import Scores, Values
from plackett.base.threads import kernel_threads
from plackett.data import Dataset
from plackett.data.canonical import dense_columns
from plackett.metrics import Metric
from plackett.models.checkpoint import read_state, save_state
from plackett.models.fit_context import Curves, FitContext, Selection, measure
from plackett.models.insight import deviations
from plackett.models.linear.loss import matvec
from plackett.models.linear.ranker import BaseLinearRanker
from plackett.models.parameters import accept_aliases

_STATE_FILE = "steps.json"
_LARGEST_STEP = 2.0
_PERFECT = 1.0 - 1e-9  # a weak ranker without any error would get an infinite weight


class Step(NamedTuple):
    """Weights after a step of the search."""

    weights: list[float]
    value: float
    """The metric on the training lists."""
    choice: int
    """Coordinate ascent: the number of the start. AdaRank: the weak ranker."""


class MetricOfWeights:
    """The metric of the training lists as a function of the weights of the features."""

    weak: NDArray[np.float64] | None = None
    """The metric of AdaRank's weak rankers, once it is known."""

    def __init__(self, data: Dataset, metric: Metric) -> None:
        self.data, self.metric = data, metric
        weights = np.ones(data.n_lists) if data.weights is None else data.weights
        # Lists that the metric drops are the same for all scores.
        self.counted = ~np.isnan(self.values(np.zeros(data.n_docs)))
        if not self.counted.any() or not weights[self.counted].sum() > 0:
            measure(np.zeros(data.n_docs), data, (metric,))  # says that no list counts
        self.list_weights = weights[self.counted] / weights[self.counted].sum()

    @cached_property
    def columns(self) -> list[NDArray[np.float64]]:
        """The features, one array each."""
        return [column.astype(np.float64) for column in dense_columns(self.data.features)]

    def values(self, scores: Scores) -> Values:
        """The metric of each list; NaN where it drops the list."""
        return self.metric(scores, self.data.labels, self.data.offsets, self.data.document_ids, self.data.keys)

    def list_values(self, scores: Scores) -> Values:
        """The metric of the lists that count."""
        return self.values(scores)[self.counted]

    def mean(self, scores: Scores) -> float:
        """The mean of the metric over the lists that count."""
        return float(self.list_weights @ self.list_values(scores))

    def scores(self, weights: NDArray[np.float64]) -> Scores:
        """The scores of the documents."""
        return matvec(self.data.features, weights)


class DirectRanker(BaseLinearRanker):
    """A linear model that maximizes the first metric of the fit on the training lists.

    Each step is a function of the previous steps, so a fit can be resumed from the list of its steps.
    """

    patience: int | None
    seed: int
    threads: int | None

    @property
    @abstractmethod
    def max_steps(self) -> int:
        """The largest number of steps."""

    @abstractmethod
    def _next(self, problem: MetricOfWeights, steps: list[Step], init: NDArray[np.float64] | None) -> Step | None:
        """The next step; None: the search is over."""

    def _fit(self, train: Dataset, validation: Dataset | None, context: FitContext) -> None:
        if train.document_weights is not None and not np.all(train.document_weights == 1.0):
            raise UsageError(
                f"{type(self).__name__} maximizes a metric and does not support document weights; use a linear model "
                'with an objective, such as recipe("listnet-linear").'
            )
        with kernel_threads(self.threads):
            self._search(train, validation, context)
        self.spread_ = deviations(train.features)

    def _search(self, train: Dataset, validation: Dataset | None, context: FitContext) -> None:
        problem = MetricOfWeights(train, context.metrics[0])
        parts = {"train": train} | ({} if validation is None else {"validation": validation})
        curves: Curves = {part: {name: [] for name in context.metric_names} for part in parts}
        selection, steps, recorded = Selection(), list[Step](), read_state(context.checkpoint, _STATE_FILE) or []
        init = context.init.coefficients_ if isinstance(context.init, BaseLinearRanker) else None
        stopped = False
        while not stopped and (self.patience is None or selection.steps_since_best < self.patience):
            is_new = len(steps) >= len(recorded)
            step = self._next(problem, steps, init) if is_new else Step(*recorded[len(steps)])
            if step is None:
                break
            steps.append(step)
            weights = np.array(step.weights)
            for part, data in parts.items():
                means = context.measure(matvec(data.features, weights), data, curves[part])
            if selection.offer(means):
                self.coefficients_ = weights
            if is_new:
                save_state(context.checkpoint, len(steps), _STATE_FILE, steps)
            stopped = context.report("", len(steps), self.max_steps, curves)
        self.curves_ = curves
        self._best_step = selection.best_step + 1


@accept_aliases
@dataclass(eq=False)
class CoordinateAscentRanker(DirectRanker):
    """A linear model whose weights maximize the metric one by one (Metzler & Croft 2007).

    Parameters
    ----------
    restarts
        Number of starts: equal weights, then random ones.
    sweeps
        Maximum number of passes over all weights for each start.
    steps
        Values on each side of a weight that are tried, at growing distances.
    tolerance
        The search from a start ends when a sweep improves the metric on the training lists by less than this.
    patience
        Stop after this many sweeps without a better metric on the validation lists; None: never.
    seed
        Seed of the order of the weights and of the random starts.
    threads
        Number of threads; None: all.
    transforms
        Applied to the features first; fitted on the training data.
    """

    minimums: ClassVar[dict[str, int]] = {"restarts": 1, "sweeps": 1, "steps": 1}

    restarts: int = 5
    sweeps: int = 25
    steps: int = 8
    tolerance: float = 1e-3
    patience: int | None = None
    seed: int = 0
    threads: int | None = None
    transforms: tuple[str, ...] = ("standard",)

    @property
    def max_steps(self) -> int:
        return self.restarts * (self.sweeps + 1)

    def _next(self, problem: MetricOfWeights, steps: list[Step], init: NDArray[np.float64] | None) -> Step | None:
        restart = steps[-1].choice if steps else -1
        run = [step for step in steps if step.choice == restart]
        gained = len(run) < 2 or run[-1].value - run[-2].value >= self.tolerance
        if run and gained and len(run) <= self.sweeps:
            rng = np.random.default_rng([self.seed, restart, len(run)])
            weights = self._sweep(problem, np.array(run[-1].weights), rng)
        elif restart + 1 < self.restarts:
            restart += 1
            weights = self._start(problem.data.n_features, restart, init)
        else:
            return None
        return Step(weights.tolist(), problem.mean(problem.scores(weights)), restart)

    def _start(self, n_features: int, restart: int, init: NDArray[np.float64] | None) -> NDArray[np.float64]:
        if restart > 0:
            return _normalize(np.random.default_rng([self.seed, restart]).normal(size=n_features))
        return _normalize(np.ones(n_features) if init is None else init)

    def _sweep(
        self, problem: MetricOfWeights, weights: NDArray[np.float64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Move each weight once, in random order, to the best of its candidates."""
        scores = problem.scores(weights)
        best = problem.mean(scores)
        distances = np.geomspace(0.1 / len(weights), _LARGEST_STEP, self.steps)
        for j in rng.permutation(len(weights)):
            column = problem.columns[j]
            moves = [sign * distance for distance in distances for sign in (1.0, -1.0)]
            moves += [] if weights[j] == 0.0 else [-weights[j]]
            values = [problem.mean(scores + move * column) for move in moves]
            k = int(np.argmax(values))
            if values[k] > best:
                best = values[k]
                weights[j] += moves[k]
                scores = scores + moves[k] * column
        return _normalize(weights)


def _normalize(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    total = float(np.sum(np.abs(weights)))
    return weights / total if total > 0.0 else weights


@accept_aliases
@dataclass(eq=False)
class AdaRanker(DirectRanker):
    """Boosting of single features, with lists weighted by the metric (AdaRank, Xu & Li 2007).

    Parameters
    ----------
    rounds
        Maximum number of weak rankers.
    directions
        ``"both"``: documents may be ordered by a feature descending or ascending; ``"up"``: only descending (a higher
        value ranks higher), as in the paper.
    patience
        Stop after this many rounds without a better metric; None: never.
    seed
        Has no effect; all rankers take one.
    threads
        Number of threads; None: all.
    transforms
        Applied to the features first; fitted on the training data.
    """

    minimums: ClassVar[dict[str, int]] = {"rounds": 1}

    rounds: int = 500
    directions: Literal["both", "up"] = "both"
    patience: int | None = 50
    seed: int = 0
    threads: int | None = None
    transforms: tuple[str, ...] = ("standard",)

    @property
    def max_steps(self) -> int:
        return self.rounds

    def _next(self, problem: MetricOfWeights, steps: list[Step], init: NDArray[np.float64] | None) -> Step | None:
        if len(steps) >= self.rounds:
            return None
        if problem.weak is None:
            problem.weak = self._weak_values(problem)
        weights = np.zeros(problem.data.n_features) if init is None else init.copy()
        if steps:
            weights = np.array(steps[-1].weights)
        shares = problem.list_weights
        if np.any(weights != 0.0):
            shares = shares * np.exp(-problem.list_values(problem.scores(weights)))
            shares = shares / shares.sum()
        worth = problem.weak @ shares
        if steps and len(worth) > 1:
            worth[steps[-1].choice] = -np.inf
        choice = int(np.argmax(worth))
        mean = min(float(worth[choice]), _PERFECT)
        feature, sign = (choice // 2, 1.0 - 2.0 * (choice % 2)) if self.directions == "both" else (choice, 1.0)
        weights[feature] += sign * 0.5 * float(np.log1p(mean) - np.log1p(-mean))
        return Step(weights.tolist(), problem.mean(problem.scores(weights)), choice)

    def _weak_values(self, problem: MetricOfWeights) -> NDArray[np.float64]:
        """The metric of each weak ranker for each list that counts."""
        signs = (1.0, -1.0) if self.directions == "both" else (1.0,)
        values = np.array([problem.list_values(sign * column) for column in problem.columns for sign in signs])
        if np.max(values) > 1.0 or np.min(values) < 0.0:
            raise UsageError(f"AdaRank needs a metric between 0 and 1, and {problem.metric} is not; use ndcg or map.")
        return values
