r"""Hinge losses of pairs with different labels: RankSVM and its mean over pairs.

**RankSVM**: the hinge over all pairs with different labels (Joachims 2002).

.. math::

    \ell = \sum_{y_i > y_j} \max(0, m_{ij}) \quad\text{or}\quad
    \sum_{y_i > y_j} \max(0, m_{ij})^2, \qquad
    m_{ij} = 1 - (s_i - s_j)

An *active* pair has :math:`m_{ij} > 0`, that is :math:`s_i - s_j < 1`; at the kink the subgradient
is 0. Each active pair adds -1 to the gradient of i and +1 to that of j (squared: :math:`\mp 2
m_{ij}`). Both are convex.

The curvature is the number of a document's active pairs, twice that for the squared hinge. For the
squared hinge it is the exact diagonal. The hinge is piecewise linear; its slope of one per active
pair is spread over the margin of one.

The cost is O(n log n) for any number of label levels (order-statistic trees as in Lee & Lin 2014).
Documents enter a Fenwick tree over the ranks of the scores, level by level from the highest; before
a level enters, each of its documents j queries the tree for number, sum and sum of squares of the
scores :math:`s_i < s_j + 1`, a prefix of the ranks. A second pass from the lowest level does the
same for i, with all orders reversed. The weight of a pair is the document weight of its better
document.

**Pairwise hinge**, as a mean over the pairs of a list, so that long lists do not dominate (as in
TF-Ranking and Rax). With P pairs of different labels and a margin :math:`\mu`,

.. math:: \ell = \frac1P \sum_{y_i > y_j} \max(0, \mu - (s_i - s_j)),

which is RankSVM's at :math:`s/\mu` times :math:`\mu/P`. P counts pairs without weights.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plackett.base.arithmetic import stable_order
from plackett.base.kernels import ListFunction, compiled, list_function
from plackett.objectives.driver import LIST_FUNCTION, Weighting, document_weights
from plackett.objectives.objective import Objective, check_positive
from plackett.objectives.pairwise import count_pairs

MARGIN = 1.0


@compiled
def enter_score(tree, place, score, weight):  # type: ignore[no-untyped-def]
    """Add a score at a place, counted from 0."""
    at = place + 1
    while at < len(tree):
        tree[at, 0] += weight
        tree[at, 1] += weight * score
        tree[at, 2] += weight * (score * score)
        at += at & -at


@compiled
def sum_margins(tree, length, distance):  # type: ignore[no-untyped-def]
    """Over the first places: their number, and sums of distance + score and its square."""
    count, total, squares = 0.0, 0.0, 0.0
    while length > 0:
        count += tree[length, 0]
        total += tree[length, 1]
        squares += tree[length, 2]
        length &= length - 1
    margins = count * distance + total
    return count, max(margins, 0.0), max(distance * (margins + total) + squares, 0.0)


@compiled
def fill_reach(ascending, margin, reach):  # type: ignore[no-untyped-def]
    """For each rank j, how many of the lowest scores lie less than the margin above it."""
    # The difference itself is compared: rounded subtraction is monotone, so that the pairs seen
    # from below and from above are the same, to the last bit.
    high = 0
    for j in range(len(ascending)):
        while high < len(ascending) and ascending[high] - ascending[j] < margin:
            high += 1
        reach[j] = high


@compiled
def _add_pairs(  # type: ignore[no-untyped-def]
    scores, places, labels, weights, by_label, reach, squared, side, gradient, curvature
):
    """One pass over the levels; side is 1 for the lower documents of pairs, -1 for the higher."""
    # A pair has the weight of its higher document: the one that queries, or the one in the tree.
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
            count, margins, squares = sum_margins(tree, reach[places[i]], distance)
            weight = weights[i] if side < 0 else 1.0
            value += squares if squared else margins
            gradient[i] += weight * side * (2.0 * margins if squared else count)
            curvature[i] += weight * (2.0 * count if squared else count)
        for i in by_label[start:stop]:
            weight = weights[i] if side > 0 else 1.0
            enter_score(tree, places[i], -side * scores[i], weight)
        start = stop
    return value


@compiled
def _hinge_pairs(scores, labels, weights, squared, gradient, curvature):  # type: ignore[no-untyped-def]
    """Sum of the hinges over all pairs; adds to gradient and curvature."""
    n = len(scores)
    order = stable_order(scores, False)
    # Sums of squares are relative to the middle score, which loses less if scores are far from
    # zero.
    centered = scores - scores[order[n // 2]]
    places, reach = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    for rank in range(n):
        places[order[rank]] = rank
    by_label = stable_order(labels, True)
    fill_reach(centered[order], MARGIN, reach)
    value = _add_pairs(centered, places, labels, weights, by_label, reach, squared, 1, gradient, curvature)
    # For the other side, the order of scores and the order of labels are both reversed.
    fill_reach(-centered[order[::-1]], MARGIN, reach)
    by_label_reversed = by_label[::-1].copy()
    reversed_places = n - 1 - places
    _add_pairs(centered, reversed_places, labels, weights, by_label_reversed, reach, squared, -1, gradient, curvature)
    return value


@list_function(LIST_FUNCTION)
def ranksvm_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: squared or not, prepared: weights, if any."""
    weights = document_weights(prepared, len(scores), 0)
    return _hinge_pairs(scores, labels, weights, params[0] > 0.0, gradient, curvature)


@dataclass(frozen=True)
class RankSVM(Objective):
    """Hinge, plain or squared, over all pairs with different labels (Joachims 2002).

    >>> RankSVM().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [2.0, -2.0, 0.0]
    """

    name: ClassVar[str] = "ranksvm"
    convex: ClassVar[bool] = True
    weighting: ClassVar[Weighting | None] = "order"
    function: ClassVar[ListFunction] = ranksvm_list

    squared: bool = False
    """Square the hinge, which makes it smooth."""

    @property
    def params(self) -> tuple[float, ...]:
        return (1.0 if self.squared else 0.0,)


@list_function(LIST_FUNCTION)
def pairhinge_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: margin, prepared: weights, if any."""
    margin, pairs = params[0], count_pairs(labels, stable_order(labels, True))
    weights = document_weights(prepared, len(scores), 0)
    value = _hinge_pairs(scores / margin, labels, weights, False, gradient, curvature)
    for i in range(len(scores)):
        gradient[i] /= pairs
        curvature[i] /= margin * pairs
    return value * margin / pairs


@dataclass(frozen=True)
class PairHinge(Objective):
    """Mean hinge of the pairs with different labels.

    >>> PairHinge().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [0.667, -0.667, 0.0]

    Parameters
    ----------
    margin
        Distance of scores from which on a pair costs nothing.
    """

    name: ClassVar[str] = "pairhinge"
    convex: ClassVar[bool] = True
    weighting: ClassVar[Weighting | None] = "order"
    function: ClassVar[ListFunction] = pairhinge_list

    margin: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self.name, margin=self.margin)

    @property
    def params(self) -> tuple[float, ...]:
        return (self.margin,)
