"""The path of penalties: for each C, from the smallest, the best of several searches.

Every search and its report is kept. The C that is best on the validation lists wins.

What a linear fit has solved so far, kept in its checkpoint.

A fit is a fixed sequence of solves. The journal holds the results of those that are done and the
state of the one under way, so a fit taken up again goes through the same sequence and finds most
answers written down.

Where searches begin: objectives that are not convex have more than one valley.

======================  =========================================================================
start                   weights
======================  =========================================================================
``zero``                all zero
``path``                the best ones found with the next smaller C, where there is one
``mle``                 the minimum of the pairwise logistic loss (convex), with the same C
``convexloss``          the minimum of ConvexLoss (convex) for the same gain, with the same C
``random``              normal with deviation 0.1, other ones for each time it is named
======================  =========================================================================
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import numpy as np

from plackett.base.errors import UsageError
from plackett.data.dataset import Dataset
from plackett.models.checkpoint import Checkpoint
from plackett.models.linear.lbfgs import Convergence, Planes, Save, Solution
from plackett.models.linear.loss import Weights, times
from plackett.models.linear.solvers import Problem
from plackett.models.ranker import FitContext
from plackett.models.selection import Means, Selection, measure
from plackett.objectives import Objective, objective

_FILE = "journal.json"

Solve = Callable[[dict[str, Any] | None, Save | None], Solution]
"""Solves from a state (None: from the start), handing states to the second argument."""


class Journal:
    """The solves of one fit in their order."""

    def __init__(self, checkpoint: Checkpoint | None) -> None:
        self._checkpoint = checkpoint
        self._done: list[dict[str, Any]] = []
        self._state: dict[str, Any] | None = None
        self._next = 0
        self._saves = 0
        latest = None if checkpoint is None else checkpoint.latest()
        if latest is not None:
            kept = json.loads((latest / _FILE).read_text(encoding="utf-8"))
            self._done, self._state, self._saves = kept["done"], kept["state"], kept["saves"]

    def solution(self, solve: Solve) -> Solution:
        """The result of the next solve: as written down, or solved now."""
        at = self._next
        self._next += 1
        if at < len(self._done):
            return _read(self._done[at])
        state, self._state = self._state, None
        found = solve(state, None if self._checkpoint is None else self._keep)
        self._state = None
        if self._checkpoint is not None:
            self._done.append(_written(found))
            self._keep(None)
        return found

    def _keep(self, state: dict[str, Any] | None) -> None:
        self._state = state
        if self._checkpoint is None or not self._checkpoint.due():
            return
        self._saves += 1
        kept = {"done": self._done, "state": state, "saves": self._saves}
        with self._checkpoint.saving(self._saves) as folder:
            (folder / _FILE).write_text(json.dumps(kept), encoding="utf-8")


def _written(solution: Solution) -> dict[str, Any]:
    planes = solution.planes
    return {
        "weights": solution.weights.tolist(),
        "convergence": solution.convergence.to_dict(),
        "planes": None if planes is None else [planes.a.tolist(), planes.b.tolist()],
    }


def _read(kept: dict[str, Any]) -> Solution:
    planes = None
    if kept["planes"] is not None:
        planes = Planes(*(np.array(each, dtype=np.float64) for each in kept["planes"]))
    weights = np.array(kept["weights"], dtype=np.float64)
    return Solution(weights, Convergence.from_dict(kept["convergence"]), planes)


STARTS = ("zero", "path", "mle", "convexloss", "random")
_CONVEX = ("path",)
_CONDITIONAL = ("zero", "path", "mle", "convexloss", "random")
_OTHERS = ("zero", "path", "mle", "random")
_DEVIATION = 0.1


def starts_of(loss: Objective, given: tuple[str, ...] | None) -> tuple[str, ...]:
    """The starts asked for, or those the objective needs."""
    if given is not None:
        for name in given:
            if name not in STARTS:
                raise UsageError(f"there is no start {name!r}; there are {', '.join(STARTS)}.")
        if not given:
            raise UsageError(f"starts must name at least one of {', '.join(STARTS)}.")
        return tuple(given)
    if loss.convex or not loss.exact:
        return _CONVEX
    return _CONDITIONAL if _gain(loss) else _OTHERS


def helper_of(start: str, loss: Objective) -> Objective | None:
    """The convex objective whose minimum is the start; None if it needs none."""
    if start == "mle":
        return objective("mle")
    if start != "convexloss":
        return None
    helper = objective(f"convexloss-{_gain(loss) or 'ndcg'}")
    if not _gain(loss):
        return helper
    # The same sampled rankings: with the same settings both draw the same ones.
    shared = {f.name: getattr(loss, f.name) for f in fields(loss)}  # type: ignore[arg-type]
    return objective(helper.name, **shared)


def random_start(n_features: int, *, seed: int, number: int) -> Weights:
    """Random weights; the number tells several of them apart."""
    rng = np.random.default_rng([seed, number])
    return np.asarray(rng.normal(0.0, _DEVIATION, n_features))


def _gain(loss: Objective) -> str | None:
    """The gain of a conditional model by its name (``expgain-map``: map); None for others."""
    family, _, gain = loss.name.partition("-")
    return gain if family in ("expgain", "l2", "l3", "convexloss") else None


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
    run: FitContext
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
