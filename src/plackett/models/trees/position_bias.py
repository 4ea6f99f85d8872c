r"""Unbiased LambdaMART: position bias estimated while trees are boosted on clicks (Hu et al. 2019).

The probability of a click at position k is :math:`t^+_k` times that of relevance, and the probability of no click there
is :math:`t^-_k` times that of irrelevance, both relative to position 1. A pair of a clicked document i and an unclicked
document j is weighted by the inverse of both,

.. math:: \ell = \sum_{(i,j)} \frac{\ell_{ij}}{t^+_{k_i} t^-_{k_j}}, \qquad
    \ell_{ij} = |\Delta\mathrm{NDCG}_{ij}| \log(1 + e^{-\sigma(s_i - s_j)}),

and with the scores fixed the ratios have the closed forms

.. math::

    t^+_k = \Big(\frac{\sum_l M_{kl}/t^-_l}{\sum_l M_{1l}/t^-_l}\Big)^{1/(p+1)}, \qquad
    t^-_l = \Big(\frac{\sum_k M_{kl}/t^+_k}{\sum_k M_{k1}/t^+_k}\Big)^{1/(p+1)}, \qquad
    M_{kl} = \sum_{k_i = k,\; k_j = l} \ell_{ij}.

The paper updates each once per tree. Here the two equations are solved together before each tree, from the matrix M
alone. The ratios are then a function of the scores, so a resumed fit needs no other state. p pulls the ratios to 1.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.gains import discount
from plackett.base.kernels import parallel
from plackett.base.ragged import Scores
from plackett.data import Dataset
from plackett.objectives import LambdaRank, Objective
from plackett.objectives.ranking import normalized_gains, rank_order

_DEEPEST = 100
"""Positions from here on are pooled."""
_LEAST = 0.01
"""Lower bound on ratios, so that a single click does not outweigh all others."""
_UPDATES = 30
_BLOCKS = 16  # blocks of lists, summed in order whatever the number of threads


class PositionBias(NamedTuple):
    """Ratios to position 1, for positions from 1 on; NaN where a position has no such document."""

    clicked: NDArray[np.float64]
    unclicked: NDArray[np.float64]


class UnbiasedGradients:
    """Gradient and curvature of LambdaRank over pairs weighted by the inverse of their position bias."""

    def __init__(self, objective: Objective, data: Dataset, p: float) -> None:
        plain = isinstance(objective, LambdaRank) and objective == LambdaRank(sigma=objective.sigma)
        if not plain or not isinstance(objective, LambdaRank):
            raise UsageError(
                f'position_bias= needs the objective "lambdarank" with no setting but sigma, got {objective!r}.'
            )
        if not 0.0 <= p < np.inf:
            raise UsageError(f"position_bias= is the p of its estimates, at least 0, got {p!r}.")
        if data.positions is None:
            raise DataError(
                "position_bias= needs the position of each document: make the data with Dataset.from_clicks(..., "
                'by="impression"), or give positions= to Dataset.from_arrays.'
            )
        if data.document_weights is not None and not np.all(data.document_weights == 1.0):
            raise UsageError(
                "position_bias= estimates the bias that document weights already correct; make the data without "
                "propensities."
            )
        self._sigma, self._exponent = objective.sigma, 1.0 / (1.0 + p)
        self._labels, self._offsets = data.labels, data.offsets
        self._gains = normalized_gains(data.labels, data.offsets).values
        self._places = np.minimum(data.positions, _DEEPEST) - 1
        self._weights = np.ones(data.n_lists) if data.weights is None else data.weights
        self._size = int(self._places.max()) + 1

    def __call__(
        self,
        scores: Scores,
        step: int,  # noqa: ARG002 - not random
        drawn: NDArray[np.bool_] | None = None,  # noqa: ARG002 - the bias is estimated on all lists
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Gradient and curvature at these scores."""
        bias = self.estimate(scores)
        inverse = [1.0 / np.nan_to_num(ratios, nan=1.0) for ratios in bias]
        gradient, curvature = np.zeros(len(scores)), np.zeros(len(scores))
        self._add_pairs(scores, *inverse, gradient, curvature, np.zeros((_BLOCKS, 0, 0)))
        return gradient, curvature

    def estimate(self, scores: Scores) -> PositionBias:
        """The position bias at these scores."""
        sums = np.zeros((_BLOCKS, self._size, self._size))
        none = np.empty(0)
        self._add_pairs(scores, none, none, none, none, sums)
        return solve_bias(sums.sum(axis=0), self._exponent)

    def _add_pairs(self, scores: Scores, *outputs: NDArray[np.float64]) -> None:
        lists = (np.asarray(scores, np.float64), self._labels, self._gains, self._places, self._offsets, self._weights)
        _add_pairs(*lists, self._sigma, *outputs)


def solve_bias(losses: NDArray[np.float64], exponent: float) -> PositionBias:
    """The ratios that satisfy both closed forms, given the summed losses of pairs of positions."""
    clicked, unclicked = np.ones(len(losses)), np.ones(len(losses))
    for _ in range(_UPDATES):
        clicked = _ratios(losses @ (1.0 / unclicked), exponent)
        unclicked = _ratios((1.0 / clicked) @ losses, exponent)
    return PositionBias(np.where(losses.any(axis=1), clicked, np.nan), np.where(losses.any(axis=0), unclicked, np.nan))


def _ratios(sums: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
    first = sums[np.argmax(sums > 0.0)]  # position 1, unless it never had such a document
    if not first > 0.0:
        return np.ones(len(sums))
    return np.asarray(np.clip((sums / first) ** exponent, _LEAST, 1.0 / _LEAST))


@parallel
def _add_pairs(  # type: ignore[no-untyped-def]
    scores, labels, gains, places, offsets, weights, sigma, clicked, unclicked, gradient, curvature, sums
):
    """Add up the losses of pairs by position, or, if ``gradient`` is not empty, their derivatives."""
    n_lists = len(offsets) - 1
    for block in prange(len(sums)):
        for q in range(block * n_lists // len(sums), (block + 1) * n_lists // len(sums)):
            low, high = offsets[q], offsets[q + 1]
            order = rank_order(scores[low:high])
            for a in range(high - low):
                for b in range(a + 1, high - low):
                    i, j = low + order[a], low + order[b]
                    if labels[i] == labels[j]:
                        continue
                    delta = weights[q] * abs(gains[i] - gains[j]) * (discount(a) - discount(b))
                    if labels[i] < labels[j]:
                        i, j = j, i
                    x = sigma * (scores[i] - scores[j])
                    wrong = 1.0 / (1.0 + np.exp(min(x, 700.0)))
                    if len(gradient) == 0:
                        loss = np.log1p(np.exp(-x)) if x > -30.0 else -x
                        sums[block, places[i], places[j]] += delta * loss
                        continue
                    delta *= clicked[places[i]] * unclicked[places[j]]
                    gradient[i] -= sigma * delta * wrong
                    gradient[j] += sigma * delta * wrong
                    curvature[i] += sigma * sigma * delta * wrong * (1.0 - wrong)
                    curvature[j] += sigma * sigma * delta * wrong * (1.0 - wrong)
