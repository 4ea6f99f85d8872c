r"""uRank: each document against all documents with lower labels (Zhu & Klabjan 2020).

With :math:`P_d = e^{s_d}/(e^{s_d} + \sum_{y_j < y_d} e^{s_j})`, :math:`G_d = 2^{y_d} - 1` and
:math:`\kappa = 1/(|R| - 1)` for a list with :math:`|R|` different labels (equations 1 and 2),

.. math::

    \ell = -\kappa \sum_d G_d \ln P_d, \qquad
    \frac{\partial\ell}{\partial s_d} =
    \kappa\Big[-G_d(1 - P_d) + \sum_{y_e > y_d} G_e p_{d|e}\Big], \qquad
    \frac{\partial^2\ell}{\partial s_d^2} =
    \kappa\Big[G_d P_d(1 - P_d) + \sum_{y_e > y_d} G_e p_{d|e}(1 - p_{d|e})\Big]

with :math:`p_{d|e} = e^{s_d}/(e^{s_e} + \sum_{y_j < y_e} e^{s_j})`. Convex; the curvature is the
diagonal of the Hessian. Both sums run over prefixes of the documents by label, as logarithms: O(n
log n) time (one sort of the labels), O(n) memory, finite for all scores.

With a *window* u (equation 3), the documents below :math:`y_d` are sorted by falling score and cut into chunks of u,
and :math:`\ln P_d` is the sum over chunks c of :math:`\ln[e^{s_d}/(e^{s_d} + \sum_{j \in c} e^{s_j})]`. The loss is
continuous, but has kinks where two scores cross: it is declared neither exact nor convex. O(n²/u + n|R|) time.

Gains of labels above 512 count as :math:`2^{512}`, so that sums stay finite. The weight of a
document multiplies its :math:`G_d`; levels stay those of the labels.

**uMart**: LambdaMART with softmaxes over windows instead of pairs (Zhu & Klabjan 2020).

For each document d, the documents with lower labels are sorted by falling score and cut into
windows. Within a window b, with :math:`K = e^{\sigma s_d} + \sum_{j \in b} e^{\sigma s_j}`,
:math:`p_j = e^{\sigma s_j}/K` and :math:`P = e^{\sigma s_d}/K`, each j adds

.. math::

    g_d \mathrel{-}= \sigma\Delta_{dj}p_j, \quad g_j \mathrel{+}= \sigma\Delta_{dj}p_j, \quad
    h_d \mathrel{+}= \eta\sigma^2\Delta_{dj}p_jP, \quad
    h_j \mathrel{+}= \eta\sigma^2\Delta_{dj}p_j(1 - p_j)

with :math:`\Delta_{dj} = |G_d - G_j|\,|D_d - D_j|/[\mathrm{IDCG}\,(0.01 + |s_d - s_j|)]`: the
change of NDCG when the two swap ranks, over their distance if ``score_norm`` (unless all scores are
equal). These are the paper's equations 5 and 6 with their signs corrected; :math:`\eta = 2` is its
factor of the curvature, :math:`\eta = 1` the derivative of g with constant weights.

A window of 1 is LambdaMART, and the value is LambdaMART's. For larger windows g is not the gradient
of any function (its Jacobian is not symmetric), so there is no value: NaN. O(n²) time, O(n) memory.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plackett.base.gains import discount, scaled_gain
from plackett.base.kernels import ListFunction, compiled, list_function, reordered
from plackett.objectives.driver import LIST_FUNCTION, Weighting, document_weights
from plackett.objectives.float32 import SCORE_OFFSET
from plackett.objectives.objective import Limits, Objective, check_count, check_positive
from plackett.objectives.pairwise import fill_exponentials
from plackett.objectives.ranking import prepare_gains, prepare_order, rank_order

_TOP_LABEL = 512.0
_NOTHING = -np.inf  # the logarithm of an empty sum


@compiled
def _gain(label):  # type: ignore[no-untyped-def]
    return scaled_gain(min(np.float64(label), _TOP_LABEL), 0.0)


@compiled
def _log_add(a, b):  # type: ignore[no-untyped-def]
    """The logarithm of exp(a) + exp(b); b may be minus infinity."""
    high, low = max(a, b), min(a, b)
    return high if low == _NOTHING else high + np.log1p(np.exp(low - high))


@compiled
def _level_end(labels, order, start):  # type: ignore[no-untyped-def]
    """Where the documents with the label of the one at ``start`` end, by falling label."""
    end = start
    while end < len(order) and labels[order[end]] == labels[order[start]]:
        end += 1
    return end


@compiled
def _fill_normalizers(f, labels, order, below, normalizers):  # type: ignore[no-untyped-def]
    """From the lowest label up: logarithms of the sums over lower documents, and with the document.

    Returns the number of levels.
    """
    levels, lower, upto = 1, _NOTHING, _NOTHING
    for k in range(len(order) - 1, -1, -1):
        d = order[k]
        if k + 1 < len(order) and labels[d] > labels[order[k + 1]]:
            levels += 1
            lower = upto
        below[d] = lower
        normalizers[d] = _log_add(f[d], lower)
        upto = _log_add(f[d], upto)
    return levels


@list_function(LIST_FUNCTION)
def urank_list(scores, labels, prepared, _key, _params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; prepared: documents by falling label, and weights, if any."""
    n = len(scores)
    order, f = prepared[:n].astype(np.int64), scores - np.max(scores)
    weights = document_weights(prepared, n, n)
    below, normalizers = np.empty(n), np.empty(n)
    scale = 1.0 / (_fill_normalizers(f, labels, order, below, normalizers) - 1)
    value, first, second = (0.0, _NOTHING, _NOTHING)  # log of sums of G/K and of G/K² over higher labels
    start = 0
    while start < n:
        end = _level_end(labels, order, start)
        level_gain = scale * _gain(labels[order[start]])
        for k in range(start, end):
            d = order[k]
            gain = level_gain * weights[d]
            lost, won = np.exp(below[d] - normalizers[d]), np.exp(f[d] - normalizers[d])
            above = np.exp(f[d] + first)
            value += gain * _log_add(0.0, below[d] - f[d])
            gradient[d] = above - gain * lost
            curvature[d] = gain * won * lost + max(above - np.exp(2.0 * f[d] + second), 0.0)
        for k in range(start, end):
            gain = level_gain * weights[order[k]]
            if gain > 0.0:
                normalizer = normalizers[order[k]]
                first = _log_add(np.log(gain) - normalizer, first)
                second = _log_add(np.log(gain) - 2.0 * normalizer, second)
        start = end
    return value


@compiled
def _add_chunk(f, level, chunk, level_gain, weights, gradient, curvature):  # type: ignore[no-untyped-def]
    """Add the loss of each document of a level against one chunk of lower documents."""
    total = _NOTHING
    for j in chunk:
        total = _log_add(f[j], total)
    value, lost, bent, squared = 0.0, 0.0, 0.0, 0.0
    for d in level:
        gain = level_gain * weights[d]
        value += gain * _log_add(0.0, total - f[d])
        normalizer = _log_add(f[d], total)
        p, complement = np.exp(total - normalizer), np.exp(f[d] - normalizer)
        gradient[d] -= gain * p
        curvature[d] += gain * p * complement
        lost += gain * p
        bent += gain * p * complement
        squared += gain * p * p
    for j in chunk:
        share = min(np.exp(f[j] - total), 1.0)
        gradient[j] += share * lost
        # p s (1 - p s) = p (1 - p) s + p² s (1 - s): two terms that are not negative
        curvature[j] += share * bent + share * (1.0 - share) * squared
    return value


@list_function(LIST_FUNCTION)
def urank_window_list(scores, labels, prepared, _key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """The same with a window; params: its size."""
    n, window = len(scores), int(min(params[0], len(scores)))
    order, ranked, f = prepared[:n].astype(np.int64), rank_order(scores), scores - np.max(scores)
    weights = document_weights(prepared, n, n)
    n_levels = len(np.unique(labels))
    chunk = np.empty(n, np.int64)
    value, start = 0.0, 0
    while start < n:
        end = _level_end(labels, order, start)
        gain = _gain(labels[order[start]]) / (n_levels - 1)
        filled = 0
        for k in range(n):
            if labels[ranked[k]] < labels[order[start]]:
                chunk[filled] = ranked[k]
                filled += 1
            if filled == window or (filled > 0 and k == n - 1):
                level, part = order[start:end], chunk[:filled]
                value += _add_chunk(f, level, part, gain, weights, gradient, curvature)
                filled = 0
        start = end
    return value


@dataclass(frozen=True)
class URank(Objective):
    """Softmax of each document against those with lower labels (Zhu & Klabjan 2020).

    >>> URank().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [1.053, -1.026, -0.027]

    Parameters
    ----------
    window
        Cut the lower documents, by falling score, into chunks of this size; None: one chunk.
    """

    name: ClassVar[str] = "urank"
    weighting: ClassVar[Weighting | None] = "order"
    limits: ClassVar[Limits] = {"window": check_count}
    prepare = prepare_order

    window: int | None = None

    @property
    def exact(self) -> bool:  # type: ignore[override]
        return self.window is None

    convex = exact

    @property
    def function(self) -> ListFunction:  # type: ignore[override]
        return urank_list if self.window is None else urank_window_list


_HIGHEST = 700.0  # e**700 is finite

# Rows of the array about the documents below a label, by falling score.
_SCORE, _GAIN, _DISCOUNT, _MASS, _OTHERS, _TOP, _DOWN = 0, 1, 2, 3, 4, 5, 6


@compiled
def _next_lower(level, lowest, y):  # type: ignore[no-untyped-def]
    """The highest label below a level."""
    highest = lowest
    for label in y:
        if highest < label < level:
            highest = label
    return highest


@compiled
def _gather_lower(level, y, ranked, lower, below):  # type: ignore[no-untyped-def]
    """Fill positions and columns of the documents with lower labels; returns their number."""
    count = 0
    for k in range(len(y)):
        if y[k] < level:
            lower[count] = k
            for row in range(3):
                below[row, count] = ranked[row, k]
            count += 1
    return count


@compiled
def _fill_windows(x, exponentials, narrow, lower, size, below):  # type: ignore[no-untyped-def]
    """Fill each document's mass, that of the others in its window, and the top score.

    Masses are relative to the top document, which comes first.
    """
    for start in range(0, len(lower), size):
        end = min(start + size, len(lower))
        top = lower[start]
        before = 0.0
        for k in range(start, end):
            below[_MASS, k] = np.exp(x[lower[k]] - x[top])
            below[_OTHERS, k] = before
            below[_TOP, k] = x[top]
            below[_DOWN, k] = exponentials[1, top] if narrow else 0.0
            before += below[_MASS, k]
        after = 0.0
        for k in range(end - 1, start - 1, -1):
            below[_OTHERS, k] += after
            after += below[_MASS, k]


@compiled
def _fill_relative_mass(x, up, narrow, tops, downs, masses):  # type: ignore[no-untyped-def]
    """Fill a document's mass relative to the top of each lower document's window."""
    if narrow:
        for k in range(len(masses)):
            masses[k] = up * downs[k]
    else:
        for k in range(len(masses)):
            masses[k] = np.exp(min(x - tops[k], _HIGHEST))


@compiled
def _fill_swaps(ranked, d, below, score_norm, swaps):  # type: ignore[no-untyped-def]
    s, gains, discounts = below[_SCORE], below[_GAIN], below[_DISCOUNT]
    score, gain, discount = ranked[_SCORE, d], ranked[_GAIN, d], ranked[_DISCOUNT, d]
    for k in range(len(swaps)):
        swaps[k] = (gain - gains[k]) * abs(discount - discounts[k])
    if score_norm:
        for k in range(len(swaps)):
            swaps[k] /= SCORE_OFFSET + abs(score - s[k])


@reordered
def _add_row(mass, swaps, masses, others, g, h):  # type: ignore[no-untyped-def]
    """Add one document against all lower ones; returns its own gradient and curvature."""
    own_gradient, own_curvature = 0.0, 0.0
    for k in range(len(swaps)):
        rest = mass[k] + others[k]
        inverse = 1.0 / (masses[k] + rest)
        force = swaps[k] * masses[k] * inverse
        g[k] += force
        h[k] += force * rest * inverse
        own_gradient -= force
        own_curvature += force * mass[k] * inverse
    return own_gradient, own_curvature


@compiled
def _pair_costs(x, tops, swaps):  # type: ignore[no-untyped-def]
    """Cost of a document against lower ones that are each a window."""
    cost = 0.0
    for k in range(len(swaps)):
        cost += swaps[k] * (max(tops[k] - x, 0.0) + np.log1p(np.exp(-abs(x - tops[k]))))
    return cost


@compiled
def _add_level(level, y, x, ranked, exponentials, narrow, size, score_norm, g, h):  # type: ignore[no-untyped-def]
    """Add the documents of one label; returns their cost, which only windows of 1 have."""
    n = len(y)
    lower, below = np.empty(n, np.int64), np.empty((7, n))
    count = _gather_lower(level, y, ranked, lower, below)
    mass, swaps, sums = np.empty(count), np.empty(count), np.zeros((2, count))
    _fill_windows(x, exponentials, narrow, lower[:count], size, below)
    cost = 0.0
    for d in range(n):
        if y[d] == level:
            _fill_relative_mass(x[d], exponentials[0, d], narrow, below[_TOP], below[_DOWN], mass)
            _fill_swaps(ranked, d, below, score_norm, swaps)
            own_g, own_h = _add_row(mass, swaps, below[_MASS], below[_OTHERS], sums[0], sums[1])
            g[d] += own_g
            h[d] += own_h
            if size == 1:
                cost += _pair_costs(x[d], below[_TOP], swaps)
    for k in range(count):
        g[lower[k]] += sums[0, k]
        h[lower[k]] += sums[1, k]
    return cost


@list_function(LIST_FUNCTION)
def umart_list(scores, labels, prepared, _key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Gradient and curvature; params in the order of the fields, prepared: normalized gains."""
    n, sigma = len(scores), params[1]
    size = int(min(params[0], n)) if params[0] > 0.0 else n
    order = rank_order(scores)
    x, y = sigma * scores[order], labels[order]
    ranked, exponentials, g, h = np.empty((3, n)), np.empty((2, n)), np.zeros(n), np.zeros(n)
    for k in range(n):
        ranked[_SCORE, k] = scores[order[k]]
        ranked[_GAIN, k] = prepared[order[k]]
        ranked[_DISCOUNT, k] = discount(k)
    narrow = fill_exponentials(x, exponentials)
    score_norm = params[2] > 0.0 and ranked[_SCORE, 0] != ranked[_SCORE, n - 1]
    value, level, lowest = 0.0, np.max(y), np.min(y)
    while level > lowest:
        value += _add_level(level, y, x, ranked, exponentials, narrow, size, score_norm, g, h)
        level = _next_lower(level, lowest, y)
    gradient[order] = sigma * g
    curvature[order] = params[3] * sigma * sigma * h
    return value if params[0] == 1.0 else np.nan


@dataclass(frozen=True)
class UMart(Objective):
    """LambdaMART's pairs with softmaxes over windows (Zhu & Klabjan 2020).

    >>> UMart().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [1.184, -0.944, -0.24]

    Parameters
    ----------
    window
        Number of lower documents per softmax; None: all of them. The paper uses 2 for OHSUMED and MSLR, 10 for MQ2007.
    sigma
        Slope of the scores in the softmax.
    score_norm
        Divide each pair's weight by 0.01 + the distance of its scores, unless all scores of the list are equal.
    hess_factor
        Factor of the curvature; 1 is the derivative of the gradient with constant weights.
    """

    name: ClassVar[str] = "umart"
    exact: ClassVar[bool] = False
    weighting: ClassVar[Weighting | None] = "gain"
    function: ClassVar[ListFunction] = umart_list
    limits: ClassVar[Limits] = {"window": check_count, "sigma": check_positive, "hess_factor": check_positive}
    prepare = prepare_gains

    window: int | None = 2
    sigma: float = 2.0
    score_norm: bool = True
    hess_factor: float = 2.0
