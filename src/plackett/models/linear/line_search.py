r"""A step length that satisfies the weak Wolfe conditions, by doubling and bisection.

.. math:: F(w + tp) \le F(w) + c_1 t\, \nabla F \cdot p, \qquad
    \nabla F(w + tp) \cdot p \ge c_2 \nabla F \cdot p

The first makes the value fall, the second keeps quasi-Newton matrices positive definite. Bisection
needs no smoothness (Lewis & Overton 2013). Where the change of the value is lost in rounding, the
first condition is read off the slopes instead, which are exact much longer: the value falls if
:math:`\nabla F(w + tp) \cdot p \le (2 c_1 - 1) \nabla F \cdot p` (Hager & Zhang 2005).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from plackett.models.linear.products import Weights

_DESCENT, _CURVATURE = 1e-4, 0.9
_TRIALS = 20
_ROUNDING = 1e-11  # of the value: what rounding may hide


class Point(NamedTuple):
    """Weights with value and gradient there."""

    weights: Weights
    value: float
    gradient: Weights


Function = Callable[[Weights], Point]


def search(function: Function, start: Point, direction: Weights) -> Point:
    """The next point along a direction of descent; the start itself if there is none."""
    slope = float(start.gradient @ direction)
    low, high, t = 0.0, np.inf, 1.0
    best = start
    for _ in range(_TRIALS):
        point = function(start.weights + t * direction)
        there = float(point.gradient @ direction)
        if not _falls(start.value, slope, t, point.value, there):
            high = t
        elif there < _CURVATURE * slope:
            low, best = t, point
        else:
            return point
        t = 0.5 * (low + high) if np.isfinite(high) else 2.0 * low
    return best


def _falls(value: float, slope: float, t: float, after: float, there: float) -> bool:
    if after <= value + _DESCENT * t * slope:
        return True
    return after <= value + _ROUNDING * abs(value) and there <= (2.0 * _DESCENT - 1.0) * slope
