r"""The hinge over pairs (RankSVM), smoothed until a duality gap certifies the result.

The hinge of a pair with margin :math:`m = 1 - (s_i - s_j)` is replaced by

.. math:: h_\mu(m) = \frac{\max(0, m)^2 - \max(0, m - \mu)^2}{2\mu}

(a parabola on :math:`[0, \mu]`, then a straight line of slope 1), which lies at most :math:`\mu/2`
below it. Both squares are squared hinges, the second one with margin :math:`1 - \mu`, so a step
costs O(n log n) per list (:mod:`plackett.models.linear.hinge`).

**Certificate.** The smoothed loss lies below the hinge, and its tangents below both: every step
gives a plane, and the planes a lower bound on the minimum (:class:`Bundle`).
Where the smoothing has the larger part in the gap, :math:`\mu` is lowered; otherwise the smoothed
problem is solved more exactly, each time from the weights reached.

The smoothed hinge over pairs of one list, in O(n log n).

As in :mod:`plackett.objectives.ranksvm`, documents enter a tree of sums over the ranks of the
scores, level by level; each asks it for the pairs whose scores differ by less than 1, and by less
than :math:`1 - \mu`. With number N, sum S and sum of squares T of :math:`\max(0, m)` over the pairs
of a document, and N', S', T' the same of :math:`\max(0, m - \mu)`,

.. math:: \ell = \sum \frac{T - T'}{2\mu}, \qquad
    \frac{\partial\ell}{\partial s} = \pm\frac{S - S'}{\mu}, \qquad
    \frac{\partial^2\ell}{\partial s^2} = \frac{N - N'}{\mu}.

The curvature is at least a thousandth of :math:`N/\mu`: pairs on the parabola alone would leave out
documents that the next step brings onto it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from plackett.base.kernels import ListFunction, compiled, list_function
from plackett.base.ragged import Scores
from plackett.data.dataset import Dataset
from plackett.models.linear.cutting_plane import Bundle
from plackett.models.linear.lbfgs import Convergence, Planes, Point, Solution, minimize
from plackett.models.linear.loss import DenseLoss, ScoreLoss, Weights, bound, is_sparse, times
from plackett.objectives import RankSVM
from plackett.objectives.bound import Weighting, document_weights
from plackett.objectives.driver import LIST_FUNCTION
from plackett.objectives.objective import Objective
from plackett.objectives.ranksvm import MARGIN, enter_score, fill_reach, sum_margins

_FLOOR = 1e-3


@compiled
def _add_pairs(  # type: ignore[no-untyped-def]
    scores, places, labels, weights, by_label, reaches, width, side, gradient, curvature
):
    """One pass over the levels; side is 1 for the lower documents of pairs, -1 for the higher."""
    n = len(scores)
    tree = np.zeros((n + 1, 3))
    value = 0.0
    start = 0
    while start < n:
        stop = start
        while stop < n and labels[by_label[stop]] == labels[by_label[start]]:
            stop += 1
        for i in by_label[start:stop]:
            distance = MARGIN + side * scores[i]
            count, margins, squares = sum_margins(tree, reaches[0, places[i]], distance)
            far, above, beyond = sum_margins(tree, reaches[1, places[i]], distance - width)
            own = weights[i] if side < 0 else 1.0
            value += (squares - beyond) / (2.0 * width)
            gradient[i] += own * side * (margins - above) / width
            curvature[i] += own * max(count - far, _FLOOR * count) / width
        for i in by_label[start:stop]:
            own = weights[i] if side > 0 else 1.0
            enter_score(tree, places[i], -side * scores[i], own)
        start = stop
    return value


@list_function(LIST_FUNCTION)
def smooth_pairs_list(scores, labels, extra, key, params, gradient, curvature):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Value, gradient and curvature; params: width of the parabola, extra: weights, if any."""
    n, width, weights = len(scores), params[0], document_weights(extra, len(scores), 0)
    order = np.argsort(scores, kind="mergesort")
    centred = scores - scores[order[n // 2]]
    places, reaches = np.empty(n, dtype=np.int64), np.empty((2, n), dtype=np.int64)
    for rank in range(n):
        places[order[rank]] = rank
    by_label = np.argsort(-labels, kind="mergesort")
    ascending = centred[order]
    fill_reach(ascending, MARGIN, reaches[0])
    fill_reach(ascending, MARGIN - width, reaches[1])
    value = _add_pairs(
        centred, places, labels, weights, by_label, reaches, width, 1, gradient, curvature
    )
    # Seen from the other side, the order of scores and the order of labels are both turned round.
    descending = -ascending[::-1].copy()
    fill_reach(descending, MARGIN, reaches[0])
    fill_reach(descending, MARGIN - width, reaches[1])
    turned = by_label[::-1].copy()
    turned_places = n - 1 - places
    _add_pairs(
        centred, turned_places, labels, weights, turned, reaches, width, -1, gradient, curvature
    )
    return value


@dataclass(frozen=True)
class SmoothPairs(Objective):
    """The smoothed hinge over all pairs with different labels."""

    name: ClassVar[str] = "smoothed hinge"
    convex: ClassVar[bool] = True
    weighting: ClassVar[Weighting | None] = "order"

    width: float = 0.1
    """Of the parabola between the flat part and the slope."""

    @property
    def function(self) -> ListFunction:
        return smooth_pairs_list

    @property
    def params(self) -> tuple[float, ...]:
        return (self.width,)


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
        found = minimize(
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


def minimize_hinge(
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
