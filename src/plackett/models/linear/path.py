"""The path of penalties: for each C, from the smallest, the best of several searches.

Every search and its report is kept. The C that is best on the validation lists wins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from plackett.data.dataset import Dataset
from plackett.models.linear.convergence import Convergence, Solution
from plackett.models.linear.journal import Journal
from plackett.models.linear.products import Weights, times
from plackett.models.linear.solving import Problem
from plackett.models.linear.starts import helper_of, random_start
from plackett.models.run import Run
from plackett.models.selection import Means, Selection, measure


@dataclass(frozen=True)
class Trial:
    """One search: from one start, with one C."""

    C: float
    start: str
    convergence: Convergence
    chosen: bool
    """Whether it found the lowest value of this C."""
    means: Means | None
    """The metrics on the validation lists, where it was chosen and there are any."""


@dataclass
class Path:
    """The searches for one objective along the penalties."""

    problem: Problem
    starts: tuple[str, ...]
    validation: Dataset | None
    run: Run
    journal: Journal
    trials: list[Trial] = field(default_factory=list)
    selection: Selection = field(default_factory=Selection)
    best: tuple[float, Solution] | None = None
    _helpers: dict[str, Problem] = field(default_factory=dict)
    _helped: dict[str, Weights] = field(default_factory=dict)

    def follow(self, penalties: tuple[float, ...]) -> tuple[float, Solution]:
        """The best C and its solution."""
        last: Weights | None = None
        total = len(penalties) * len(self.starts)
        for C in sorted(penalties):
            names = [name for name in self.starts if name != "path" or last is not None]
            found: dict[str, Solution] = {}
            for number, name in enumerate(names or ["zero"]):
                solution = self._solve(self.problem, self._start(name, number, C, last), C)
                found[name if name not in found else f"{name} {number}"] = solution
                done = len(self.trials) + len(found)
                self.run.progress(f"C={C:g} from {name}: {solution.convergence}", done, total)
            last, means = self._choose(C, found)
            if means is not None:
                self.run.watch(self.selection.steps, len(penalties), means[0])
        assert self.best is not None
        return self.best

    def _choose(self, C: float, found: dict[str, Solution]) -> tuple[Weights, Means | None]:
        """Keep the best search of one C, and offer it to the selection; its weights and means."""
        winner = min(found, key=lambda name: _rank(found[name]))
        solution = found[winner]
        means = None
        if self.validation is not None:
            scores = times(self.validation.features, solution.weights)
            means = measure(scores, self.validation, self.run.metrics)
        if self.best is None or (means is not None and self.selection.best is None):
            self.best = (C, solution)
        if means is not None and self.selection.offer(means):
            self.best = (C, solution)
        for name, each in found.items():
            own = name == winner
            self.trials.append(Trial(C, name, each.convergence, own, means if own else None))
        return solution.weights, means

    def _start(self, name: str, number: int, C: float, last: Weights | None) -> Weights:
        d = self.problem.data.n_features
        if name == "path" and last is not None:
            return last
        if name == "random":
            return random_start(d, seed=self.problem.ranker.seed, number=number)
        helper = helper_of(name, self.problem.objective)
        if helper is None:
            return np.zeros(d)
        if name not in self._helpers:
            given = self.problem
            self._helpers[name] = Problem(
                given.ranker, helper, given.data, given.judge, given.metrics, asked="auto"
            )
        before = self._helped.get(name, np.zeros(d))
        self._helped[name] = self._solve(self._helpers[name], before, C).weights
        return self._helped[name]

    def _solve(self, problem: Problem, start: Weights, C: float) -> Solution:
        found = self.journal.solution(partial(problem.solve, start, C))
        problem.planes = found.planes
        return found


def _rank(solution: Solution) -> float:
    """The lower the better: the value; of objectives without one, minus the best metric."""
    report = solution.convergence
    if np.isnan(report.value):
        return -max(report.trace, default=-np.inf)
    return report.value
