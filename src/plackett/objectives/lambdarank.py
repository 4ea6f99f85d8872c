r"""LambdaRank: pairs weighted by what their swap would do to a metric.

Over all pairs with :math:`y_i > y_j`,

.. math::

    \ell = \sum \Delta_{ij} \log(1 + e^{-\sigma(s_i - s_j)}), \qquad
    \frac{\partial\ell}{\partial s_i} = -\frac{\partial\ell}{\partial s_j} =
    -\sigma\Delta_{ij}q_{ij}, \qquad
    \frac{\partial^2\ell}{\partial s_i^2} = \frac{\partial^2\ell}{\partial s_j^2} =
    \sigma^2 \Delta_{ij} q_{ij}(1 - q_{ij})

summed over the pairs of a document, with :math:`q_{ij} = 1/(1 + e^{\sigma(s_i - s_j)})` and
:math:`\Delta_{ij}` the change of the metric when i and j swap ranks in the current ranking,
held constant. Burges, Ragno & Le (2006), Burges (2010).

The value jumps where two scores cross, and with ``score_norm`` or ``query_norm`` the weights depend on the scores. The
gradient is that of the value with constant weights, so the objective is not declared exact.

IDCG is that of the full list for every ``truncation``; LightGBM truncates it too, which multiplies
the pairs of a list by a constant: ``idcg_truncation`` does the same. O(n min(n, truncation)) time, O(n) memory.

**Change of the metric.** For documents at ranks a < b (counted from 1), with gains G, discounts D
and relevance z (label > 0):

- ``ndcg``: :math:`|G_a - G_b|\,(D_a - D_b)/\mathrm{IDCG}`
- ``map``: with :math:`R_k` relevant documents and :math:`S_k = \sum_{j \le k} z_j/j` up to rank k, :math:`(R_a + 1)/a -
  R_b/b + S_{b-1} - S_a` if b is relevant and a is not, :math:`R_a/a - R_b/b + S_{b-1} - S_a` if a is relevant and b is
  not, both divided by the number of relevant documents
- ``err``: with :math:`r = (2^y - 1)/2^{\max y}`, :math:`T_a = \prod_{k<a}(1 - r_k)` and :math:`Q_k = \prod_{a<j<k}(1 -
  r_j)`, :math:`T_a\,|r_a - r_b|\,(1/a - \sum_{a<k<b} Q_k r_k/k - Q_b/b)` (the products of the two documents themselves
  cancel)
- ``mrr``: only the first relevant rank f and the second f' matter: :math:`1/a - 1/f` if b is
  relevant and a < f; :math:`1/f - 1/\min(b, f')` if a = f and b is not relevant

Each is O(1) per pair, given sums over prefixes of the ranking, or a running sum along b.
Burges, Ragno & Le (2006); Donmez, Svore & Burges (2009) for metrics other than NDCG.

**LambdaGap**: pairs that are far enough apart to change precision at k (Adàlia et al. 2025). The precision of the first
k changes only when a document crosses rank k, which gives LambdaRank few pairs to learn from. LambdaGap compares
relevant with irrelevant documents (label > 0 or not) by their distance in the current ranking alone,

.. math:: \ell = \sum_{y_i > 0 = y_j} w_{ij} \log(1 + e^{-\sigma(s_i - s_j)}), \qquad
    w_{ij} = [\,|\pi_i - \pi_j| = k\,] \text{ (S)} \quad\text{or}\quad
    [\,|\pi_i - \pi_j| \ge k\,] \text{ (X)}.

Lists of at most k documents have no pairs. Like LambdaRank it is not declared exact. O(n) time for S, O(n²) for X.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from plackett.base.errors import UsageError
from plackett.base.gains import discount, scaled_gain
from plackett.base.kernels import ListFunction, compiled, list_function
from plackett.objectives.driver import LIST_FUNCTION, Weighting, document_weights
from plackett.objectives.float32 import SCORE_OFFSET, PairsGradient
from plackett.objectives.objective import (
    Limits,
    ListLabels,
    Objective,
    Prepared,
    check_count,
    check_positive,
    check_whole,
)
from plackett.objectives.pairwise import add_pair, add_pairs, fill_exponentials, fill_ratios
from plackett.objectives.ranking import normalized_gains, rank_order

NDCG, MAP, ERR, MRR = 0, 1, 2, 3
SWAP_METRICS = ("ndcg", "map", "err", "mrr")


@compiled
def prepare_swaps(metric, labels, gains, state):  # type: ignore[no-untyped-def]
    """Fill ``state`` (3 x n) for :func:`fill_swaps`; labels and gains are those by rank."""
    n = len(labels)
    if metric == NDCG:
        for k in range(n):
            state[0, k] = gains[k]
            state[1, k] = discount(k)
    elif metric == MAP:
        relevant, inverse = 0.0, 0.0
        for k in range(n):
            state[0, k] = 1.0 if labels[k] > 0.0 else 0.0
            relevant += state[0, k]
            inverse += state[0, k] / (k + 1.0)
            state[1, k] = relevant / (k + 1.0)
            state[2, k] = inverse
    elif metric == ERR:
        top, reach = np.max(labels), 1.0
        for k in range(n):
            state[0, k] = scaled_gain(labels[k], top)
            state[1, k] = reach
            reach *= 1.0 - state[0, k]
    else:
        for k in range(n):
            state[0, k] = 1.0 if labels[k] > 0.0 else 0.0
        first = np.argmax(state[0])
        second = first + 1
        while second < n and state[0, second] == 0.0:
            second += 1
        state[1, :] = first
        state[2, :] = second


@compiled
def fill_swaps(metric, state, a, changes):  # type: ignore[no-untyped-def]
    """Fill the change of the metric when rank a swaps with each later rank, counted from 0.

    It is positive if the document at rank a has the higher label, negative if the lower.
    """
    if metric == NDCG:
        _ndcg(state[0], state[1], a, changes)
    elif metric == MAP:
        _average_precision(state[0], state[1], state[2], a, changes)
    elif metric == ERR:
        _expected_reciprocal_rank(state[0], state[1, a], a, changes)
    else:
        _reciprocal_rank(state[0], int(state[1, 0]), int(state[2, 0]), a, changes)


@compiled
def _ndcg(gains, discounts, a, changes):  # type: ignore[no-untyped-def]
    g, d, out = gains[a + 1 :], discounts[a + 1 :], changes[a + 1 :]
    gain, discount = gains[a], discounts[a]
    for k in range(len(out)):
        out[k] = (gain - g[k]) * (discount - d[k])


@compiled
def _average_precision(relevant, precision, inverse, a, changes):  # type: ignore[no-untyped-def]
    n = len(relevant)
    scale = 1.0 / (precision[n - 1] * n)
    for b in range(a + 1, n):
        between = inverse[b - 1] - inverse[a]
        change = precision[a] - precision[b] + between
        if relevant[b] > relevant[a]:
            change += 1.0 / (a + 1.0)
        changes[b] = (relevant[a] - relevant[b]) * change * scale


@compiled
def _expected_reciprocal_rank(stops, reach, a, changes):  # type: ignore[no-untyped-def]
    passed, between = 1.0, 0.0
    for b in range(a + 1, len(stops)):
        rank = b + 1.0
        worth = 1.0 / (a + 1.0) - between - passed / rank
        changes[b] = reach * (stops[a] - stops[b]) * worth
        between += passed * stops[b] / rank
        passed *= 1.0 - stops[b]


@compiled
def _reciprocal_rank(relevant, first, second, a, changes):  # type: ignore[no-untyped-def]
    for b in range(a + 1, len(relevant)):
        changes[b] = 0.0
        if relevant[b] > relevant[a] and a < first:
            changes[b] = 1.0 / (first + 1.0) - 1.0 / (a + 1.0)
        elif relevant[a] > relevant[b] and a == first:
            changes[b] = 1.0 / (first + 1.0) - 1.0 / (min(b, second) + 1.0)


@compiled
def divide_by_distance(scores, a, weights):  # type: ignore[no-untyped-def]
    """Divide the weight of each pair of document a with a later one by the distance of scores."""
    s, w = scores[a + 1 :], weights[a + 1 :]
    for k in range(len(w)):
        w[k] /= SCORE_OFFSET + abs(scores[a] - s[k])


@compiled
def multiply_by_better(better, a, weights):  # type: ignore[no-untyped-def]
    """Multiply the weight of each pair of document a with a later one by that of the better one."""
    for b in range(a + 1, len(weights)):
        weights[b] *= better[a] if weights[b] > 0.0 else better[b]


@compiled
def query_factor(total):  # type: ignore[no-untyped-def]
    """LightGBM's damping of lists with many pairs; total: the summed size of derivatives."""
    return np.log2(1.0 + total) / total if total > 0.0 else 1.0


@list_function(LIST_FUNCTION)
def lambdarank_list(scores, labels, prepared, _key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """All derivatives; params: the fields of the class; prepared: normalized gains, then weights, if any."""
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
    gradient[order] = scale * sigma * g
    curvature[order] = scale * params[4] * sigma * sigma * h
    return scale * value


@dataclass(frozen=True)
class LambdaRank(Objective):
    """Pairs weighted by the change of a metric when they swap ranks (LambdaRank, LambdaMART).

    >>> LambdaRank().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [0.278, -0.212, -0.066]

    Parameters
    ----------
    sigma
        Slope of the logistic function.
    truncation
        Only pairs with at least one document among the first ``truncation`` of the current ranking
        count; None: all pairs.
    idcg_truncation
        For NDCG, divide by the ideal DCG of this many documents, as LightGBM does (2.x:
        ``max_position``, 20; later its truncation level, 30); None: of the whole list.
    score_norm
        Divide each pair's weight by 0.01 + the distance of its scores, unless all scores of the list are equal.
    query_norm
        Multiply value, gradient and curvature of a list by log2(1 + L)/L, where L is the sum over its pairs of twice
        the size of their derivative. With ``score_norm`` it is LightGBM's ``lambdarank_norm``.
    hess_factor
        Factor of the curvature; 1 is the derivative of the gradient with constant weights.
    weight
        Metric: ``"ndcg"``, ``"map"``, ``"err"`` or ``"mrr"``. For MAP and MRR a document is
        relevant if its label is positive; ERR takes the top grade of each list.
    """

    name: ClassVar[str] = "lambdarank"
    exact: ClassVar[bool] = False
    function: ClassVar[ListFunction] = lambdarank_list
    limits: ClassVar[Limits] = {
        "sigma": check_positive,
        "hess_factor": check_positive,
        "truncation": check_count,
        "idcg_truncation": check_count,
    }
    choices: ClassVar[Mapping[str, Sequence[str]]] = {"weight": SWAP_METRICS}

    sigma: float = 1.0
    truncation: int | None = None
    score_norm: bool = False
    query_norm: bool = False
    hess_factor: float = 1.0
    weight: Literal["ndcg", "map", "err", "mrr"] = "ndcg"
    idcg_truncation: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.idcg_truncation and self.weight != "ndcg":
            raise UsageError(f"{self.name} has an ideal DCG only with weight='ndcg'; leave idcg_truncation out.")

    @property
    def weighting(self) -> Weighting | None:  # type: ignore[override]
        # MAP and MRR know relevant documents, and no gains.
        return "gain" if self.weight in ("ndcg", "err") else "order"

    @property
    def float32_form(self) -> partial[PairsGradient] | None:
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
        return normalized_gains(lists.labels, lists.offsets, self.idcg_truncation)


@list_function(LIST_FUNCTION)
def lambdagap_list(scores, labels, prepared, _key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """All derivatives; params: kind, k and sigma, prepared: document weights, if any."""
    n, gap, sigma = len(scores), int(params[1]), params[2]
    better = document_weights(prepared, n, 0)
    order = rank_order(scores)
    value = 0.0
    for a in range(n - gap):
        i = order[a]
        for b in range(a + gap, n if params[0] > 0.0 else a + gap + 1):
            j = order[b]
            if (labels[i] > 0.0) == (labels[j] > 0.0):
                continue
            high, low = (i, j) if labels[i] > labels[j] else (j, i)
            value += add_pair(scores, high, low, better[high], sigma, gradient, curvature)
    return value


@dataclass(frozen=True)
class LambdaGap(Objective):
    """Logistic loss of pairs at least ``cutoff`` ranks apart, for precision (Adàlia et al. 2025).

    >>> LambdaGap(cutoff=1).evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [1.289, -0.599, -0.69]

    Parameters
    ----------
    kind
        ``"s"``: pairs exactly ``cutoff`` ranks apart; ``"x"``: at least.
    cutoff
        The k of precision at k.
    sigma
        Slope of the logistic function.
    """

    name: ClassVar[str] = "lambdagap"
    exact: ClassVar[bool] = False
    weighting: ClassVar[Weighting | None] = "order"
    function: ClassVar[ListFunction] = lambdagap_list
    limits: ClassVar[Limits] = {"cutoff": check_whole, "sigma": check_positive}
    choices: ClassVar[Mapping[str, Sequence[str]]] = {"kind": ("s", "x")}

    kind: Literal["s", "x"] = "x"
    cutoff: int = 3
    sigma: float = 1.0
