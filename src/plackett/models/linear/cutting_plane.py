r"""Cutting planes for convex objectives with kinks (SVM-MAP), to a certified gap.

This is the structural SVM with one slack for all lists (Joachims, Finley & Yu 2009): a plane is the
sum of the most violated constraints of all lists, so some hundreds of planes do for any number of
lists. Planes do not depend on the penalty: along a path of penalties they are handed on.

The next tangent is not taken at the minimum of the model but between it and the best weights so
far, where F is lowest (Franc & Sonnenburg 2009): with weak penalties the minima of the model jump
about.

A small quadratic program over the simplex, by an active-set method.

.. math:: \max_{\alpha}\; b \cdot \alpha - \tfrac12 \alpha^\top Q \alpha \quad\text{with}\quad
    \alpha \ge 0,\; \sum \alpha = 1

It keeps a set of positive components. On it the constraints are equations, and the maximum solves a
linear system; if a component would become negative, the step stops where the first one vanishes,
and that one leaves the set. Otherwise the component whose gain is highest enters, until none is
higher than those of the set. The method ends at the exact maximum after finitely many changes, a
handful if begun at the maximum of a program with one component less.

Planes below a convex function, and the minimum of their maximum plus a penalty.

At weights :math:`w_t` a convex L lies above its tangent :math:`a_t \cdot w + b_t`. So :math:`\max_t
(a_t \cdot w + b_t) + \lVert w \rVert^2/C` is below :math:`F = L + \lVert w\rVert^2/C`, and its
minimum is a lower bound on that of F. It is the maximum of the dual

.. math:: b \cdot \alpha - \frac{C}{4} \lVert A^\top \alpha \rVert^2, \qquad \alpha \ge 0,\;
    \sum \alpha = 1, \qquad w = -\frac{C}{2} A^\top \alpha,

a quadratic program in as many variables as there are planes. No loss here is negative: that is the
first plane.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plackett.models.linear.lbfgs import Convergence, Planes, Point, Solution
from plackett.models.linear.loss import Loss, Weights

_RIDGE = 1e-12  # of the largest diagonal element: planes that are nearly copies of each other
_GAIN = 1e-12  # relative: a component whose gain is higher by less does not enter
_CHANGES = 20  # for each component, at most

Vector = NDArray[np.float64]


def maximize_on_simplex(
    Q: NDArray[np.float64], b: Vector, start: Vector, *, gain: float = _GAIN
) -> Vector:
    """The maximiser.

    Parameters
    ----------
    Q
        Symmetric and positive semi-definite.
    b
        The linear part.
    start
        A point of the simplex to begin from.
    gain
        Optimality, relative to the size of the gradient.
    """
    alpha = start.copy()
    active = alpha > 0.0
    Q = Q + np.eye(len(b)) * (_RIDGE * max(float(np.max(np.diag(Q))), 1e-300))
    for _ in range(_CHANGES * len(b)):
        target = _on_face(Q, b, active)
        alpha, hit = _towards(alpha, target, active)
        if hit >= 0:
            active[hit] = False
            if active.any():
                continue
            active[hit] = True  # rounding alone can empty the set: it keeps its last component
            alpha = active.astype(np.float64)
        slope = b - Q @ alpha
        level = float(np.max(slope[active]))
        outside = np.where(active, -np.inf, slope)
        entering = int(np.argmax(outside))
        size = float(np.max(np.abs(b)) + np.max(np.abs(slope))) + 1e-300
        if outside[entering] <= level + gain * size:
            break
        active[entering] = True
    total = float(alpha.sum())
    return np.asarray(alpha / total) if total > 0.0 else start.copy()


def _on_face(Q: NDArray[np.float64], b: Vector, active: NDArray[np.bool_]) -> Vector:
    """The maximum where the active components sum to 1 and may have any sign."""
    at = np.flatnonzero(active)
    k = len(at)
    system = np.ones((k + 1, k + 1))
    # In units of Q's size: a tiny Q beside the border of ones would be lost in rounding.
    size = max(float(np.max(np.diag(Q)[at])), 1e-300)
    system[:k, :k] = Q[np.ix_(at, at)] / size
    system[k, k] = 0.0
    right = np.append(b[at] / size, 1.0)
    try:
        solved = np.linalg.solve(system, right)
    except np.linalg.LinAlgError:
        solved = np.linalg.lstsq(system, right, rcond=None)[0]
    target = np.zeros(len(b))
    target[at] = solved[:k]
    return target


def _towards(alpha: Vector, target: Vector, active: NDArray[np.bool_]) -> tuple[Vector, int]:
    """Move to the target, or to where the first component vanishes; which one, or -1."""
    falling = active & (target < 0.0)
    if not falling.any():
        return target, -1
    steps = np.full(len(alpha), np.inf)
    steps[falling] = alpha[falling] / (alpha[falling] - target[falling])
    hit = int(np.argmin(steps))
    moved = alpha + steps[hit] * (target - alpha)
    moved[hit] = 0.0
    return np.maximum(moved, 0.0), hit


_RECENT = 30  # planes that are kept in any case
_MOST = 150  # planes, as long as there are idle ones to drop


class Bundle:
    """The planes so far and the minimum of their maximum."""

    def __init__(self, n_features: int, C: float, planes: Planes | None = None) -> None:
        self.C = C
        given = Planes(np.empty((0, n_features)), np.empty(0)) if planes is None else planes
        self.A: NDArray[np.float64] = np.vstack([np.zeros(n_features), given.a])
        self.b: Vector = np.append(0.0, given.b)
        self.alpha: Vector = np.append(1.0, np.zeros(len(given.b)))
        self._squares: NDArray[np.float64] = self.A @ self.A.T
        if planes is not None:
            self.solve()

    def add(self, loss: Point) -> None:
        """Add the tangent at a point, with value and gradient without the penalty."""
        self.A = np.vstack([self.A, loss.gradient])
        self.b = np.append(self.b, loss.value - float(loss.gradient @ loss.weights))
        column = self.A @ loss.gradient
        n = len(self.b)
        grown = np.empty((n, n))
        grown[:-1, :-1], grown[-1], grown[:, -1] = self._squares, column, column
        self._squares = grown
        self.alpha = np.append(self.alpha, 0.0)
        self.solve()

    def forget(self) -> None:
        """Drop planes that do not count at the minimum, the oldest first."""
        idle = np.flatnonzero(self.alpha[:-_RECENT] == 0.0)[: max(0, len(self.b) - _MOST)]
        if len(idle):
            stay = np.setdiff1d(np.arange(len(self.b)), idle)
            self.A, self.b, self.alpha = self.A[stay], self.b[stay], self.alpha[stay]
            self._squares = self._squares[np.ix_(stay, stay)]

    @property
    def weights(self) -> Weights:
        """Where the minimum is."""
        return np.asarray(-0.5 * self.C * (self.alpha @ self.A))

    @property
    def lower(self) -> float:
        """The minimum: a lower bound."""
        v = self.alpha @ self.A
        return max(0.0, float(self.b @ self.alpha - 0.25 * self.C * (v @ v)))

    @property
    def counting(self) -> Planes:
        """The planes that touch the minimum."""
        at = np.flatnonzero(self.alpha > 0.0)
        return Planes(self.A[at], self.b[at])

    def solve(self) -> None:
        """Find the minimum anew."""
        self.alpha = maximize_on_simplex(0.5 * self.C * self._squares, self.b, self.alpha)


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


def minimize_by_planes(
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
