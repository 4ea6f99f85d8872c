r"""LambdaLoss: pairwise logistic losses that bound a metric (Wang et al. 2018).

With :math:`G_i = (2^{y_i} - 1)/\mathrm{IDCG}`, ranks :math:`\pi` of the current ranking held
constant and :math:`D_r = 1/\log_2(1 + r)`,

.. math:: \ell = \sum_{(i, j)} w_{ij} \log(1 + e^{-\sigma(s_i - s_j)})

==============  ====================  =========================================================
scheme          pairs                 :math:`w_{ij}`
==============  ====================  =========================================================
``ndcg1``       all :math:`i \ne j`   :math:`G_i D_{\pi_i}`
``ndcg2``       :math:`y_i > y_j`     :math:`\delta_{ij} |G_i - G_j|`
``ndcg2++``     :math:`y_i > y_j`     :math:`(\rho_{ij} + \mu\delta_{ij}) |G_i - G_j|`
``lambdarank``  :math:`y_i > y_j`     :math:`\rho_{ij} |G_i - G_j|`
``arp1``        all :math:`i \ne j`   :math:`y_i/Y`
``arp2``        :math:`y_i > y_j`     :math:`(y_i - y_j)/Y`
==============  ====================  =========================================================

with :math:`\rho_{ij} = |D_{\pi_i} - D_{\pi_j}|` and :math:`\delta_{ij} = D_k - D_{k+1}`, :math:`k =
|\pi_i - \pi_j|`. Gradient and curvature are those of the logistic losses with weights frozen, as in
:mod:`plackett.objectives.lambdarank`. The loss has natural logarithms. The value jumps where two
scores cross, so the objective is not declared exact. O(n²) time, O(n) memory.

``arp1`` and ``arp2`` bound the average rank of relevance, :math:`\sum_i y_i \pi_i / Y` with
:math:`Y = \sum_i y_i`. Their weights do not depend on the ranking: they are exact and convex.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from plackett.base.gains import discount
from plackett.base.kernels import ListFunction, compiled, list_function
from plackett.objectives.driver import LIST_FUNCTION, Weighting
from plackett.objectives.float32 import PairsGradient
from plackett.objectives.objective import Limits, ListLabels, Objective, Prepared, check_between, check_positive
from plackett.objectives.pairwise import add_pairs, fill_exponentials, fill_ratios
from plackett.objectives.ranking import normalized_gains, rank_order

SCHEMES = ("ndcg1", "ndcg2", "ndcg2++", "lambdarank", "arp1", "arp2")
_NDCG1, _ARP1 = 0, 4


@compiled
def _fill_weights(gains, discounts, steps, near, far, a, weights):  # type: ignore[no-untyped-def]
    """For ranks b > a, set weights[b] to (near ρ + far δ)(G_a - G_b); steps[k] is δ at a distance of k + 1 ranks."""
    g, d, out = gains[a + 1 :], discounts[a + 1 :], weights[a + 1 :]
    gain, discount = gains[a], discounts[a]
    for k in range(len(out)):
        out[k] = (near * (discount - d[k]) + far * steps[k]) * (gain - g[k])


@compiled
def _add_both_ways(x, ratios, gains, discounts, a, weights, g, h):  # type: ignore[no-untyped-def]
    """Add the pairs (a, b) and (b, a) of ``ndcg1``."""
    for b in range(a + 1, len(x)):
        weights[b] = gains[a] * discounts[a]
    forth, _ = add_pairs(x, ratios, weights, a, a + 1, g, h)
    for b in range(a + 1, len(x)):
        weights[b] = -gains[b] * discounts[b]
    back, _ = add_pairs(x, ratios, weights, a, a + 1, g, h)
    return forth + back


@list_function(LIST_FUNCTION)
def lambdaloss_list(scores, _labels, prepared, _key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """All derivatives; params: scheme, sigma, factors of ρ and δ, prepared: normalized gains."""
    n, scheme = len(scores), int(params[0])
    both_ways = scheme in (_NDCG1, _ARP1)
    sigma, near, far = params[1], params[2], params[3]
    order = rank_order(scores)
    x, gains = sigma * scores[order], prepared[order]
    discounts, steps = np.empty(n), np.empty(n)
    exponentials, ratios, weights = np.empty((2, n)), np.empty(n), np.empty(n)
    g, h = np.zeros(n), np.zeros(n)
    for k in range(n):
        discounts[k] = discount(k)
        steps[k] = discount(k) - discount(k + 1)
    if scheme >= _ARP1:  # no discounts
        discounts[:] = 1.0
        steps[:] = 1.0
    narrow = fill_exponentials(x, exponentials)
    value = 0.0
    for a in range(n - 1):
        fill_ratios(x, exponentials, narrow, a, a + 1, n, ratios)
        if both_ways:
            value += _add_both_ways(x, ratios, gains, discounts, a, weights, g, h)
        else:
            _fill_weights(gains, discounts, steps, near, far, a, weights)
            value += add_pairs(x, ratios, weights, a, a + 1, g, h)[0]
    gradient[order] = sigma * g
    curvature[order] = sigma * sigma * h
    return value


@dataclass(frozen=True)
class LambdaLoss(Objective):
    """Pairwise logistic losses whose weights make them bound a metric (Wang et al. 2018).

    >>> LambdaLoss().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [2.352, -2.853, 0.501]

    Parameters
    ----------
    scheme
        The weights of the pairs: ``"ndcg1"``, ``"ndcg2"``, ``"ndcg2++"`` or ``"lambdarank"`` for
        NDCG, ``"arp1"`` or ``"arp2"`` for the average rank of relevance.
    sigma
        Slope of the logistic function.
    mu
        Factor of δ in ``"ndcg2++"``; the other schemes ignore it.
    """

    name: ClassVar[str] = "lambdaloss"
    function: ClassVar[ListFunction] = lambdaloss_list
    limits: ClassVar[Limits] = {"sigma": check_positive, "mu": partial(check_between, low=0.0)}
    choices: ClassVar[Mapping[str, Sequence[str]]] = {"scheme": SCHEMES}

    scheme: Literal["ndcg1", "ndcg2", "ndcg2++", "lambdarank", "arp1", "arp2"] = "ndcg2++"
    sigma: float = 1.0
    mu: float = 10.0

    @property
    def _ranks_matter(self) -> bool:
        return self.scheme not in ("arp1", "arp2")

    @property
    def exact(self) -> bool:  # type: ignore[override]
        return not self._ranks_matter

    convex = exact

    @property
    def weighting(self) -> Weighting | None:  # type: ignore[override]
        return "gain" if self._ranks_matter else "share"

    @property
    def params(self) -> tuple[float, ...]:
        only_far, only_near = (0.0, 1.0), (1.0, 0.0)
        factors = {"ndcg2": only_far, "arp2": only_far, "lambdarank": only_near}.get(self.scheme, (1.0, self.mu))
        return (float(SCHEMES.index(self.scheme)), self.sigma, *factors)

    @property
    def float32_form(self) -> partial[PairsGradient] | None:
        if self.scheme == "ndcg1" or not self._ranks_matter:
            return None
        return partial(PairsGradient, sigma=self.sigma, near=self.params[2], far=self.params[3])

    def prepare(self, lists: ListLabels) -> Prepared:
        if self._ranks_matter:
            return normalized_gains(lists.labels, lists.offsets)
        labels = lists.labels.astype(np.float64)
        sizes = np.diff(lists.offsets)
        totals = np.bincount(np.repeat(np.arange(len(sizes)), sizes), labels, len(sizes))
        return Prepared(labels / np.repeat(np.where(totals > 0.0, totals, 1.0), sizes), lists.offsets)
