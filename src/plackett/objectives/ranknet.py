r"""RankNet: the logistic loss of every pair of documents with different labels.

.. math::

    \ell = \sum_{y_i > y_j} \log(1 + e^{-\sigma(s_i - s_j)}), \qquad
    \frac{\partial\ell}{\partial s_i} = -\frac{\partial\ell}{\partial s_j} = -\sigma q_{ij}, \qquad
    \frac{\partial^2\ell}{\partial s_i^2} = \frac{\partial^2\ell}{\partial s_j^2} =
    \sigma^2 q_{ij}(1 - q_{ij})

summed over the pairs of a document, with :math:`q_{ij} = 1/(1 + e^{\sigma(s_i - s_j)})`. Convex;
the curvature is exact. Burges et al. (2005). Time grows with the number of pairs whose labels
differ (documents are visited by label, so that others never meet); O(n) memory. The weight of a
pair is the document weight of its better document.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plackett.base.kernels import ListFunction, list_function
from plackett.objectives.document_weights import Weighting, document_weights
from plackett.objectives.driver import LIST_FUNCTION
from plackett.objectives.objective import ListLabels, Objective, Prepared, check_positive
from plackett.objectives.pairwise import add_pairs, fill_exponentials, fill_ratios
from plackett.objectives.ranking import label_order


@list_function(LIST_FUNCTION)
def ranknet_list(scores, labels, prepared, _key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """All derivatives; params: sigma, prepared: documents by falling label, and weights, if any."""
    n = len(scores)
    sigma, order = params[0], prepared[:n].astype(np.int64)
    x, better = sigma * scores[order], document_weights(prepared, n, n)[order]
    exponentials, ratios, weights = np.empty((2, n)), np.empty(n), np.ones(n)
    g, h = np.zeros(n), np.zeros(n)
    narrow = fill_exponentials(x, exponentials)
    value = 0.0
    lower = 0  # where labels lower than that of document i begin
    for i in range(n):
        while lower < n and labels[order[lower]] == labels[order[i]]:
            lower += 1
        if len(prepared) > n:
            weights[lower:] = better[i]
        fill_ratios(x, exponentials, narrow, i, lower, n, ratios)
        value += add_pairs(x, ratios, weights, i, lower, g, h)[0]
    for k in range(n):
        gradient[order[k]] = sigma * g[k]
        curvature[order[k]] = sigma * sigma * h[k]
    return value


@dataclass(frozen=True)
class RankNet(Objective):
    """The logistic loss of all pairs with different labels (Burges et al. 2005).

    Parameters
    ----------
    sigma
        Slope of the logistic function.
    """

    name: ClassVar[str] = "ranknet"
    convex: ClassVar[bool] = True
    weighting: ClassVar[Weighting | None] = "order"
    function: ClassVar[ListFunction] = ranknet_list

    sigma: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self.name, sigma=self.sigma)

    @property
    def params(self) -> tuple[float, ...]:
        return (self.sigma,)

    def prepare(self, lists: ListLabels) -> Prepared:
        return label_order(lists.labels, lists.offsets)
