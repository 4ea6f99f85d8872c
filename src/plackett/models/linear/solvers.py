"""The solver of a linear problem, chosen by what the objective declares.

Objectives without a value (MDPRank, uMart, LambdaRank) are minimized by full-batch Adam (Kingma & Ba 2015): their
gradients are not derivatives of a function, so a line search has no values to compare. A metric selects the best
weights. Random objectives draw new noise at each step.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from plackett.base.errors import UsageError
from plackett.base.kernels import ListFunction, list_function
from plackett.data import Dataset
from plackett.metrics import Metric
from plackett.models.fit_context import Selection, bind_objective, measure
from plackett.models.linear.convergence import Convergence, Iterate, Planes, Solution, Weights
from plackett.models.linear.cutting_plane import Bundle, describe_gap, minimize_by_planes
from plackett.models.linear.lbfgs import Save, minimize
from plackett.models.linear.loss import LinearLoss, ScoreLoss, make_loss, matvec
from plackett.objectives import SVMMAP, Objective, PairHinge, RankSVM, Stochastic
from plackett.objectives.driver import LIST_FUNCTION, Weighting, document_weights
from plackett.objectives.hinge import add_hinges

if TYPE_CHECKING:
    from plackett.models.linear.ranker import LinearRanker


_WIDTH, _NARROWING, _MIN_WIDTH = 0.3, 4.0, 1e-6  # the parabola: first width, factor, last width
_SHARE, _SHARPENING, _MIN_SHARE = 0.1, 30.0, 1e-17  # part of the gap that a stage may leave open
_PLANES = 100  # the certificate uses the last ones


def minimize_hinge(data: Dataset, start: Weights, *, C: float, max_iterations: int, gap: float) -> Solution:
    """Minimize the hinge over pairs plus ||w||^2 / C to a duality gap of at most ``gap`` times the value."""
    weights, value, lower = start, np.inf, 0.0  # the best so far, and a bound on the minimum
    width, share, norm, evaluations = _WIDTH, _SHARE, np.inf, 0
    trace: list[float] = []
    points: deque[Iterate] = deque(maxlen=_PLANES)
    is_closed = False
    while not is_closed and len(trace) < max_iterations and width >= _MIN_WIDTH and share >= _MIN_SHARE:
        loss = SmoothHinge(data, width, points)
        value_before = min(value, loss.hinge(weights) + float(weights @ weights) / C)
        limits: Any = {"max_iterations": max_iterations - len(trace), "tolerance": 0.0}
        solution = minimize(loss, weights, C=C, **limits, value_tolerance=share * gap * value_before)
        report = solution.convergence
        evaluations += report.evaluations
        norm = report.gradient_norm
        trace.extend(report.trace)
        new_value = loss.hinge(solution.weights) + float(solution.weights @ solution.weights) / C
        if new_value < value:
            value, weights = new_value, solution.weights
        a = np.array([point.gradient for point in points])
        b = np.array([point.value - point.gradient @ point.weights for point in points])
        lower = max(lower, Bundle(len(weights), C, Planes(a, b)).lower)
        if new_value - report.value >= report.value - lower:
            width /= _NARROWING
        else:
            share /= _SHARPENING
        is_closed = value < np.inf and value - lower <= gap * value
    reached = (value - lower) / value if value > 0.0 else 0.0
    end = ("smoothed hinge", is_closed, describe_gap(is_closed))
    return Solution(weights, Convergence(*end, len(trace), evaluations, value, norm, reached, tuple(trace)))


class SmoothHinge:
    """The hinge smoothed over ``width`` as a function of the weights; ``points`` record its tangents."""

    def __init__(self, data: Dataset, width: float, points: deque[Iterate] | None = None) -> None:
        self.data = data
        self._smooth = make_loss(SmoothPairs(width), data)
        self.curvature = self._smooth.curvature
        self._hinge = bind_objective(RankSVM(), data)
        self._points = points

    def evaluate(self, weights: Weights) -> tuple[float, Weights]:
        value, gradient = self._smooth.evaluate(weights)
        if self._points is not None:
            self._points.append(Iterate(weights, value, gradient))
        return value, gradient

    def hinge(self, weights: Weights) -> float:
        """The hinge without smoothing."""
        return float(np.sum(self._hinge.evaluate(matvec(self.data.features, weights)).values))


@list_function(LIST_FUNCTION)
def smooth_pairs_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Value, gradient and curvature; params: the width, prepared: document weights, if any."""
    weights = document_weights(prepared, len(scores), 0)
    return add_hinges(scores, labels, weights, False, params[0], gradient, curvature)


@dataclass(frozen=True)
class SmoothPairs(Objective):
    """The smoothed hinge over all pairs with different labels."""

    name: ClassVar[str] = "smoothed hinge"
    convex: ClassVar[bool] = True
    weighting: ClassVar[Weighting | None] = "order"
    function: ClassVar[ListFunction] = smooth_pairs_list

    width: float = 0.1
    """Width of the parabola between the flat part and the slope."""


_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8


def minimize_adam(
    loss: ScoreLoss,
    start: Weights,
    *,
    C: float,
    max_iterations: int,
    learning_rate: float,
    patience: int,
    selection_data: Dataset,
    metrics: tuple[Metric, ...],
    resume: dict[str, Any] | None = None,
    save: Save | None = None,
) -> Solution:
    """Follow the gradient of the loss plus ||w||^2 / C; the best metric on ``selection_data`` selects the weights."""
    zero = np.zeros_like(start)
    state = _State(start, zero, zero, start) if resume is None else _State.from_dict(resume)
    n_lists = loss.data.n_lists
    norm = np.nan
    while state.step < max_iterations and not state.has_waited(patience):
        gradient = loss.evaluate(state.weights, state.step)[1]
        gradient = (gradient + 2.0 * state.weights / C) / n_lists
        norm = float(np.max(np.abs(gradient)))
        state.move(gradient, learning_rate)
        state.measure(selection_data, metrics)
        if save is not None:
            save(state.to_dict())
    stopped = state.has_waited(patience)
    reason = f"no better {metrics[0]} for {patience} steps" if stopped else f"max_iterations={max_iterations} reached"
    end = ("adam", stopped, reason, state.step, state.step, np.nan, norm)
    return Solution(state.best, Convergence(*end, trace=tuple(state.trace)))


@dataclass
class _State:
    """Weights and moments, and the best weights so far."""

    weights: Weights
    first: Weights
    second: Weights
    best: Weights
    step: int = 0
    selection: Selection = field(default_factory=Selection)
    trace: list[float] = field(default_factory=list)

    def move(self, gradient: Weights, learning_rate: float) -> None:
        self.step += 1
        self.first = _BETA1 * self.first + (1.0 - _BETA1) * gradient
        self.second = _BETA2 * self.second + (1.0 - _BETA2) * gradient**2
        mean = self.first / (1.0 - _BETA1**self.step)
        deviation = np.sqrt(self.second / (1.0 - _BETA2**self.step))
        self.weights = self.weights - learning_rate * mean / (deviation + _EPSILON)

    def measure(self, data: Dataset, metrics: tuple[Metric, ...]) -> None:
        means = measure(matvec(data.features, self.weights), data, metrics)
        self.trace.append(means[0])
        if self.selection.offer(means):
            self.best = self.weights

    def has_waited(self, patience: int) -> bool:
        return self.step > 0 and self.selection.steps_since_best >= patience

    def to_dict(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name).tolist() for name in ("weights", "first", "second", "best")},
            "best_means": self.selection.best,
            "best_step": self.selection.best_step,
            "offers": self.selection.steps,
            "step": self.step,
            "trace": self.trace,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> _State:
        weights, first, second, best = (np.array(data[k]) for k in ("weights", "first", "second", "best"))
        selection = Selection(tuple(data["best_means"]), data["best_step"], data["offers"])
        return cls(weights, first, second, best, data["step"], selection, list(data["trace"]))


Solver = Literal["auto", "lbfgs", "smoothed-hinge", "cutting-plane", "adam"]


@dataclass
class LinearProblem:
    """One objective on one dataset, to be solved for several penalties."""

    ranker: LinearRanker
    objective: Objective
    data: Dataset
    selection_data: Dataset
    """Lists on which Adam selects the best weights."""
    metrics: tuple[Metric, ...]
    requested: Solver = "auto"
    planes: Planes | None = None
    """Tangents of a convex objective; they are passed from one penalty to the next."""

    def __post_init__(self) -> None:
        self.solver = select_solver(self.objective, self.requested)

    @cached_property
    def loss(self) -> LinearLoss:
        """The objective as a function of the weights."""
        return make_loss(self.objective, self.data)

    def solve(self, start: Weights, C: float, resume: dict[str, Any] | None, save: Save | None) -> Solution:
        """The weights for one penalty, from one start."""
        ranker = self.ranker
        limits: Any = {"C": C, "max_iterations": ranker.max_iterations}
        if self.solver == "smoothed-hinge":
            return minimize_hinge(self.data, start, **limits, gap=ranker.gap)
        if self.solver == "cutting-plane":
            return minimize_by_planes(self.loss, start, **limits, gap=ranker.gap, planes=self.planes)
        limits |= {"resume": resume, "save": save}
        if self.solver == "adam":
            limits |= {"learning_rate": ranker.learning_rate, "patience": ranker.patience}
            loss = ScoreLoss(self.objective, self.data)
            return minimize_adam(
                loss, np.array(start), **limits, selection_data=self.selection_data, metrics=self.metrics
            )
        close = ranker.tolerance * self.data.n_lists
        return minimize(self.loss, start, **limits, tolerance=ranker.tolerance, value_tolerance=close)


def select_solver(objective: Objective, requested: Solver) -> Solver:
    """The solver to use; raises UsageError if the requested one cannot minimize the objective."""
    if requested not in get_args(Solver):
        raise UsageError(f"unknown solver {requested!r}; expected one of {', '.join(get_args(Solver))}.")
    default = _default_solver(objective)
    if requested in ("auto", default):
        return default
    suitable = {
        "adam": True,
        "lbfgs": objective.exact,
        "cutting-plane": objective.exact and objective.convex,
        "smoothed-hinge": False,
    }
    if not suitable[requested]:
        raise UsageError(f"the solver {requested!r} cannot minimize {objective.name}; use {default!r} or 'auto'.")
    return requested


def _default_solver(objective: Objective) -> Solver:
    if not objective.exact:
        return "adam"
    if _is_hinge(objective):
        return "smoothed-hinge"
    inner = objective.objective if isinstance(objective, Stochastic) else objective
    kinked = isinstance(inner, SVMMAP | PairHinge) or _is_hinge(inner)
    return "cutting-plane" if kinked else "lbfgs"


def _is_hinge(objective: Objective) -> bool:
    return isinstance(objective, RankSVM) and not objective.squared
