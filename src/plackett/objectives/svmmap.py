r"""SVM-MAP: the structured hinge on average precision (Yue et al. 2007).

With goods g (label > 0), bads b, and a ranking written as :math:`y_{gb} = \pm 1`,

.. math::

    \ell = \max_y \Big[\Delta_{MAP}(y) - 2\,\mathrm{scale} \sum_{y_{gb} = -1} (s_g - s_b)\Big],

the largest amount by which any ranking violates the margin its loss demands. The ideal ranking gives 0, so :math:`\ell
\ge 0`; it bounds the loss of the ranking by scores. A maximum of linear functions, it is convex.

**Loss-augmented inference.** In the maximum, goods and bads are each sorted by score, and the
number k of goods above the j-th best bad (from 1) can be chosen for each j separately, to maximize

.. math::

    \sum_{i > k} \Big[\frac{1}{n_+}\Big(\frac{i}{i+j-1} - \frac{i}{i+j}\Big)
    - 2\,\mathrm{scale}\,(s_{(i)} - \bar s_{(j)})\Big],

in O(n+ n-) altogether. Equal maxima go to the ranking with more goods above.

**Gradient.** That of the maximizer: a good gets :math:`-2\,\mathrm{scale}` for each bad above it,
a bad :math:`+2\,\mathrm{scale}` for each good below it.

**Curvature.** The loss is piecewise linear and its diagonal 0 almost everywhere, which is useless for trees. As for a
hinge of slope 1 and margin 1, whose curvature is taken as slope by margin, we divide the slope :math:`|g|` by the gap
of scores that makes up for the largest loss when all pairs keep it: :math:`\Delta \le 1 = 2\,\mathrm{scale}\,n_+ n_-
\cdot \mathrm{gap}`. So :math:`h = 2\,\mathrm{scale}\,n_+ n_- |g|`, with the default scale :math:`2 |g|`: a Newton step
is at most one gap.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError
from plackett.base.kernels import ListFunction, compiled, list_function
from plackett.objectives.driver import LIST_FUNCTION
from plackett.objectives.objective import Objective, check_positive
from plackett.objectives.ranking import rank_order

_BY_SIZE = 0.0  # stands for scale = 1 / (n+ n-)


class MostViolated(NamedTuple):
    """The ranking that violates its margin most."""

    value: float
    """By how much: the structured hinge."""
    goods_above: NDArray[np.int64]
    """For each irrelevant document, by descending score: how many relevant ones stand above it."""


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
