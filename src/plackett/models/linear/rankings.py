r"""Conditional models over sampled rankings, in the space of features (Dubey et al. 2009).

The energy of a sampled ranking is linear in the scores and so in the weights, :math:`a_r = c_r
\cdot Xw = (X^\top c_r) \cdot w`. The products :math:`\Phi_q = C_q X` of the m rankings of a list
(m x d numbers) are made once; then a step costs O(m d) per list instead of O(m n + n d), and
scores are not needed at all. That pays where lists are longer than there are features, or nearly.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from plackett.base.kernels import compiled
from plackett.base.ragged import Offsets, Scores, from_sizes
from plackett.data.dataset import Dataset
from plackett.models.linear.fused import blocks_of
from plackett.models.linear.losses import bound
from plackett.models.linear.products import Weights, add_combination, fill_scores, times
from plackett.objectives import Objective
from plackett.objectives.conditional.kernels import COLUMNS, fill_weights
from plackett.objectives.ranking_sets import coefficients_of, column_of


class RankingLoss:
    """A conditional model over sampled rankings whose products with the features are kept."""

    def __init__(self, objective: Objective, data: Dataset) -> None:
        self.data = data
        self.lists = bound(objective, data)
        self.ranking_offsets = _counts(self.lists.extra.values, self.lists.extra.offsets)
        n_rankings = int(self.ranking_offsets[-1])
        self.products = np.empty((n_rankings, data.n_features), dtype=np.float32)
        """X^T c of each ranking."""
        self.losses = np.empty(n_rankings)
        """The loss of each ranking."""
        _fill_products(
            np.asarray(data.features),
            data.offsets,
            *self.lists.extra,
            self.ranking_offsets,
            self.products,
            self.losses,
        )
        self._loss = objective.params[0]
        self._blocks = blocks_of(self.ranking_offsets)
        given = self.lists.weights
        self._list_weights = np.ones(data.n_lists) if given is None else given

    def evaluate(self, weights: Weights) -> tuple[float, Weights]:
        values = np.zeros(self.data.n_lists)
        parts = np.zeros((len(self._blocks) - 1, self.data.n_features))
        _evaluate(
            self._loss,
            self.products,
            self.losses,
            self.ranking_offsets,
            weights,
            self._list_weights,
            self._blocks,
            values,
            parts,
        )
        return float(np.sum(values)), np.asarray(parts.sum(axis=0))

    def curvature(self, weights: Weights) -> Scores:
        return self.lists.evaluate(times(self.data.features, weights)).curvature


def products_are_smaller(data: Dataset, samples: int) -> bool:
    """Whether a step is cheaper with products: m d against m n + n d numbers, over all lists."""
    n_docs, n_lists, d = data.n_docs, data.n_lists, data.n_features
    return n_lists * samples * d <= samples * n_docs + n_docs * d


def _counts(stored: NDArray[np.float64], offsets: Offsets) -> Offsets:
    """Offsets of the rankings of each list."""
    present = offsets[1:] > offsets[:-1]
    sizes = np.zeros(len(offsets) - 1, dtype=np.int64)
    sizes[present] = stored[offsets[:-1][present]].astype(np.int64)
    return from_sizes(sizes)


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _fill_products(features, offsets, extra, extra_offsets, where, products, losses):  # type: ignore[no-untyped-def]
    for q in prange(len(offsets) - 1):
        if where[q + 1] > where[q]:
            stored = extra[extra_offsets[q] : extra_offsets[q + 1]]
            rows = features[offsets[q] : offsets[q + 1]]
            _fill_list(stored, rows, products[where[q] : where[q + 1]])
            losses[where[q] : where[q + 1]] = column_of(stored, 0)


@compiled
def _fill_list(stored, rows, products):  # type: ignore[no-untyped-def]
    coefficients = coefficients_of(stored, len(rows), COLUMNS)
    total = np.empty(rows.shape[1])
    for r in range(len(products)):
        total[:] = 0.0
        for i in range(len(rows)):
            factor = np.float64(coefficients[r, i])
            if factor != 0.0:  # rankings near the ideal one differ from it in few documents
                for j in range(len(total)):
                    total[j] += factor * rows[i, j]
        products[r] = total


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _evaluate(loss, products, losses, where, weights, list_weights, blocks, values, parts):  # type: ignore[no-untyped-def]
    for block in prange(len(parts)):
        for q in range(blocks[block], blocks[block + 1]):
            low, high = where[q], where[q + 1]
            if low == high:
                continue
            energies, shares = np.empty(high - low), np.empty(high - low)
            slopes, bends = np.empty(high - low), np.empty(high - low)
            fill_scores(products[low:high], weights, energies)
            value = fill_weights(loss, losses[low:high], energies, shares, slopes, bends)
            values[q] = list_weights[q] * value
            slopes *= list_weights[q]
            add_combination(products[low:high], slopes, parts[block])
