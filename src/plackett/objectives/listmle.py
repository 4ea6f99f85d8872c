r"""The likelihood of the ranking by labels under the Plackett-Luce model of the scores.

With :math:`\pi` the ranking by descending label (equal labels in random order) and n documents,

.. math:: \ell = \sum_{i=1}^n \alpha_i \Big(\log\sum_{k \ge i} e^{s_{\pi_k}} - s_{\pi_i}\Big)

- :class:`ListMLE`: :math:`\alpha_i = 1` (Xia et al. 2008)
- :class:`PListMLE`: :math:`\alpha_i \propto 2^{n-i} - 1`, summing to 1, so that the top of the
  list counts most (Lan et al. 2014); computed as :math:`(2^{-i} - 2^{-n}) / (1 - (n+1) 2^{-n})`,
  which overflows for no n

Gradient and curvature (the exact diagonal of the Hessian) are those of
:mod:`plackett.objectives.plackett_luce`. Both are convex for a given order. Documents with equal
labels are put in a new random order for each list and step; sorting by label happens once, so a
step costs O(n).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit, prange, uint64

from plackett.base.kernels import ListFunction, compiled, list_function
from plackett.base.mixing import combine, unit
from plackett.base.types import Keys, Labels, Offsets
from plackett.objectives.driver import LIST_FUNCTION
from plackett.objectives.lists import Extra
from plackett.objectives.objective import Draws, Objective
from plackett.objectives.plackett_luce import as_orders, weighted_likelihood

_EVEN, _TOP_HEAVY = 0.0, 1.0
_GIVEN, _SHUFFLE = (
    0.0,
    1.0,
)  # what precedes a list's order: take it as it is, or shuffle equal labels


@compiled
def _shuffle_ties(order, labels, key):  # type: ignore[no-untyped-def]
    start = 0
    for k in range(len(order)):
        if labels[order[k]] != labels[order[start]]:
            start = k
        # Fisher-Yates, growing: the k-th document changes places with one of its level so far.
        other = start + int(unit(combine(key, uint64(k))) * (k - start + 1))
        order[k], order[other] = order[other], order[k]


@compiled
def _fill_weights(kind, weights):  # type: ignore[no-untyped-def]
    n = len(weights)
    if kind == _EVEN:
        weights[:] = 1.0
        return
    last = 2.0**-n
    for i in range(n):
        weights[i] = (2.0 ** -(i + 1) - last) / (1.0 - (n + 1) * last)


@list_function(LIST_FUNCTION)
def listmle_list(scores, labels, extra, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: kind of weights; extra: flag and order."""
    order = extra[1:].astype(np.int64)
    if extra[0] == _SHUFFLE:
        _shuffle_ties(order, labels, key)
    weights = np.empty(len(scores))
    _fill_weights(params[0], weights)
    return weighted_likelihood(scores, order, weights, gradient, curvature)


@njit(cache=True, nogil=True, parallel=True)
def _sort_by_label(labels, offsets, orders):  # type: ignore[no-untyped-def]
    for q in prange(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        orders[low + q] = _SHUFFLE
        orders[low + q + 1 : high + q + 1] = np.argsort(-labels[low:high], kind="mergesort")


@dataclass(frozen=True)
class _Likelihood(Objective):
    convex: ClassVar[bool] = True
    draw: ClassVar[str | None] = "order"
    weights: ClassVar[float]

    seed: int = 0
    """Of the order of equal labels; with the step and the list it determines it."""

    @property
    def function(self) -> ListFunction:
        return listmle_list

    @property
    def params(self) -> tuple[float, ...]:
        return (self.weights,)

    def extra(self, labels: Labels, offsets: Offsets, keys: Keys, draws: Draws) -> Extra:  # noqa: ARG002
        # One number more per list than it has documents: the flag.
        where = offsets + np.arange(len(offsets))
        orders = np.empty(where[-1])
        if "order" in draws:
            flags = np.zeros(len(orders), dtype=bool)
            flags[where[:-1]] = True
            orders[flags] = _GIVEN
            orders[~flags] = as_orders(draws["order"], offsets)
        else:
            _sort_by_label(labels, offsets, orders)
        return Extra(orders, where)


@dataclass(frozen=True)
class ListMLE(_Likelihood):
    """Minus the log-likelihood of the ranking by labels (Xia et al. 2008)."""

    name: ClassVar[str] = "listmle"
    weights: ClassVar[float] = _EVEN


@dataclass(frozen=True)
class PListMLE(_Likelihood):
    """The same with weights that fall with the position (Lan et al. 2014)."""

    name: ClassVar[str] = "plistmle"
    weights: ClassVar[float] = _TOP_HEAVY
