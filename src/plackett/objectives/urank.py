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

With a *window* u (equation 3), the documents below :math:`y_d` are sorted by falling score and cut
into chunks of u, and :math:`\ln P_d` is the sum over chunks c of :math:`\ln[e^{s_d}/(e^{s_d} +
\sum_{j \in c} e^{s_j})]`. The loss is continuous, but has kinks where two scores cross: it is
declared neither exact nor convex. O(n²/u + n|R|) time.

Gains of labels above 512 count as :math:`2^{512}`, so that sums stay finite. The weight of a
document multiplies its :math:`G_d`; levels stay those of the labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plackett.base.gains import scaled_gain
from plackett.base.kernels import ListFunction, compiled, list_function
from plackett.objectives.document_weights import Weighting, document_weights
from plackett.objectives.driver import LIST_FUNCTION
from plackett.objectives.objective import ListLabels, Objective, Prepared, check_count
from plackett.objectives.ranking import label_order, rank_order

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
    value, first, second = (
        0.0,
        _NOTHING,
        _NOTHING,
    )  # log of sums of G/K and of G/K² over higher labels
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
    levels = 1
    for k in range(1, n):
        levels += labels[order[k]] < labels[order[k - 1]]
    chunk = np.empty(n, np.int64)
    value, start = 0.0, 0
    while start < n:
        end = _level_end(labels, order, start)
        gain = _gain(labels[order[start]]) / (levels - 1)
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

    Parameters
    ----------
    window
        Cut the lower documents, by falling score, into chunks of this size; None: one chunk.
    """

    name: ClassVar[str] = "urank"
    weighting: ClassVar[Weighting | None] = "order"

    window: int | None = None

    def __post_init__(self) -> None:
        check_count(self.name, window=self.window)

    @property
    def exact(self) -> bool:  # type: ignore[override]
        return self.window is None

    @property
    def convex(self) -> bool:  # type: ignore[override]
        return self.window is None

    @property
    def function(self) -> ListFunction:  # type: ignore[override]
        return urank_list if self.window is None else urank_window_list

    @property
    def params(self) -> tuple[float, ...]:
        return (float(self.window or 0),)

    def prepare(self, lists: ListLabels) -> Prepared:
        return label_order(lists.labels, lists.offsets)
