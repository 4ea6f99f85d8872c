"""The path of penalties: for each C, from the smallest, the best of several solver runs.

The C that is best on the validation lists wins. Objectives that are not convex have more than one local minimum, so the
solver runs from several starts:

======================  =========================================================================
start                   weights
======================  =========================================================================
``zero``                all zero
``path``                the best ones for the next smaller C, if there is one
``mle``                 the minimum of the pairwise logistic loss (convex), with the same C
``convexloss``          the minimum of ConvexLoss (convex) for the same gain, with the same C
``random``              normal with deviation 0.1; different each time it is named
======================  =========================================================================

A checkpoint holds the finished runs and the state of the current one (:class:`Journal`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np

from plackett.base.errors import UsageError
from plackett.data import Dataset
from plackett.models.checkpoint import Checkpoint, read_state, save_state
from plackett.models.fit_context import Curves, FitContext, Means, Selection, latest, measure
from plackett.models.linear.convergence import Convergence, Solution, Weights
from plackett.models.linear.lbfgs import Save
from plackett.models.linear.loss import matvec
from plackett.models.linear.solvers import LinearProblem
from plackett.objectives import Objective, objective

STARTS = ("zero", "path", "mle", "convexloss", "random")
_RANDOM_DEVIATION = 0.1


@dataclass(frozen=True)
class SolverRun:
    """One run of the solver, from one start, with one C."""

    C: float
    start: str
    convergence: Convergence
    chosen: bool
    """Whether it found the lowest value for this C."""
    means: Means | None
    """The metrics on the validation lists, if it was chosen and there are any."""


@dataclass
class Path:
    """The solver runs for one objective along the penalties."""

    problem: LinearProblem
    starts: tuple[str, ...]
    validation: Dataset | None
    context: FitContext
    journal: Journal
    init: Weights | None = None
    """Weights of an earlier model, a start for the first C; None: there is none."""
    runs: list[SolverRun] = field(default_factory=list)
    selection: Selection = field(default_factory=Selection)
    best: tuple[float, Solution] | None = None
    _helpers: dict[str, LinearProblem] = field(default_factory=dict)
    """The convex problems whose minimum is a start."""
    _helper_weights: dict[str, Weights] = field(default_factory=dict)

    def follow(self, penalties: tuple[float, ...]) -> tuple[float, Solution]:
        """Return the best C and its solution."""
        weights: Weights | None = self.init
        total = len(penalties) * len(self.starts)
        for C in sorted(penalties):
            names = [name for name in self.starts if name != "path" or weights is not None]
            solutions: dict[str, Solution] = {}
            for number, name in enumerate(names or ["zero"]):
                solution = self._solve(self.problem, self._start(name, number, C, weights), C)
                solutions[name if name not in solutions else f"{name} {number}"] = solution
                done = len(self.runs) + len(solutions)
                self.context.progress(f"C={C:g} from {name}: {solution.convergence}", done, total)
            weights, means = self._choose(C, solutions)
            if means is not None:
                self.context.watch(self.selection.steps, len(penalties), means[0])
            done = sum(run.chosen for run in self.runs)
            if self.context.should_stop(done, len(penalties), latest(self.curves())):
                break
        assert self.best is not None
        return self.best

    def curves(self) -> Curves:
        """The metrics on the validation lists for each C."""
        means = [run.means for run in self.runs if run.means is not None]
        if not means:
            return {}
        names = self.context.metric_names
        return {"validation": dict(zip(names, map(list, zip(*means, strict=True)), strict=True))}

    def _choose(self, C: float, solutions: dict[str, Solution]) -> tuple[Weights, Means | None]:
        """Record the runs of one C; return the weights of the best one and their metrics."""
        winner = min(solutions, key=lambda name: _rank(solutions[name].convergence))
        solution = solutions[winner]
        means = None
        if self.validation is not None:
            scores = matvec(self.validation.features, solution.weights)
            means = measure(scores, self.validation, self.context.metrics)
        improved = means is not None and self.selection.offer(means)
        if self.best is None or improved:
            self.best = (C, solution)
        for name, run in solutions.items():
            self.runs.append(SolverRun(C, name, run.convergence, name == winner, means if name == winner else None))
        return solution.weights, means

    def _start(self, name: str, number: int, C: float, last: Weights | None) -> Weights:
        n_features = self.problem.data.n_features
        if name == "path" and last is not None:
            return last
        if name == "random":
            rng = np.random.default_rng([self.problem.ranker.seed, number])
            return np.asarray(rng.normal(0.0, _RANDOM_DEVIATION, n_features))
        helper = _helper_objective(name, self.problem.objective)
        if helper is None:
            return np.zeros(n_features)
        if name not in self._helpers:
            self._helpers[name] = replace(self.problem, objective=helper, requested="auto", planes=None)
        start = self._helper_weights.get(name, np.zeros(n_features))
        self._helper_weights[name] = self._solve(self._helpers[name], start, C).weights
        return self._helper_weights[name]

    def _solve(self, problem: LinearProblem, start: Weights, C: float) -> Solution:
        solution = self.journal.solve(partial(problem.solve, start, C))
        problem.planes = solution.planes
        return solution


def _rank(report: Convergence) -> float:
    """A number by which runs are compared, lower is better: the value, or minus the best metric if there is none."""
    return -max(report.trace, default=-np.inf) if np.isnan(report.value) else report.value


def select_starts(loss: Objective, requested: tuple[str, ...] | None) -> tuple[str, ...]:
    """The requested starts, or those that the objective needs."""
    if requested is not None:
        for name in requested:
            if name not in STARTS:
                raise UsageError(f"unknown start {name!r}; expected one of {', '.join(STARTS)}.")
        if not requested:
            raise UsageError(f"starts must name at least one of {', '.join(STARTS)}.")
        return requested
    if loss.convex or not loss.exact:
        return ("path",)
    return STARTS if _gain_of(loss) else tuple(name for name in STARTS if name != "convexloss")


def _helper_objective(start: str, loss: Objective) -> Objective | None:
    """The convex objective whose minimum is the start; None for other starts."""
    if start == "mle":
        return objective("mle")
    if start != "convexloss":
        return None
    gain = _gain_of(loss)
    if gain is None:
        return objective("convexloss-ndcg")
    # With equal settings both objectives sample the same rankings.
    settings = {f.name: getattr(loss, f.name) for f in fields(loss)}  # type: ignore[arg-type]
    return objective(f"convexloss-{gain}", **settings)


def _gain_of(loss: Objective) -> str | None:
    """The gain of a conditional model by its name (``expgain-map``: map); None for others."""
    family, _, gain = loss.name.partition("-")
    return gain if family in ("expgain", "l2", "l3", "convexloss") else None


Solve = Callable[[dict[str, Any] | None, Save | None], Solution]
"""Solves from a saved state (None: from the start); the second argument saves states."""


class Journal:
    """The finished solver runs of one fit, in order, kept in its checkpoint."""

    _FILE = "journal.json"

    def __init__(self, checkpoint: Checkpoint | None) -> None:
        self._checkpoint = checkpoint
        self._done: list[dict[str, Any]] = []
        self._state: dict[str, Any] | None = None
        self._next = 0
        self._saves = 0
        kept = read_state(checkpoint, self._FILE)
        if kept is not None:
            self._done, self._state, self._saves = kept["done"], kept["state"], kept["saves"]

    def solve(self, solve: Solve) -> Solution:
        """Return the next solution: the recorded one if there is one, else a new one."""
        number = self._next
        self._next += 1
        if number < len(self._done):
            return Solution.from_dict(self._done[number])
        state, self._state = self._state, None
        if self._checkpoint is None:
            return solve(state, None)
        solution = solve(state, self._save)
        self._done.append(solution.to_dict())
        self._save(None)
        return solution

    def _save(self, state: dict[str, Any] | None) -> None:
        self._state = state
        if self._checkpoint is not None and self._checkpoint.due():
            self._saves += 1
            kept = {"done": self._done, "state": state, "saves": self._saves}
            save_state(self._checkpoint, self._saves, self._FILE, kept)
