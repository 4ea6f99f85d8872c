r"""L-BFGS for smooth objectives, started from their own curvature.

.. math:: F(w) = L(w) + \lVert w \rVert^2 / C, \qquad \nabla F = \nabla L + 2 w / C

The two-loop recursion begins with the inverse of the approximate Hessian of
:mod:`plackett.models.linear.scaling` instead of a multiple of the identity: tens of iterations
instead of hundreds on features of search engines. It runs in rounds; each begins with the curvature
at the weights reached and no memory of steps, so a fit can be taken up again between rounds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plackett.base.errors import UsageError
from plackett.models.linear.convergence import Convergence, Solution
from plackett.models.linear.line_search import Point, search
from plackett.models.linear.losses import Loss
from plackett.models.linear.products import Weights
from plackett.models.linear.scaling import Scale, scale_of

_ROUND = 40  # iterations
_HISTORY = 20
_FLAT = 1e-15  # of the value: a change that is lost in rounding
_LOST = 1e-9  # of the value: so little that a step that does not lower it is rounding

Save = Callable[[dict[str, Any]], None]
"""Called with plain data from which a run can go on."""


@dataclass
class _Run:
    """One minimisation: where it is."""

    loss: Loss
    C: float
    tolerance: float
    enough: float
    max_iterations: int
    iterations: int = 0
    evaluations: int = 0
    trace: list[float] = field(default_factory=list)
    newton: float = np.inf
    """About how far the value is above the minimum: half of g M^-1 g."""

    def evaluate(self, weights: Weights) -> Point:
        self.evaluations += 1
        value, gradient = self.loss.evaluate(weights)
        value += float(weights @ weights) / self.C
        return Point(weights, value, gradient + 2.0 * weights / self.C)

    def norm(self, at: Point) -> float:
        return float(np.max(np.abs(at.gradient), initial=0.0)) / self.loss.data.n_lists

    def is_over(self, at: Point) -> bool:
        enough = max(self.enough, _FLAT * abs(at.value))
        small = self.norm(at) <= self.tolerance or self.newton <= enough
        return small or self.iterations >= self.max_iterations

    def round(self, at: Point) -> Point:
        """Some iterations from one scale."""
        scale = scale_of(self.loss.data, self.loss.curvature(at.weights), self.C)
        memory: deque[tuple[Weights, Weights, float]] = deque(maxlen=_HISTORY)
        for _ in range(_ROUND):
            direction = -_two_loops(scale, memory, at.gradient)
            self.newton = -0.5 * float(direction @ at.gradient)
            if self.is_over(at):
                break
            after = search(self.evaluate, at, direction)
            if after is at:
                break
            self.iterations += 1
            self.trace.append(after.value)
            _remember(memory, after.weights - at.weights, after.gradient - at.gradient)
            at = after
        return at


def _two_loops(
    scale: Scale, memory: deque[tuple[Weights, Weights, float]], gradient: Weights
) -> Weights:
    """The approximate inverse Hessian times a gradient (Nocedal 1980)."""
    q = gradient.copy()
    factors = []
    for step, change, product in reversed(memory):
        factors.append(float(step @ q) / product)
        q -= factors[-1] * change
    r = scale.solve(q)
    if memory:
        step, change, product = memory[-1]
        r *= product / float(change @ scale.solve(change))
    for (step, change, product), factor in zip(memory, reversed(factors), strict=True):
        r += (factor - float(change @ r) / product) * step
    return r


def _remember(
    memory: deque[tuple[Weights, Weights, float]], step: Weights, change: Weights
) -> None:
    product = float(step @ change)
    if product > 1e-12 * float(np.linalg.norm(step) * np.linalg.norm(change)):
        memory.append((step, change, product))


def minimise(
    loss: Loss,
    start: Weights,
    *,
    C: float,
    max_iterations: int,
    tolerance: float,
    enough: float = 0.0,
    resume: dict[str, Any] | None = None,
    save: Save | None = None,
) -> Solution:
    """Minimise the loss plus ||w||^2 / C.

    Parameters
    ----------
    loss
        A smooth function of the weights.
    start
        Where to begin.
    C, max_iterations
        The penalty; when to give up.
    tolerance
        Stop when no component of the gradient, divided by the number of lists, exceeds it.
    enough
        Stop too when the value is about so close to the minimum, by Newton's decrement.
    resume, save
        State of a run to take up, and what to call with the state after each round.
    """
    run = _Run(loss, C, tolerance, enough, max_iterations)
    if resume is not None:
        start = np.array(resume["weights"], dtype=np.float64)
        run.iterations, run.evaluations = resume["iterations"], resume["evaluations"]
        run.trace, run.newton = list(resume["trace"]), float(resume["newton"])
    at = run.evaluate(np.array(start, dtype=np.float64))
    if not (np.isfinite(at.value) and np.isfinite(at.gradient).all()):
        raise UsageError(
            "value or gradient of the objective are not finite where the search begins; check the "
            'objective, or put the features on one scale (transforms=("standard",)).'
        )
    moving = True
    while moving and not run.is_over(at):
        before, at = at, run.round(at)
        moving = at is not before
        if save is not None:
            save(_state(run, at))
    return Solution(at.weights, _report(run, at, moving))


def _state(run: _Run, at: Point) -> dict[str, Any]:
    return {
        "weights": at.weights.tolist(),
        "iterations": run.iterations,
        "evaluations": run.evaluations,
        "trace": run.trace,
        "newton": run.newton,
    }


def _report(run: _Run, at: Point, moving: bool) -> Convergence:
    if run.norm(at) <= run.tolerance:
        end = (True, "the gradient is below the tolerance")
    elif run.newton <= run.enough:
        end = (True, "the value is close to the minimum")
    elif run.newton <= (_FLAT if moving else _LOST) * abs(at.value):
        end = (True, "the value changes no more")
    elif not moving:
        end = (False, "no step along the gradient lowers the value")
    else:
        end = (False, f"max_iterations={run.max_iterations} reached")
    counts = (run.iterations, run.evaluations)
    trace = tuple(run.trace)
    return Convergence("lbfgs", *end, *counts, at.value, run.norm(at), trace=trace)
