r"""Cutting planes for convex objectives with kinks (SVM-MAP), to a certified gap.

Tangents from below, and the minimum of their maximum, are in :mod:`plackett.models.linear.bundle`.
This is the structural SVM with one slack for all lists (Joachims, Finley & Yu 2009): a plane is the
sum of the most violated constraints of all lists, so some hundreds of planes do for any number of
lists. Planes do not depend on the penalty: along a path of penalties they are handed on.

The next tangent is not taken at the minimum of the model but between it and the best weights so
far, where F is lowest (Franc & Sonnenburg 2009): with weak penalties the minima of the model jump
about.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plackett.models.linear.bundle import Bundle
from plackett.models.linear.convergence import Convergence, Planes, Solution
from plackett.models.linear.line_search import Point
from plackett.models.linear.losses import Loss
from plackett.models.linear.products import Weights

_STALLED = 50  # iterations without a smaller gap: C times the scale is too large for float64
_TRIALS = 4  # points between the best weights and the model's minimum


@dataclass
class _Run:
    loss: Loss
    C: float
    best: Point
    evaluations: int = 0

    def evaluate(self, weights: Weights) -> Point:
        self.evaluations += 1
        return Point(weights, *self.loss.evaluate(weights))

    def total(self, at: Point) -> float:
        return at.value + float(at.weights @ at.weights) / self.C

    def between(self, target: Weights) -> list[Point]:
        """Points where to take tangents: the lowest of the way found, and one beyond it."""
        origin, way = self.best, target - self.best.weights
        low, high, share = 0.0, 1.0, 1.0
        points: list[Point] = []
        for _ in range(_TRIALS):
            point = self.evaluate(origin.weights + share * way)
            points.append(point)
            slope = float((point.gradient + 2.0 * point.weights / self.C) @ way)
            low, high = (low, share) if slope > 0.0 else (share, high)
            if self.total(point) < self.total(self.best) or slope <= 0.0:
                break
            share = 0.5 * (low + high) if low > 0.0 else 0.25 * high
        self.best = min([self.best, *points], key=self.total)
        return points


def minimise_by_planes(
    loss: Loss,
    start: Weights,
    *,
    C: float,
    max_iterations: int,
    gap: float,
    planes: Planes | None = None,
) -> Solution:
    """Minimise a convex, non-negative loss plus ||w||^2 / C to a relative gap.

    Parameters
    ----------
    loss
        Gives a subgradient.
    start
        Where to take the first tangent.
    C, max_iterations
        The penalty; when to give up.
    gap
        Of the best value and the lower bound, as part of the value, to stop at.
    planes
        Tangents of this loss found before, with any penalty.
    """
    bundle = Bundle(len(start), C, planes)
    run = _Run(loss, C, Point(start, *loss.evaluate(start)), 1)
    bundle.add(run.best)
    trace: list[float] = []
    lower, smallest, since = bundle.lower, np.inf, 0
    while run.total(run.best) - lower > gap * run.total(run.best) and len(trace) < max_iterations:
        for point in run.between(bundle.weights):
            bundle.add(point)
        lower = max(lower, bundle.lower)
        trace.append(run.total(run.best))
        bundle.forget()
        open_gap = run.total(run.best) - lower
        if open_gap < (1.0 - 1e-6) * smallest:
            smallest, since = open_gap, len(trace)
        if len(trace) - since >= _STALLED:
            break
    return Solution(run.best.weights, _report(run, lower, gap, trace), bundle.counting)


def _report(run: _Run, lower: float, gap: float, trace: list[float]) -> Convergence:
    value = run.total(run.best)
    reached = (value - lower) / value if value > 0.0 else 0.0
    converged = reached <= gap
    reason = "the duality gap is closed" if converged else "the duality gap stays open"
    counts = (len(trace), run.evaluations)
    return Convergence(
        "cutting planes", converged, reason, *counts, value, np.nan, reached, tuple(trace)
    )
