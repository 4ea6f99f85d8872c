r"""The hinge over pairs (RankSVM), smoothed until a duality gap certifies the result.

The hinge of a pair with margin :math:`m = 1 - (s_i - s_j)` is replaced by

.. math:: h_\mu(m) = \frac{\max(0, m)^2 - \max(0, m - \mu)^2}{2\mu}

(a parabola on :math:`[0, \mu]`, then a straight line of slope 1), which lies at most :math:`\mu/2`
below it. Both squares are squared hinges, the second one with margin :math:`1 - \mu`, so a step
costs O(n log n) per list (:mod:`plackett.models.linear.smooth_pairs`).

**Certificate.** The smoothed loss lies below the hinge, and its tangents below both: every step
gives a plane, and the planes a lower bound on the minimum (:mod:`plackett.models.linear.bundle`).
Where the smoothing has the larger part in the gap, :math:`\mu` is lowered; otherwise the smoothed
problem is solved more exactly, each time from the weights reached.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from plackett.base.ragged import Scores
from plackett.data.dataset import Dataset
from plackett.models.linear.bundle import Bundle
from plackett.models.linear.convergence import Convergence, Planes, Solution
from plackett.models.linear.lbfgs import minimise
from plackett.models.linear.line_search import Point
from plackett.models.linear.losses import DenseLoss, ScoreLoss, bound, is_sparse
from plackett.models.linear.products import Weights, times
from plackett.models.linear.smooth_pairs import SmoothPairs
from plackett.objectives import RankSVM

_WIDEST, _NARROWER, _NARROWEST = 0.3, 4.0, 1e-5  # the parabola: first, each next, last
_SHARE, _SHARPER, _SHARPEST = 0.1, 30.0, 1e-17  # of the gap, allowed to the smoothed problem
_PLANES = 100  # for the certificate: the last ones


class SmoothHinge:
    """The smoothed hinge as a function of the weights."""

    def __init__(self, data: Dataset, width: float) -> None:
        self.data = data
        kind = ScoreLoss if is_sparse(data) else DenseLoss
        self._smooth = kind(SmoothPairs(width), data)
        self._hinge = bound(RankSVM(), data)

    def evaluate(self, weights: Weights) -> tuple[float, Weights]:
        return self._smooth.evaluate(weights)

    def curvature(self, weights: Weights) -> Scores:
        return self._smooth.curvature(weights)

    def hinge(self, weights: Weights) -> float:
        """The hinge itself."""
        return float(np.sum(self._hinge.evaluate(times(self.data.features, weights)).values))


class _Recorder:
    """A loss that keeps the tangents at the last points it was evaluated at."""

    def __init__(self, loss: SmoothHinge, points: deque[Point]) -> None:
        self.data, self.curvature = loss.data, loss.curvature
        self._loss, self._points = loss, points

    def evaluate(self, weights: Weights) -> tuple[float, Weights]:
        value, gradient = self._loss.evaluate(weights)
        self._points.append(Point(weights, value, gradient))
        return value, gradient


@dataclass
class _Search:
    """How far the search is."""

    data: Dataset
    C: float
    gap: float
    weights: Weights
    value: float = np.inf
    lower: float = 0.0
    width: float = _WIDEST
    share: float = _SHARE
    iterations: int = 0
    evaluations: int = 0
    norm: float = np.inf
    trace: list[float] = field(default_factory=list)
    points: deque[Point] = field(default_factory=lambda: deque(maxlen=_PLANES))

    @property
    def closed(self) -> bool:
        return self.value < np.inf and self.value - self.lower <= self.gap * self.value

    def stage(self, left: int) -> bool:
        """Solve one smoothed problem; whether there is another one to try."""
        loss = SmoothHinge(self.data, self.width)
        before = min(self.value, self._total(loss, self.weights))
        found = minimise(
            _Recorder(loss, self.points),
            self.weights,
            C=self.C,
            max_iterations=left,
            tolerance=0.0,
            enough=self.share * self.gap * before,
        )
        report = found.convergence
        self.iterations += report.iterations
        self.evaluations += report.evaluations
        self.norm = report.gradient_norm
        self.trace.extend(report.trace)
        value = self._total(loss, found.weights)
        if value < self.value:
            self.value, self.weights = value, found.weights
        self._raise_lower()
        if value - report.value >= report.value - self.lower:
            self.width /= _NARROWER
        else:
            self.share /= _SHARPER
        return self.width >= _NARROWEST and self.share >= _SHARPEST

    def _total(self, loss: SmoothHinge, weights: Weights) -> float:
        return loss.hinge(weights) + float(weights @ weights) / self.C

    def _raise_lower(self) -> None:
        a = np.array([point.gradient for point in self.points])
        b = np.array([point.value - point.gradient @ point.weights for point in self.points])
        bundle = Bundle(len(self.weights), self.C, Planes(a, b))
        self.lower = max(self.lower, bundle.lower)


def minimise_hinge(
    data: Dataset, start: Weights, *, C: float, max_iterations: int, gap: float
) -> Solution:
    """Minimise the hinge over pairs plus ||w||^2 / C to a relative duality gap.

    Parameters
    ----------
    data
        Lists with features.
    start
        Where to begin.
    C, max_iterations
        The penalty; when to give up.
    gap
        Of value and lower bound, as part of the value, to stop at.
    """
    search = _Search(data, C, gap, start)
    going = True
    while going and not search.closed and search.iterations < max_iterations:
        going = search.stage(max_iterations - search.iterations)
    reached = (search.value - search.lower) / search.value if search.value > 0.0 else 0.0
    reason = "the duality gap is closed" if search.closed else "the duality gap stays open"
    counts = (search.iterations, search.evaluations)
    trace = tuple(search.trace)
    ends = (search.value, search.norm, reached)
    report = Convergence("smoothed hinge", search.closed, reason, *counts, *ends, trace)
    return Solution(search.weights, report)
