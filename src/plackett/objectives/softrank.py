r"""SoftRank: expected NDCG when scores are Gaussian (Taylor et al. 2008).

Each score is drawn from :math:`N(s_i, \sigma^2)`, independently in each comparison, so that i beats
j with probability :math:`b_{ij} = \Phi((s_i - s_j)/(\sqrt2\sigma))`, and the number of documents
that beat j has the distribution :math:`p_j` of a sum of independent coin flips. With discounts
:math:`D_r = 1/\log_2(2 + r)`, r counted from 0,

.. math:: \ell = -\frac{1}{\mathrm{IDCG}} \sum_j (2^{y_j} - 1) \sum_r D_r\, p_j(r).

**Gradient.** :math:`p_j` is linear in each coin: with :math:`p_{j \setminus i}` the distribution
without document i,

.. math:: A_{ji} = \frac{\partial\ell}{\partial b_{ij}} =
    \frac{2^{y_j} - 1}{\mathrm{IDCG}} \sum_r p_{j \setminus i}(r)\,(D_r - D_{r+1}) \ge 0, \qquad
    \frac{\partial\ell}{\partial s_k} = \sum_{i \ne k} f_{ik}(A_{ik} - A_{ki}), \qquad
    f_{ik} = \frac{e^{-(s_i - s_k)^2/4\sigma^2}}{2\sigma\sqrt\pi}.

:math:`p_{j \setminus i}` follows from :math:`p_j(r) = b\,p_{j \setminus i}(r-1) + (1-b)\,p_{j
\setminus i}(r)` in O(n): upwards from r = 0 where b ≤ 1/2, downwards from the end where b > 1/2.
Each step multiplies the error made so far by at most :math:`\min(b, 1-b)/\max(b, 1-b) \le 1`, so
errors never grow beyond their sum.

**Curvature.** Second derivatives by two coins of the same law are never positive, because D is
convex. What is left is at most :math:`\sum_i |f'_{ik}|\,(A_{ik} + A_{ki})`, with :math:`|f'| = f
|s_i - s_k|/\tau^2` and :math:`\tau = \sqrt2\sigma`; taken with :math:`\max(\tau, |s_i - s_k|)` in
place of the distance, because f' is zero at ties, it bounds the diagonal of the Hessian and no
Newton step exceeds :math:`\tau`, the width of the smoothing. A floor of 1e-6 of the list's mean
keeps quotients finite.

O(n⁺n²) time, where n⁺ documents are relevant, O(n) memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc
from typing import ClassVar

import numpy as np

from plackett.base.gains import discount
from plackett.base.kernels import ListFunction, compiled, list_function
from plackett.objectives.driver import LIST_FUNCTION, Weighting
from plackett.objectives.objective import ListLabels, Objective, Prepared, check_positive
from plackett.objectives.pairwise import raise_to_floor
from plackett.objectives.ranking import normalized_gains


@compiled
def _fill_law(beats, loses, j, law):  # type: ignore[no-untyped-def]
    """Fill the law of the number of documents above j; beats[i]: probability that i is."""
    law[:] = 0.0
    law[0] = 1.0
    count = 0
    for i in range(len(beats)):
        if i == j:
            continue
        count += 1
        for r in range(count, 0, -1):
            law[r] = law[r] * loses[i] + law[r - 1] * beats[i]
        law[0] *= loses[i]


@compiled
def _cost_of_defeat(law, drops, beat, lose):  # type: ignore[no-untyped-def]
    """Mean drop of the discount by one more document above, under the law without one coin."""
    last = len(law) - 1
    cost, rest = 0.0, 0.0
    if beat <= lose:
        inverse, back = 1.0 / lose, beat / lose
        for r in range(last):
            rest = law[r] * inverse - rest * back
            cost += rest * drops[r]
    else:
        inverse, back = 1.0 / beat, lose / beat
        for r in range(last, 0, -1):
            rest = law[r] * inverse - rest * back
            cost += rest * drops[r - 1]
    return cost


@compiled
def _add_defeats(scores, sigma, beats, loses, law, drops, gain, j, gradient, curvature):  # type: ignore[no-untyped-def]
    """Add what the law of document j contributes to the derivatives by all scores."""
    width = np.sqrt(2.0) * sigma
    for i in range(len(scores)):
        distance = abs(scores[i] - scores[j])
        density = np.exp(-((distance / (2.0 * sigma)) ** 2)) / (2.0 * sigma * np.sqrt(np.pi))
        if i == j or density == 0.0:
            continue
        force = density * gain * _cost_of_defeat(law, drops, beats[i], loses[i])
        bend = abs(force) * max(width, distance) / (width * width)
        gradient[i] += force
        gradient[j] -= force
        curvature[i] += bend
        curvature[j] += bend


@list_function(LIST_FUNCTION)
def softrank_list(scores, _labels, prepared, _key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: sigma, prepared: normalized gains."""
    n, sigma = len(scores), params[0]
    discounts, drops = np.empty(n), np.empty(n)
    beats, loses, law = np.empty(n), np.empty(n), np.empty(n)
    for r in range(n):
        discounts[r] = discount(r)
        drops[r] = discount(r) - discount(r + 1)
    value = 0.0
    for j in range(n):
        if prepared[j] == 0.0:
            continue
        for i in range(n):
            lead = (scores[i] - scores[j]) / (2.0 * sigma)
            beats[i], loses[i] = 0.5 * erfc(-lead), 0.5 * erfc(lead)
        _fill_law(beats, loses, j, law)
        for r in range(n):
            value -= prepared[j] * law[r] * discounts[r]
        _add_defeats(scores, sigma, beats, loses, law, drops, prepared[j], j, gradient, curvature)
    raise_to_floor(curvature)
    return value


@dataclass(frozen=True)
class SoftRank(Objective):
    """Minus expected NDCG under Gaussian scores (Taylor et al. 2008).

    Parameters
    ----------
    sigma
        Standard deviation of each score.
    """

    name: ClassVar[str] = "softrank"
    weighting: ClassVar[Weighting | None] = "gain"
    function: ClassVar[ListFunction] = softrank_list

    sigma: float = 0.5

    def __post_init__(self) -> None:
        check_positive(self.name, sigma=self.sigma)

    @property
    def params(self) -> tuple[float, ...]:
        return (self.sigma,)

    def prepare(self, lists: ListLabels) -> Prepared:
        return normalized_gains(lists.labels, lists.offsets)
