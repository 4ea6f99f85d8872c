r"""MDPRank: ranking as a Markov decision process, learned by policy gradient (Wei et al. 2017).

The policy picks documents one after the other, each with the softmax of the remaining scores: an
episode is a ranking :math:`\pi` from the Plackett-Luce model of the scores. The pick at position t
(from 1) earns :math:`(2^{y} - 1) D(t)`; with returns :math:`R_t = \sum_{k \ge t} \gamma^{k-t} r_k`
the surrogate

.. math:: \ell = \sum_t \gamma^{t-1} R_t \Big(\log\sum_{k \ge t} e^{s_{\pi_k}} - s_{\pi_t}\Big)

has the REINFORCE estimate of minus the gradient of the expected return as its gradient; returns
and episode are held constant. Each list and step has a new episode. The value is the surrogate of
one episode, which cannot be compared between steps, hence ``exact = False``; for an explicit
episode (``draws``), the gradient is exactly its derivative.

For a fixed episode the surrogate is a Plackett-Luce likelihood with non-negative weights, which is
convex: the curvature is its exact diagonal, raised to at least 1e-6 of the list's mean.

``discount="jk"`` leaves the first two positions undiscounted, then :math:`1/\log_2 t` (Järvelin &
Kekäläinen 2002, as in the paper); ``"standard"`` is :math:`1/\log_2(1+t)`. Rewards are not
normalized, as in the paper; labels above 900 count as 900, so that no return overflows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from plackett.base.kernels import ListFunction, compiled, list_function
from plackett.objectives.document_weights import Weighting
from plackett.objectives.driver import LIST_FUNCTION
from plackett.objectives.listmle import check_orders, draw_order, weighted_likelihood
from plackett.objectives.objective import (
    ListLabels,
    Objective,
    Prepared,
    check_between,
    check_choice,
)
from plackett.objectives.pairwise import raise_to_floor

_JK, _STANDARD = 0.0, 1.0
_TOP_LABEL = 900.0  # 2**900 leaves room for sums over documents, samples and lists


@compiled
def _fill_returns(order, labels, gamma, discount, returns):  # type: ignore[no-untyped-def]
    """Discounted returns gamma^(t-1) R_t."""
    n = len(order)
    ahead = 0.0
    for t in range(n - 1, -1, -1):
        gain = 2.0 ** min(np.float64(labels[order[t]]), _TOP_LABEL) - 1.0
        rank = t + 2.0 if discount == _STANDARD else max(t + 1.0, 2.0)
        ahead = gain / np.log2(rank) + gamma * ahead
        returns[t] = ahead
    factor = 1.0
    for t in range(n):
        returns[t] *= factor
        factor *= gamma


@list_function(LIST_FUNCTION)
def mdprank_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Surrogate, gradient and curvature; params: gamma, discount; prepared: an explicit episode."""
    order = prepared.astype(np.int64) if len(prepared) else draw_order(scores, key)
    returns = np.empty(len(scores))
    _fill_returns(order, labels, params[0], params[1], returns)
    value = weighted_likelihood(scores, order, returns, gradient, curvature)
    raise_to_floor(curvature)
    return value


@dataclass(frozen=True)
class MDPRank(Objective):
    """Policy gradient with one sampled ranking per list and step (Wei et al. 2017)."""

    name: ClassVar[str] = "mdprank"
    exact: ClassVar[bool] = False
    weighting: ClassVar[Weighting | None] = "gain"
    draw: ClassVar[str | None] = "order"
    function: ClassVar[ListFunction] = mdprank_list

    gamma: float = 1.0
    """Discount of later rewards."""
    discount: Literal["jk", "standard"] = "jk"
    """Discount of positions in the reward."""
    seed: int = 0
    """Seed of the episodes."""

    def __post_init__(self) -> None:
        check_between(self.name, 0.0, 1.0, gamma=self.gamma)
        check_choice(self.name, ("jk", "standard"), discount=self.discount)

    @property
    def params(self) -> tuple[float, ...]:
        return (self.gamma, _JK if self.discount == "jk" else _STANDARD)

    def prepare(self, lists: ListLabels) -> Prepared | None:
        if "order" not in lists.draws:
            return None
        return Prepared(check_orders(lists.draws["order"], lists.offsets), lists.offsets)
