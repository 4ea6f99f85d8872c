r"""A small quadratic program over the simplex, by an active-set method.

.. math:: \max_{\alpha}\; b \cdot \alpha - \tfrac12 \alpha^\top Q \alpha \quad\text{with}\quad
    \alpha \ge 0,\; \sum \alpha = 1

It keeps a set of positive components. On it the constraints are equations, and the maximum solves a
linear system; if a component would become negative, the step stops where the first one vanishes,
and that one leaves the set. Otherwise the component whose gain is highest enters, until none is
higher than those of the set. The method ends at the exact maximum after finitely many changes, a
handful if begun at the maximum of a program with one component less.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_RIDGE = 1e-12  # of the largest diagonal element: planes that are nearly copies of each other
_GAIN = 1e-12  # relative: a component whose gain is higher by less does not enter
_CHANGES = 20  # for each component, at most

Vector = NDArray[np.float64]


def maximise_on_simplex(
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
