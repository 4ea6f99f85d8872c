r"""The hinge over pairs (RankSVM), smoothed until a duality gap certifies the result.

The hinge of a pair with margin :math:`m = 1 - (s_i - s_j)` is replaced by

.. math:: h_\mu(m) = \frac{\max(0, m)^2 - \max(0, m - \mu)^2}{2\mu}

(a parabola on :math:`[0, \mu]`, then a line of slope 1), which lies at most :math:`\mu/2` below it.

**Certificate.** The smoothed loss lies below the hinge, and its tangents lie below both. So every
evaluation gives a plane, and the planes give a lower bound on the minimum (:class:`Bundle`). If
most of the gap comes from the smoothing, :math:`\mu` is lowered; otherwise the smoothed problem is
solved more exactly. Each stage starts at the best weights so far.

**Cost.** Both squares are squared hinges, the second with margin :math:`1 - \mu`, so an evaluation
costs O(n log n) per list. As in :mod:`plackett.objectives.hinge`, documents enter a tree of sums
over the ranks of the scores, level by level; each queries it for the pairs whose scores differ by
less than 1, and by less than :math:`1 - \mu`. With number N, sum S and sum of squares T of
:math:`\max(0, m)` over the pairs of a document, and N', S', T' those of :math:`\max(0, m - \mu)`,

.. math:: \ell = \sum \frac{T - T'}{2\mu}, \qquad
    \frac{\partial\ell}{\partial s} = \pm\frac{S - S'}{\mu}, \qquad
    \frac{\partial^2\ell}{\partial s^2} = \frac{N - N'}{\mu}.

The curvature is at least a thousandth of :math:`N/\mu`: the pairs on the parabola alone would leave
out documents that the next step moves onto it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from plackett.base.arithmetic import stable_order
from plackett.base.kernels import ListFunction, compiled, list_function
from plackett.base.ragged import Scores
from plackett.data.dataset import Dataset
from plackett.models.fit_context import bind_objective
from plackett.models.linear.convergence import Convergence, Iterate, Planes, Solution, Weights
from plackett.models.linear.cutting_plane import Bundle, describe_gap
from plackett.models.linear.lbfgs import minimize
from plackett.models.linear.loss import DenseLoss, ScoreLoss, is_sparse, matvec
from plackett.objectives import RankSVM
from plackett.objectives.driver import LIST_FUNCTION, Weighting, document_weights
from plackett.objectives.hinge import MARGIN, enter_score, fill_reach, sum_margins
from plackett.objectives.objective import Objective

_WIDTH, _NARROWING, _MIN_WIDTH = 0.3, 4.0, 1e-6  # the parabola: first width, factor, last width
_SHARE, _SHARPENING, _MIN_SHARE = 0.1, 30.0, 1e-17  # part of the gap that a stage may leave open
_PLANES = 100  # the certificate uses the last ones


def minimize_hinge(data: Dataset, start: Weights, *, C: float, max_iterations: int, gap: float) -> Solution:
    """Minimize the hinge over pairs plus ||w||^2 / C to a relative duality gap: a part of the value."""
    search = _HingeSearch(data, C, gap, start)
    while not search.is_closed and search.iterations < max_iterations:
        if not search.run_stage(max_iterations - search.iterations):
            break
    return Solution(search.weights, search.report())


@dataclass
class _HingeSearch:
    """The best weights so far, and the settings of the next stage."""

    data: Dataset
    C: float
    gap: float
    weights: Weights
    value: float = np.inf
    lower: float = 0.0
    width: float = _WIDTH
    share: float = _SHARE
    iterations: int = 0
    evaluations: int = 0
    norm: float = np.inf
    trace: list[float] = field(default_factory=list)
    points: deque[Iterate] = field(default_factory=lambda: deque(maxlen=_PLANES))

    @property
    def is_closed(self) -> bool:
        return self.value < np.inf and self.value - self.lower <= self.gap * self.value

    def run_stage(self, max_iterations: int) -> bool:
        """Solve one smoothed problem; False if there is no finer one to try."""
        loss = SmoothHinge(self.data, self.width, self.points)
        value_before = min(self.value, self._total(loss, self.weights))
        solution = minimize(
            loss,
            self.weights,
            C=self.C,
            max_iterations=max_iterations,
            tolerance=0.0,
            value_tolerance=self.share * self.gap * value_before,
        )
        report = solution.convergence
        self.iterations += report.iterations
        self.evaluations += report.evaluations
        self.norm = report.gradient_norm
        self.trace.extend(report.trace)
        value = self._total(loss, solution.weights)
        if value < self.value:
            self.value, self.weights = value, solution.weights
        self._raise_lower_bound()
        if value - report.value >= report.value - self.lower:
            self.width /= _NARROWING
        else:
            self.share /= _SHARPENING
        return self.width >= _MIN_WIDTH and self.share >= _MIN_SHARE

    def _total(self, loss: SmoothHinge, weights: Weights) -> float:
        return loss.hinge(weights) + float(weights @ weights) / self.C

    def _raise_lower_bound(self) -> None:
        a = np.array([point.gradient for point in self.points])
        b = np.array([point.value - point.gradient @ point.weights for point in self.points])
        bundle = Bundle(len(self.weights), self.C, Planes(a, b))
        self.lower = max(self.lower, bundle.lower)

    def report(self) -> Convergence:
        gap = (self.value - self.lower) / self.value if self.value > 0.0 else 0.0
        counts, trace = (self.iterations, self.evaluations), tuple(self.trace)
        end = ("smoothed hinge", self.is_closed, describe_gap(self.is_closed))
        return Convergence(*end, *counts, self.value, self.norm, gap, trace)


class SmoothHinge:
    """The smoothed hinge as a function of the weights.

    ``width`` is that of the parabola; ``points`` record the tangent of each evaluation.
    """

    def __init__(self, data: Dataset, width: float, points: deque[Iterate] | None = None) -> None:
        self.data = data
        kind = ScoreLoss if is_sparse(data) else DenseLoss
        self._smooth = kind(SmoothPairs(width), data)
        self._hinge = bind_objective(RankSVM(), data)
        self._points = points

    def evaluate(self, weights: Weights) -> tuple[float, Weights]:
        value, gradient = self._smooth.evaluate(weights)
        if self._points is not None:
            self._points.append(Iterate(weights, value, gradient))
        return value, gradient

    def curvature(self, weights: Weights) -> Scores:
        return self._smooth.curvature(weights)

    def hinge(self, weights: Weights) -> float:
        """The hinge without smoothing."""
        return float(np.sum(self._hinge.evaluate(matvec(self.data.features, weights)).values))


@dataclass(frozen=True)
class SmoothPairs(Objective):
    """The smoothed hinge over all pairs with different labels."""

    name: ClassVar[str] = "smoothed hinge"
    convex: ClassVar[bool] = True
    weighting: ClassVar[Weighting | None] = "order"

    width: float = 0.1
    """Width of the parabola between the flat part and the slope."""

    @property
    def function(self) -> ListFunction:  # type: ignore[override]
        return smooth_pairs_list

    @property
    def params(self) -> tuple[float, ...]:
        return (self.width,)


_FLOOR = 1e-3


@compiled
def _add_pairs(  # type: ignore[no-untyped-def]
    scores, places, labels, weights, by_label, reaches, width, side, gradient, curvature
):
    """Add the pairs seen from their lower documents (side 1) or their higher ones (side -1)."""
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
            weight = weights[i] if side < 0 else 1.0
            value += (squares - beyond) / (2.0 * width)
            gradient[i] += weight * side * (margins - above) / width
            curvature[i] += weight * max(count - far, _FLOOR * count) / width
        for i in by_label[start:stop]:
            weight = weights[i] if side > 0 else 1.0
            enter_score(tree, places[i], -side * scores[i], weight)
        start = stop
    return value


@list_function(LIST_FUNCTION)
def smooth_pairs_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Value, gradient and curvature; params: the width, prepared: document weights, if any."""
    n, width, weights = len(scores), params[0], document_weights(prepared, len(scores), 0)
    order = stable_order(scores, False)
    centered = scores - scores[order[n // 2]]
    places, reaches = np.empty(n, dtype=np.int64), np.empty((2, n), dtype=np.int64)
    for rank in range(n):
        places[order[rank]] = rank
    by_label = stable_order(labels, True)
    ascending = centered[order]
    fill_reach(ascending, MARGIN, reaches[0])
    fill_reach(ascending, MARGIN - width, reaches[1])
    value = _add_pairs(centered, places, labels, weights, by_label, reaches, width, 1, gradient, curvature)
    # From the other side, the order of scores and the order of labels are both reversed.
    descending = -ascending[::-1].copy()
    fill_reach(descending, MARGIN, reaches[0])
    fill_reach(descending, MARGIN - width, reaches[1])
    by_label_reversed = by_label[::-1].copy()
    places_reversed = n - 1 - places
    _add_pairs(centered, places_reversed, labels, weights, by_label_reversed, reaches, width, -1, gradient, curvature)
    return value
