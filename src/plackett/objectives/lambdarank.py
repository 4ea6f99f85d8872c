r"""LambdaRank: pairs weighted by what their swap would do to a metric.

Over all pairs with :math:`y_i > y_j`,

.. math::

    \ell = \sum \Delta_{ij} \log(1 + e^{-\sigma(s_i - s_j)}), \qquad
    \frac{\partial\ell}{\partial s_i} = -\frac{\partial\ell}{\partial s_j} =
    -\sigma\Delta_{ij}q_{ij}, \qquad
    \frac{\partial^2\ell}{\partial s_i^2} = \frac{\partial^2\ell}{\partial s_j^2} =
    \sigma^2 \Delta_{ij} q_{ij}(1 - q_{ij})

summed over the pairs of a document, with :math:`q_{ij} = 1/(1 + e^{\sigma(s_i - s_j)})` and
:math:`\Delta_{ij}` the change of the metric when i and j swap ranks in the current ranking
(:mod:`plackett.objectives.ranking`), held constant. Burges, Ragno & Le (2006), Burges (2010).

The value jumps where two scores cross and moves with the weights where ``score_norm`` or
``query_norm`` is on: the gradient is that of the value with weights frozen, so the objective is not
declared exact.

IDCG is that of the full list, whatever ``truncation``; LightGBM truncates it too, which multiplies
the pairs of a list by a constant. O(n min(n, truncation)) time, O(n) memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from plackett.base.kernels import ListFunction, compiled, list_function
from plackett.objectives.document_weights import Weighting, document_weights
from plackett.objectives.driver import LIST_FUNCTION
from plackett.objectives.float32.pairs import PairsGradient
from plackett.objectives.objective import (
    BoundObjective,
    ListLabels,
    Objective,
    Prepared,
    check_choice,
    check_count,
    check_positive,
)
from plackett.objectives.pairwise import add_pairs, fill_exponentials, fill_ratios
from plackett.objectives.ranking import (
    METRICS,
    fill_swaps,
    normalized_gains,
    prepare_swaps,
    rank_order,
)

SCORE_OFFSET = 0.01  # of the division by score differences, as in LightGBM


@compiled
def divide_by_distance(scores, a, weights):  # type: ignore[no-untyped-def]
    """Divide the weight of each pair of document a with a later one by its difference of scores."""
    s, w = scores[a + 1 :], weights[a + 1 :]
    for k in range(len(w)):
        w[k] /= SCORE_OFFSET + abs(scores[a] - s[k])


@compiled
def multiply_by_better(better, a, weights):  # type: ignore[no-untyped-def]
    """Multiply the weight of each pair of document a with a later one by its better document's."""
    for b in range(a + 1, len(weights)):
        weights[b] *= better[a] if weights[b] > 0.0 else better[b]


@compiled
def query_factor(total):  # type: ignore[no-untyped-def]
    """LightGBM's damping of lists with many pairs; total: the summed size of derivatives."""
    return np.log2(1.0 + total) / total if total > 0.0 else 1.0


@list_function(LIST_FUNCTION)
def lambdarank_list(scores, labels, prepared, _key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """All derivatives; params as in the class; prepared: normalized gains, then weights, if any."""
    sigma, score_norm, query_norm = params[0], params[2] > 0.0, params[3] > 0.0
    n = len(scores)
    rows = min(n - 1, int(params[1])) if params[1] > 0.0 else n - 1
    order = rank_order(scores)
    s, x = scores[order], sigma * scores[order]
    state, exponentials = np.empty((3, n)), np.empty((2, n))
    ratios, weights = np.empty(n), np.empty(n)
    g, h = np.zeros(n), np.zeros(n)
    prepare_swaps(int(params[5]), labels[order].astype(np.float64), prepared[:n][order], state)
    better = document_weights(prepared, n, n)[order]
    narrow = fill_exponentials(x, exponentials)
    score_norm = score_norm and s[0] != s[n - 1]
    value, total = 0.0, 0.0
    for a in range(rows):
        fill_swaps(int(params[5]), state, a, weights)
        if len(prepared) > n:
            multiply_by_better(better, a, weights)
        if score_norm:
            divide_by_distance(s, a, weights)
        fill_ratios(x, exponentials, narrow, a, a + 1, n, ratios)
        cost, size = add_pairs(x, ratios, weights, a, a + 1, g, h)
        value += cost
        total += 2.0 * sigma * size
    scale = query_factor(total) if query_norm else 1.0
    for k in range(n):
        gradient[order[k]] = scale * sigma * g[k]
        curvature[order[k]] = scale * params[4] * sigma * sigma * h[k]
    return scale * value


@dataclass(frozen=True)
class LambdaRank(Objective):
    """Pairs weighted by the change of a metric when they swap ranks (LambdaRank, LambdaMART).

    Parameters
    ----------
    sigma
        Slope of the logistic function.
    truncation
        Only pairs with at least one document among the first ``truncation`` of the current ranking
        count; None: all pairs.
    score_norm
        Divide each pair's weight by 0.01 + the distance of its scores, unless all scores of the
        list are equal.
    query_norm
        Multiply value, gradient and curvature of a list by log2(1 + L)/L, where L is the sum over
        its pairs of twice the size of their derivative. With ``score_norm`` it is LightGBM's
        ``lambdarank_norm``.
    hess_factor
        Factor of the curvature; 1 is the derivative of the gradient with weights frozen.
    weight
        Metric: ``"ndcg"``, ``"map"``, ``"err"`` or ``"mrr"``. For MAP and MRR a document is
        relevant if its label is positive; ERR takes the top grade of each list.
    """

    name: ClassVar[str] = "lambdarank"
    exact: ClassVar[bool] = False
    function: ClassVar[ListFunction] = lambdarank_list

    sigma: float = 1.0
    truncation: int | None = None
    score_norm: bool = False
    query_norm: bool = False
    hess_factor: float = 1.0
    weight: Literal["ndcg", "map", "err", "mrr"] = "ndcg"

    def __post_init__(self) -> None:
        check_positive(self.name, sigma=self.sigma, hess_factor=self.hess_factor)
        check_count(self.name, truncation=self.truncation)
        check_choice(self.name, METRICS, weight=self.weight)

    @property
    def weighting(self) -> Weighting | None:  # type: ignore[override]
        # MAP and MRR know relevant documents, and no gains.
        return "gain" if self.weight in ("ndcg", "err") else "order"

    @property
    def params(self) -> tuple[float, ...]:
        return (
            self.sigma,
            float(self.truncation or 0),
            float(self.score_norm),
            float(self.query_norm),
            self.hess_factor,
            float(METRICS.index(self.weight)),
        )

    @property
    def float32_form(self) -> Callable[[BoundObjective], PairsGradient] | None:
        if self.weight != "ndcg":
            return None
        return partial(
            PairsGradient,
            sigma=self.sigma,
            truncation=self.truncation or 0,
            score_norm=self.score_norm,
            query_norm=self.query_norm,
            hess_factor=self.hess_factor,
        )

    def prepare(self, lists: ListLabels) -> Prepared:
        return normalized_gains(lists.labels, lists.offsets)
