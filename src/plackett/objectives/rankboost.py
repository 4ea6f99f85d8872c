r"""RankBoost's loss: the exponential over pairs with different labels (Freund et al. 2003).

.. math::

    \ell = \sum_{y_i > y_j} e^{-(s_i - s_j)}, \qquad
    \frac{\partial\ell}{\partial s_d} = \mathrm{down}_d - \mathrm{up}_d, \qquad
    \frac{\partial^2\ell}{\partial s_d^2} = \mathrm{down}_d + \mathrm{up}_d

with :math:`\mathrm{up}_d = e^{-s_d} \sum_{y_j < y_d} e^{s_j}` and :math:`\mathrm{down}_d = e^{s_d}
\sum_{y_i > y_d} e^{-s_i}`. It is convex. The pairs factorize, so after sorting by label the cost
is O(n), for any number of levels; the sums are kept as logarithms. The weight of a pair is the
document weight of its better document.

Exponentials saturate: up, down and the value are at most :math:`e^{700}`. The gradient is that of
the value, and sums to zero, as long as none of them saturates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plackett.base.kernels import ListFunction, compiled, list_function
from plackett.objectives.document_weights import Weighting, document_weights
from plackett.objectives.driver import LIST_FUNCTION
from plackett.objectives.objective import Objective

_LARGEST_EXPONENT = 700.0
_LARGEST = np.exp(_LARGEST_EXPONENT)


@compiled
def _fill_partner_sums(scores, labels, weights, order, side, sums):  # type: ignore[no-untyped-def]
    """For each document d, the sum of w exp(side * (s_d - s_e)) over e of the levels before.

    w is the weight of the one with the higher label: d if labels rise (side -1), e if they fall.
    """
    top, total = -np.inf, 0.0  # of the levels before, exp(top) * total
    start = 0
    while start < len(order):
        stop = start
        while stop < len(order) and labels[order[stop]] == labels[order[start]]:
            d = order[stop]
            exponent = top + np.log(total) + side * scores[d] if total > 0.0 else -np.inf
            if side < 0.0 and weights[d] != 1.0:
                exponent += np.log(weights[d])
            sums[d] = np.exp(min(exponent, _LARGEST_EXPONENT))
            stop += 1
        for d in order[start:stop]:
            exponent = -side * scores[d]
            if exponent > top:
                total *= np.exp(top - exponent)
                top = exponent
            total += np.exp(exponent - top) * (weights[d] if side > 0.0 else 1.0)
        start = stop


@list_function(LIST_FUNCTION)
def rankboost_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; prepared: document weights, if any."""
    weights = document_weights(prepared, len(scores), 0)
    order = np.argsort(labels, kind="mergesort")
    up, down = np.empty(len(scores)), np.empty(len(scores))
    _fill_partner_sums(scores, labels, weights, order, -1.0, up)
    _fill_partner_sums(scores, labels, weights, order[::-1].copy(), 1.0, down)
    value = 0.0
    for d in range(len(scores)):
        value = min(value + up[d], _LARGEST)
        gradient[d] = down[d] - up[d]
        curvature[d] = down[d] + up[d]
    return value


@dataclass(frozen=True)
class RankBoost(Objective):
    """Exponential loss over all pairs with different labels (Freund et al. 2003)."""

    name: ClassVar[str] = "rankboost"
    convex: ClassVar[bool] = True
    weighting: ClassVar[Weighting | None] = "order"
    function: ClassVar[ListFunction] = rankboost_list
