r"""Hinge losses of pairs with different labels: RankSVM and its mean over pairs.

**RankSVM**: the hinge over all pairs with different labels (Joachims 2002).

.. math::

    \ell = \sum_{y_i > y_j} \max(0, m_{ij}) \quad\text{or}\quad
    \sum_{y_i > y_j} \max(0, m_{ij})^2, \qquad
    m_{ij} = 1 - (s_i - s_j)

An *active* pair has :math:`m_{ij} > 0`, that is :math:`s_i - s_j < 1`; at the kink the subgradient is 0. Each active
pair adds -1 to the gradient of i and +1 to that of j (squared: :math:`\mp 2 m_{ij}`). Both are convex.

The curvature is the number of a document's active pairs, twice that for the squared hinge. For the squared hinge it is
the exact diagonal. The hinge is piecewise linear; its slope of one per active pair is spread over the margin of one.

The cost is O(n log n) for any number of label levels (order-statistic trees as in Lee & Lin 2014). Documents enter a
Fenwick tree over the ranks of the scores, level by level from the highest; before a level enters, each of its documents
j queries the tree for number, sum and sum of squares of the scores :math:`s_i < s_j + 1`, a prefix of the ranks. A
second pass from the lowest level does the same for i, with all orders reversed. The weight of a pair is the document
weight of its better document.

**Pairwise hinge**, as a mean over the pairs of a list, so that long lists do not dominate (as in
TF-Ranking and Rax). With P pairs of different labels and a margin :math:`\mu`,

.. math:: \ell = \frac1P \sum_{y_i > y_j} \max(0, \mu - (s_i - s_j)),

which is RankSVM's at :math:`s/\mu` times :math:`\mu/P`. P counts pairs without weights.

:func:`add_hinges` also has the smoothed hinge of :mod:`plackett.models.linear.solvers`.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.arithmetic import stable_order
from plackett.base.errors import DataError
from plackett.base.kernels import ListFunction, compiled, list_function
from plackett.objectives.driver import LIST_FUNCTION, Weighting, document_weights
from plackett.objectives.objective import Limits, Objective, check_positive
from plackett.objectives.pairwise import count_pairs
from plackett.objectives.ranking import rank_order

_MARGIN = 1.0
_FLOOR = 1e-3  # the least curvature of the smoothed hinge, relative to that of the parabola


@compiled
def _enter_score(tree, place, score, weight):  # type: ignore[no-untyped-def]
    """Add a score at a place, counted from 0."""
    at = place + 1
    while at < len(tree):
        tree[at, 0] += weight
        tree[at, 1] += weight * score
        tree[at, 2] += weight * (score * score)
        at += at & -at


@compiled
def _sum_margins(tree, length, distance):  # type: ignore[no-untyped-def]
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
def _fill_reach(ascending, margin, reach):  # type: ignore[no-untyped-def]
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
    scores, places, labels, weights, by_label, reaches, squared, width, side, gradient, curvature
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
            distance = _MARGIN + side * scores[i]
            count, margins, squares = _sum_margins(tree, reaches[0, places[i]], distance)
            cost, slope, bend, scale = margins, count, count, 1.0
            if squared:
                cost, slope, bend = squares, 2.0 * margins, 2.0 * count
            elif width > 0.0:
                far, above, beyond = _sum_margins(tree, reaches[1, places[i]], distance - width)
                cost, scale = (squares - beyond) / (2.0 * width), width
                slope, bend = margins - above, max(count - far, _FLOOR * count)
            weight = weights[i] if side < 0 else 1.0
            value += cost
            gradient[i] += weight * side * slope / scale
            curvature[i] += weight * bend / scale
        for i in by_label[start:stop]:
            weight = weights[i] if side > 0 else 1.0
            _enter_score(tree, places[i], -side * scores[i], weight)
        start = stop
    return value


@compiled
def add_hinges(scores, labels, weights, squared, width, gradient, curvature):  # type: ignore[no-untyped-def]
    """Sum of the hinges over all pairs, squared or smoothed over a width above 0; adds to gradient and curvature."""
    n = len(scores)
    order = stable_order(scores, False)
    # Sums of squares are relative to the middle score, which loses less if scores are far from zero.
    centered = scores - scores[order[n // 2]]
    places, reaches = np.empty(n, dtype=np.int64), np.empty((2, n), dtype=np.int64)
    places[order] = np.arange(n)
    by_label = stable_order(labels, True)
    _fill_reaches(centered[order], width, reaches)
    lists = centered, places, labels, weights, by_label, reaches, squared, width
    value = _add_pairs(*lists, 1, gradient, curvature)
    # For the other side, the order of scores and the order of labels are both reversed.
    _fill_reaches(-centered[order[::-1]], width, reaches)
    lists = centered, n - 1 - places, labels, weights, by_label[::-1].copy(), reaches, squared, width
    _add_pairs(*lists, -1, gradient, curvature)
    return value


@compiled
def _fill_reaches(ascending, width, reaches):  # type: ignore[no-untyped-def]
    _fill_reach(ascending, _MARGIN, reaches[0])
    if width > 0.0:
        _fill_reach(ascending, _MARGIN - width, reaches[1])


@list_function(LIST_FUNCTION)
def ranksvm_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: squared or not, prepared: weights, if any."""
    weights = document_weights(prepared, len(scores), 0)
    return add_hinges(scores, labels, weights, params[0] > 0.0, 0.0, gradient, curvature)


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


@list_function(LIST_FUNCTION)
def pairhinge_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: margin, prepared: weights, if any."""
    margin, pairs = params[0], count_pairs(labels, stable_order(labels, True))
    weights = document_weights(prepared, len(scores), 0)
    value = add_hinges(scores / margin, labels, weights, False, 0.0, gradient, curvature)
    gradient /= pairs
    curvature /= margin * pairs
    return value * margin / pairs


@dataclass(frozen=True)
class PairHinge(Objective):
    """Mean hinge of the pairs with different labels.

    >>> PairHinge().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [0.667, -0.667, 0.0]

    Parameters
    ----------
    margin
        Difference of scores above which a pair costs nothing.
    """

    name: ClassVar[str] = "pairhinge"
    convex: ClassVar[bool] = True
    weighting: ClassVar[Weighting | None] = "order"
    function: ClassVar[ListFunction] = pairhinge_list
    limits: ClassVar[Limits] = {"margin": check_positive}

    margin: float = 1.0


_BY_SIZE = 0.0  # stands for scale = 1 / (n+ n-)


class MostViolated(NamedTuple):
    """The ranking that violates its margin most."""

    value: float
    """By how much: the structured hinge."""
    goods_above: NDArray[np.int64]
    """For each irrelevant document, by descending score: the number of relevant documents above it."""


@compiled
def _fill_goods_above(good_scores, bad_scores, scale, goods_above):  # type: ignore[no-untyped-def]
    """Loss-augmented inference; both arrays of scores descend. Returns the maximum."""
    n_goods = len(good_scores)
    value = 0.0
    for j in range(1, len(bad_scores) + 1):
        best, choice, total = 0.0, n_goods, 0.0
        for i in range(n_goods, 0, -1):
            precision_lost = 1.0 / (i + j - 1.0) * (i / (i + j)) / n_goods
            total += precision_lost - 2.0 * scale * (good_scores[i - 1] - bad_scores[j - 1])
            if total > best:
                best, choice = total, i - 1
        goods_above[j - 1] = choice
        value += best
    return value


@compiled
def _split(scores, labels):  # type: ignore[no-untyped-def]
    """Positions of goods and of bads, each by descending score."""
    order = rank_order(scores)
    relevant = labels[order] > 0
    return order[relevant], order[~relevant]


@list_function(LIST_FUNCTION)
def svmmap_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: scale."""
    goods, bads = _split(scores, labels)
    n_pairs = len(goods) * len(bads)
    if n_pairs == 0:
        return 0.0
    scale = 1.0 / n_pairs if params[0] == _BY_SIZE else params[0]
    goods_above = np.empty(len(bads), dtype=np.int64)
    value = _fill_goods_above(scores[goods], scores[bads], scale, goods_above)
    slope = 2.0 * scale
    for j in range(len(bads)):
        gradient[bads[j]] = slope * (len(goods) - goods_above[j])
        for i in range(goods_above[j], len(goods)):
            gradient[goods[i]] -= slope
    curvature[:] = slope * n_pairs * np.abs(gradient)
    return value


@dataclass(frozen=True)
class SVMMAP(Objective):
    """Structured hinge on average precision (Yue et al. 2007).

    >>> SVMMAP().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [2.0, -1.0, -1.0]
    """

    name: ClassVar[str] = "svmmap"
    convex: ClassVar[bool] = True
    function: ClassVar[ListFunction] = svmmap_list
    unweighted_reason: ClassVar[str] = (
        "its most violated ranking sorts relevant documents by score, which is correct only if all "
        "of them have the same weight; use ranksvm, or a conditional model such as convexloss-map"
    )

    scale: float | None = None
    """Scale of the feature map; None is 1 / (n+ n-) as in the paper, 1 as in conditional models."""

    def __post_init__(self) -> None:
        if self.scale is not None:
            check_positive(self.name, scale=self.scale)


def most_violated(scores: ArrayLike, labels: ArrayLike, *, scale: float | None = None) -> MostViolated:
    """Loss-augmented inference for one list, in O(n+ n-).

    Parameters
    ----------
    scores, labels
        One number per document; relevant is label > 0.
    scale
        Scale of the feature map; None is 1 / (n+ n-).

    >>> most_violated([0.0, 1.0], [1, 0])
    MostViolated(value=2.5, goods_above=array([0]))
    """
    if scale is not None:
        check_positive("svmmap", scale=scale)
    s, y = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    if s.ndim != 1 or s.shape != y.shape:
        raise DataError(f"scores and labels must match, got shapes {s.shape} and {y.shape}.")
    goods, bads = _split(s, y)
    goods_above = np.full(len(bads), len(goods), dtype=np.int64)
    if len(goods) == 0 or len(bads) == 0:
        return MostViolated(0.0, goods_above)
    factor = 1.0 / (len(goods) * len(bads)) if scale is None else scale
    value = _fill_goods_above(s[goods], s[bads], factor, goods_above)
    return MostViolated(float(value), goods_above)
