r"""Full-batch Adam for objectives without a value (MDPRank, uMart, LambdaRank).

Their gradients are no derivative of anything, so there is nothing for a line search to compare.
Steps of a given length follow them (Kingma & Ba 2015), and the metric decides: on the validation
lists where there are any, else on the training lists. The best weights are kept; the search ends
when they are ``patience`` steps old. Random objectives see the noise of each step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plackett.data.dataset import Dataset
from plackett.metrics import Metric
from plackett.models.linear.lbfgs import Convergence, Save, Solution
from plackett.models.linear.loss import ScoreLoss, Weights, times
from plackett.models.selection import Selection, measure

_FIRST, _SECOND, _EPSILON = 0.9, 0.999, 1e-8


@dataclass
class _Search:
    """Where it is: weights and moments, and the best weights so far."""

    weights: Weights
    first: Weights
    second: Weights
    best: Weights
    step: int = 0
    selection: Selection = field(default_factory=Selection)
    trace: list[float] = field(default_factory=list)

    def move(self, gradient: Weights, rate: float) -> None:
        self.step += 1
        self.first = _FIRST * self.first + (1.0 - _FIRST) * gradient
        self.second = _SECOND * self.second + (1.0 - _SECOND) * gradient**2
        mean = self.first / (1.0 - _FIRST**self.step)
        spread = np.sqrt(self.second / (1.0 - _SECOND**self.step))
        self.weights = self.weights - rate * mean / (spread + _EPSILON)

    def judge(self, data: Dataset, metrics: tuple[Metric, ...]) -> None:
        means = measure(times(data.features, self.weights), data, metrics)
        self.trace.append(means[0])
        if self.selection.offer(means):
            self.best = self.weights

    def to_dict(self) -> dict[str, Any]:
        vectors = {k: getattr(self, k).tolist() for k in ("weights", "first", "second", "best")}
        chosen = self.selection
        kept = {"best_means": chosen.best, "best_step": chosen.best_step, "offers": chosen.steps}
        return {**vectors, **kept, "step": self.step, "trace": self.trace}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> _Search:
        vectors = (np.array(data[k]) for k in ("weights", "first", "second", "best"))
        weights, first, second, best = vectors
        selection = Selection(tuple(data["best_means"]), data["best_step"], data["offers"])
        step, trace = int(data["step"]), list(data["trace"])
        return cls(weights, first, second, best, step, selection, trace)


def descend(
    loss: ScoreLoss,
    start: Weights,
    *,
    C: float,
    max_iterations: int,
    learning_rate: float,
    patience: int,
    judge: Dataset,
    metrics: tuple[Metric, ...],
    resume: dict[str, Any] | None = None,
    save: Save | None = None,
) -> Solution:
    """Follow the gradient of the loss plus ||w||^2 / C.

    Parameters
    ----------
    loss
        Gives a gradient at each step.
    start
        Where to begin.
    C, max_iterations
        The penalty; the number of steps at most.
    learning_rate
        Length of a step for each weight.
    patience
        Stop after so many steps without a better metric.
    judge, metrics
        What to choose the best weights by.
    resume, save
        State of a run to take up, and what to call with the state after each step.
    """
    zero = np.zeros_like(start)
    search = _Search(start, zero, zero, start) if resume is None else _Search.from_dict(resume)
    n_lists = loss.data.n_lists
    norm = np.nan
    while search.step < max_iterations and (
        search.step == 0 or search.selection.steps_since_best < patience
    ):
        gradient = loss.evaluate(search.weights, search.step)[1]
        gradient = (gradient + 2.0 * search.weights / C) / n_lists
        norm = float(np.max(np.abs(gradient)))
        search.move(gradient, learning_rate)
        search.judge(judge, metrics)
        if save is not None:
            save(search.to_dict())
    stopped = search.selection.steps_since_best >= patience
    reason = (
        f"no better {metrics[0]} for {patience} steps"
        if stopped
        else f"max_iterations={max_iterations} reached"
    )
    report = Convergence(
        *("adam", stopped, reason, search.step, search.step, np.nan, norm),
        trace=tuple(search.trace),
    )
    return Solution(search.best, report)
