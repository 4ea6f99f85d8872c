r"""Cutting planes for convex objectives with kinks (SVM-MAP), to a certified gap.

At weights :math:`w_t` a convex L lies above its tangent :math:`a_t \cdot w + b_t`. So the *model* :math:`\max_t (a_t
\cdot w + b_t) + \lVert w \rVert^2/C` lies below :math:`F = L + \lVert w\rVert^2/C`, and its minimum is a lower bound.
By duality this minimum is the maximum of

.. math:: b \cdot \alpha - \frac{C}{4} \lVert A^\top \alpha \rVert^2, \qquad \alpha \ge 0,\;
    \sum \alpha = 1, \qquad w = -\frac{C}{2} A^\top \alpha,

a quadratic program with one variable per plane (:func:`maximize_on_simplex`). This is the structural SVM with one slack
for all lists (Joachims, Finley & Yu 2009): a few hundred planes suffice for any number of lists, and they are valid for
any penalty. The next tangent is taken where F is lowest between the minimum of the model and the best weights so far
(Franc & Sonnenburg 2009).
"""

import numpy as np
from numpy.typing import NDArray

from plackett.models.linear.convergence import Convergence, Iterate, Planes, Solution, Weights
from plackett.models.linear.loss import LinearLoss

_STALLED = 50  # iterations without a smaller gap: C times the scale is too large for float64
_TRIALS = 4  # points between the best weights and the model's minimum

Vector = NDArray[np.float64]


def minimize_by_planes(
    loss: LinearLoss, start: Weights, *, C: float, max_iterations: int, gap: float, planes: Planes | None = None
) -> Solution:
    """Minimize a convex, non-negative loss plus ||w||^2 / C to a relative gap; start from known tangents, if any."""
    bundle = Bundle(len(start), C, planes)
    best = Iterate(start, *loss.evaluate(start))
    bundle.add(best)
    value, evaluations, trace = _add_penalty(best, C), 1, list[float]()
    lower, smallest, smallest_at = bundle.lower, np.inf, 0
    while value - lower > gap * value and len(trace) < max_iterations:
        points = _evaluate_towards(bundle.weights, best, loss, C)
        for point in points:
            bundle.add(point)
        evaluations += len(points)
        best = min([best, *points], key=lambda point: _add_penalty(point, C))
        value, lower = _add_penalty(best, C), max(lower, bundle.lower)
        trace.append(value)
        bundle.drop_idle()
        if value - lower < (1.0 - 1e-6) * smallest:
            smallest, smallest_at = value - lower, len(trace)
        if len(trace) - smallest_at >= _STALLED:
            break
    reached = 0.0 if value <= 0.0 else (value - lower) / value  # NaN stays NaN
    end = ("cutting planes", reached <= gap, describe_gap(reached <= gap), len(trace), evaluations)
    report = Convergence(*end, value, np.nan, reached, tuple(trace))
    return Solution(best.weights, report, bundle.active_planes)


def describe_gap(closed: bool) -> str:
    """The reason why a solver with a duality gap stopped."""
    return "the duality gap is closed" if closed else "the duality gap stays open"


def _add_penalty(point: Iterate, C: float) -> float:
    return point.value + float(point.weights @ point.weights) / C


def _evaluate_towards(target: Weights, best: Iterate, loss: LinearLoss, C: float) -> list[Iterate]:
    """Evaluate up to four points between the best one and the target."""
    way = target - best.weights
    low, high, share = 0.0, 1.0, 1.0
    points: list[Iterate] = []
    for _ in range(_TRIALS):
        weights = best.weights + share * way
        point = Iterate(weights, *loss.evaluate(weights))
        points.append(point)
        slope = float((point.gradient + 2.0 * point.weights / C) @ way)
        low, high = (low, share) if slope > 0.0 else (share, high)
        if _add_penalty(point, C) < _add_penalty(best, C) or slope <= 0.0:
            break
        share = 0.5 * (low + high) if low > 0.0 else 0.25 * high
    return points


_RECENT = 30  # the newest planes are always kept
_MAX_PLANES = 150  # beyond it, idle planes are dropped


class Bundle:
    """Planes below a convex function (the first is zero), and the minimum of their maximum plus the penalty."""

    def __init__(self, n_features: int, C: float, planes: Planes | None = None) -> None:
        self.C = C
        if planes is None:
            planes = Planes(np.empty((0, n_features)), np.empty(0))
        self.A: NDArray[np.float64] = np.vstack([np.zeros(n_features), planes.a])
        self.b: Vector = np.append(0.0, planes.b)
        self.alpha: Vector = np.append(1.0, np.zeros(len(planes.b)))
        self._squares: NDArray[np.float64] = self.A @ self.A.T
        self._solve()

    def add(self, point: Iterate) -> None:
        """Add the tangent at a point, whose value and gradient are without the penalty."""
        self.A = np.vstack([self.A, point.gradient])
        self.b = np.append(self.b, point.value - float(point.gradient @ point.weights))
        column = self.A @ point.gradient
        n = len(self.b)
        squares = np.empty((n, n))
        squares[:-1, :-1], squares[-1], squares[:, -1] = self._squares, column, column
        self._squares = squares
        self.alpha = np.append(self.alpha, 0.0)
        self._solve()

    def drop_idle(self) -> None:
        """Drop planes that are not active at the minimum, the oldest first."""
        idle = np.flatnonzero(self.alpha[:-_RECENT] == 0.0)[: max(0, len(self.b) - _MAX_PLANES)]
        if len(idle):
            kept = np.setdiff1d(np.arange(len(self.b)), idle)
            self.A, self.b, self.alpha = self.A[kept], self.b[kept], self.alpha[kept]
            self._squares = self._squares[np.ix_(kept, kept)]

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
    def active_planes(self) -> Planes:
        """The planes that touch the minimum."""
        active = np.flatnonzero(self.alpha > 0.0)
        return Planes(self.A[active], self.b[active])

    def _solve(self) -> None:
        self.alpha = maximize_on_simplex(0.5 * self.C * self._squares, self.b, self.alpha)


_RIDGE = 1e-12  # relative to the largest diagonal element: planes can be nearly equal
_GAIN = 1e-12  # relative: a component enters only if its gain is higher by more
_MAX_CHANGES = 20  # for each component


def maximize_on_simplex(Q: NDArray[np.float64], b: Vector, start: Vector) -> Vector:
    r"""Maximize :math:`b \cdot \alpha - \tfrac12 \alpha^\top Q \alpha` over the simplex, Q positive semi-definite.

    An active-set method: on the set of positive components the maximum solves a linear system. If a component would
    become negative, the step stops where the first one becomes zero, and that one leaves the set. Otherwise the
    component with the highest gain enters, until no gain is higher than those in the set, up to rounding.
    """
    alpha = start.copy()
    active = alpha > 0.0
    Q = Q + np.eye(len(b)) * (_RIDGE * max(float(np.max(np.diag(Q))), 1e-300))
    for _ in range(_MAX_CHANGES * len(b)):
        target = _solve_on_face(Q, b, active)
        alpha, hit = _move_towards(alpha, target, active)
        if hit >= 0:
            active[hit] = False
            if active.any():
                continue
            active[hit] = True  # rounding can empty the set; keep its last component
            alpha = active.astype(np.float64)
        slope = b - Q @ alpha
        level = float(np.max(slope[active]))
        outside = np.where(active, -np.inf, slope)
        entering = int(np.argmax(outside))
        size = float(np.max(np.abs(b)) + np.max(np.abs(slope))) + 1e-300
        if outside[entering] <= level + _GAIN * size:
            break
        active[entering] = True
    total = float(alpha.sum())
    return np.asarray(alpha / total) if total > 0.0 else start.copy()


def _solve_on_face(Q: NDArray[np.float64], b: Vector, active: NDArray[np.bool_]) -> Vector:
    """Solve for the maximum where the active components sum to 1 and may have any sign."""
    indices = np.flatnonzero(active)
    k = len(indices)
    system = np.ones((k + 1, k + 1))
    # Scaled by Q's size: rounding would hide a tiny Q next to the border of ones.
    size = max(float(np.max(np.diag(Q)[indices])), 1e-300)
    system[:k, :k] = Q[np.ix_(indices, indices)] / size
    system[k, k] = 0.0
    right = np.append(b[indices] / size, 1.0)
    try:
        solution = np.linalg.solve(system, right)
    except np.linalg.LinAlgError:
        solution = np.linalg.lstsq(system, right, rcond=None)[0]
    target = np.zeros(len(b))
    target[indices] = solution[:k]
    return target


def _move_towards(alpha: Vector, target: Vector, active: NDArray[np.bool_]) -> tuple[Vector, int]:
    """Move to the target, or until a component vanishes; return its index too, or -1."""
    falling = active & (target < 0.0)
    if not falling.any():
        return target, -1
    steps = np.full(len(alpha), np.inf)
    steps[falling] = alpha[falling] / (alpha[falling] - target[falling])
    hit = int(np.argmin(steps))
    moved = alpha + steps[hit] * (target - alpha)
    moved[hit] = 0.0
    return np.maximum(moved, 0.0), hit
