r"""The smoothed hinge over pairs of one list, in O(n log n).

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

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plackett.base.kernels import ListFunction, compiled, list_function
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
