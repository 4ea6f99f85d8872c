r"""The hinge over pairs (RankSVM), smoothed until a duality gap certifies the result.

The hinge of a pair with margin :math:`m = 1 - (s_i - s_j)` is replaced by

.. math:: h_\mu(m) = \frac{\max(0, m)^2 - \max(0, m - \mu)^2}{2\mu}

(a parabola on :math:`[0, \mu]`, then a line of slope 1), which lies at most :math:`\mu/2` below it.

**Certificate.** The tangents of the smoothed loss lie below the hinge too. So every evaluation gives a plane, and the
planes give a lower bound on the minimum (:class:`Bundle`). If most of the gap comes from the smoothing, :math:`\mu` is
lowered; otherwise the smoothed problem is solved more exactly.

**Cost.** Both squares are squared hinges, the second with margin :math:`1 - \mu`, so an evaluation costs O(n log n)
per list, as in :mod:`plackett.objectives.hinge`. With number N, sum S and sum of squares T of :math:`\max(0, m)` over
the pairs of a document, and N', S', T' those of :math:`\max(0, m - \mu)`,

.. math:: \ell = \sum \frac{T - T'}{2\mu}, \qquad
    \frac{\partial\ell}{\partial s} = \pm\frac{S - S'}{\mu}, \qquad
    \frac{\partial^2\ell}{\partial s^2} = \frac{N - N'}{\mu}.

The curvature is at least a thousandth of :math:`N/\mu`, for documents that the next step moves onto the parabola.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from plackett.base.kernels import ListFunction, list_function
from plackett.data.dataset import Dataset
from plackett.models.fit_context import bind_objective
from plackett.models.linear.convergence import Convergence, Iterate, Planes, Solution, Weights
from plackett.models.linear.cutting_plane import Bundle, describe_gap
from plackett.models.linear.lbfgs import minimize
from plackett.models.linear.loss import make_loss, matvec
from plackett.objectives import RankSVM
from plackett.objectives.driver import LIST_FUNCTION, Weighting, document_weights
from plackett.objectives.hinge import add_hinges
from plackett.objectives.objective import Objective

_WIDTH, _NARROWING, _MIN_WIDTH = 0.3, 4.0, 1e-6  # the parabola: first width, factor, last width
_SHARE, _SHARPENING, _MIN_SHARE = 0.1, 30.0, 1e-17  # part of the gap that a stage may leave open
_PLANES = 100  # the certificate uses the last ones


def minimize_hinge(data: Dataset, start: Weights, *, C: float, max_iterations: int, gap: float) -> Solution:
    """Minimize the hinge over pairs plus ||w||^2 / C to a relative duality gap: a part of the value."""
    weights, value, lower = start, np.inf, 0.0  # the best so far, and a bound on the minimum
    width, share, norm, evaluations = _WIDTH, _SHARE, np.inf, 0
    trace: list[float] = []
    points: deque[Iterate] = deque(maxlen=_PLANES)
    is_closed = False
    while not is_closed and len(trace) < max_iterations and width >= _MIN_WIDTH and share >= _MIN_SHARE:
        loss = SmoothHinge(data, width, points)
        value_before = min(value, loss.hinge(weights) + float(weights @ weights) / C)
        limits: Any = {"max_iterations": max_iterations - len(trace), "tolerance": 0.0}
        solution = minimize(loss, weights, C=C, **limits, value_tolerance=share * gap * value_before)
        report = solution.convergence
        evaluations += report.evaluations
        norm = report.gradient_norm
        trace.extend(report.trace)
        new_value = loss.hinge(solution.weights) + float(solution.weights @ solution.weights) / C
        if new_value < value:
            value, weights = new_value, solution.weights
        a = np.array([point.gradient for point in points])
        b = np.array([point.value - point.gradient @ point.weights for point in points])
        lower = max(lower, Bundle(len(weights), C, Planes(a, b)).lower)
        if new_value - report.value >= report.value - lower:
            width /= _NARROWING
        else:
            share /= _SHARPENING
        is_closed = value < np.inf and value - lower <= gap * value
    reached = (value - lower) / value if value > 0.0 else 0.0
    end = ("smoothed hinge", is_closed, describe_gap(is_closed))
    return Solution(weights, Convergence(*end, len(trace), evaluations, value, norm, reached, tuple(trace)))


class SmoothHinge:
    """The hinge smoothed over ``width`` as a function of the weights; ``points`` record its tangents."""

    def __init__(self, data: Dataset, width: float, points: deque[Iterate] | None = None) -> None:
        self.data = data
        self._smooth = make_loss(SmoothPairs(width), data)
        self.curvature = self._smooth.curvature
        self._hinge = bind_objective(RankSVM(), data)
        self._points = points

    def evaluate(self, weights: Weights) -> tuple[float, Weights]:
        value, gradient = self._smooth.evaluate(weights)
        if self._points is not None:
            self._points.append(Iterate(weights, value, gradient))
        return value, gradient

    def hinge(self, weights: Weights) -> float:
        """The hinge without smoothing."""
        return float(np.sum(self._hinge.evaluate(matvec(self.data.features, weights)).values))


@list_function(LIST_FUNCTION)
def smooth_pairs_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Value, gradient and curvature; params: the width, prepared: document weights, if any."""
    weights = document_weights(prepared, len(scores), 0)
    return add_hinges(scores, labels, weights, False, params[0], gradient, curvature)


@dataclass(frozen=True)
class SmoothPairs(Objective):
    """The smoothed hinge over all pairs with different labels."""

    name: ClassVar[str] = "smoothed hinge"
    convex: ClassVar[bool] = True
    weighting: ClassVar[Weighting | None] = "order"
    function: ClassVar[ListFunction] = smooth_pairs_list

    width: float = 0.1
    """Width of the parabola between the flat part and the slope."""
