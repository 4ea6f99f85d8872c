r"""Planes below a convex function, and the minimum of their maximum plus a penalty.

At weights :math:`w_t` a convex L lies above its tangent :math:`a_t \cdot w + b_t`. So :math:`\max_t
(a_t \cdot w + b_t) + \lVert w \rVert^2/C` is below :math:`F = L + \lVert w\rVert^2/C`, and its
minimum is a lower bound on that of F. It is the maximum of the dual

.. math:: b \cdot \alpha - \frac{C}{4} \lVert A^\top \alpha \rVert^2, \qquad \alpha \ge 0,\;
    \sum \alpha = 1, \qquad w = -\frac{C}{2} A^\top \alpha,

a quadratic program in as many variables as there are planes. No loss here is negative: that is the
first plane.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plackett.models.linear.convergence import Planes
from plackett.models.linear.line_search import Point
from plackett.models.linear.products import Weights
from plackett.models.linear.simplex import Vector, maximise_on_simplex

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
        self.alpha = maximise_on_simplex(0.5 * self.C * self._squares, self.b, self.alpha)
