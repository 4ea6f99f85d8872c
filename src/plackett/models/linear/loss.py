r"""An objective as a function of the weights of the features: :math:`L(w) = \sum_q \ell_q(Xw)`.

Products of float32 features with float64 vectors, without a float64 copy of the features.

NumPy would convert the whole matrix first, and BLAS sums in float32 in an order that depends on
the number of threads. Here sums are float64 and run over blocks of a fixed size, so the result has
the same bits on any number of threads.

Value and gradient of an objective in a linear model, in one pass over the features.

The gradient :math:`X^\top \partial\ell/\partial s` needs the features of a list again as soon as
its scores are known. Taken list by list they are still in the cache, so the features come from
memory once per step and not twice. Partial sums belong to blocks of lists that do not depend on the
number of threads.

Conditional models over sampled rankings, in the space of features (Dubey et al. 2009).

The energy of a sampled ranking is linear in the scores and so in the weights, :math:`a_r = c_r
\cdot Xw = (X^\top c_r) \cdot w`. The products :math:`\Phi_q = C_q X` of the m rankings of a list
(m x d numbers) are made once; then a step costs O(m d) per list instead of O(m n + n d), and
scores are not needed at all. That pays where lists are longer than there are features, or nearly.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol

import numpy as np
from numba import float32, float64, int64, njit, prange, types, uint64, void
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.kernels import FLOATS, LABELS, compiled, readonly, reordered
from plackett.base.ragged import Features, Offsets, Scores, offsets_from_sizes
from plackett.data.dataset import Dataset
from plackett.objectives import Objective
from plackett.objectives.bound import BoundObjective
from plackett.objectives.conditional.kernels import COLUMNS, fill_weights
from plackett.objectives.driver import LIST_FUNCTION
from plackett.objectives.ranking_sets import coefficients_of, column_of

BLOCK = 2048
"""Rows whose partial sums are kept apart."""

Weights = NDArray[np.float64]
"""One number per feature."""


def times(features: Features | csr_array, weights: Weights) -> Scores:
    """The product X w: one number per document."""
    if isinstance(features, csr_array):
        return np.asarray(features @ weights, dtype=np.float64)
    out = np.empty(len(features))
    _times(features, weights, out)
    return out


def transposed_times(features: Features | csr_array, gradient: Scores) -> Weights:
    """The product X^T g: one number per feature."""
    if isinstance(features, csr_array):
        return np.asarray(features.T @ gradient, dtype=np.float64)
    n_blocks = (len(features) + BLOCK - 1) // BLOCK
    parts = np.zeros((n_blocks, features.shape[1]))
    _transposed_times(features, gradient, parts)
    return np.asarray(parts.sum(axis=0))


@reordered
def fill_scores(rows, weights, scores):  # type: ignore[no-untyped-def]
    """Fill the product of each row with the weights."""
    for i in range(len(rows)):
        row = rows[i]
        total = 0.0
        for j in range(len(weights)):
            total += np.float64(row[j]) * weights[j]
        scores[i] = total


@reordered
def add_combination(rows, factors, part):  # type: ignore[no-untyped-def]
    """Add the rows times their factors."""
    n = len(rows)
    # Two rows at a time: half as many loads and stores of the sums.
    for i in range(0, n - 1, 2):
        first, second = rows[i], rows[i + 1]
        a, b = factors[i], factors[i + 1]
        for j in range(len(part)):
            part[j] += np.float64(first[j]) * a + np.float64(second[j]) * b
    if n % 2:
        last, a = rows[n - 1], factors[n - 1]
        for j in range(len(part)):
            part[j] += np.float64(last[j]) * a


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _times(features, weights, out):  # type: ignore[no-untyped-def]
    n = len(features)
    for block in prange((n + BLOCK - 1) // BLOCK):
        low, high = block * BLOCK, min((block + 1) * BLOCK, n)
        fill_scores(features[low:high], weights, out[low:high])


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _transposed_times(features, gradient, parts):  # type: ignore[no-untyped-def]
    for block in prange(len(parts)):
        low, high = block * BLOCK, min((block + 1) * BLOCK, len(features))
        add_combination(features[low:high], gradient[low:high], parts[block])


_SIGNATURE = void(
    types.FunctionType(LIST_FUNCTION),
    readonly(float32, 2),  # features
    FLOATS,  # weights of the features
    LABELS,
    readonly(int64),  # offsets
    FLOATS,  # extra
    readonly(int64),  # its offsets
    readonly(uint64),  # keys
    FLOATS,  # params
    FLOATS,  # weights of the lists
    readonly(int64),  # first list of each block, and the number of lists
    float64[::1],  # values
    float64[:, ::1],  # sums of the blocks
)


def blocks_of(offsets: Offsets) -> NDArray[np.int64]:
    """The first list of each block of about BLOCK documents, and the number of lists."""
    starts = np.searchsorted(offsets[:-1], np.arange(0, offsets[-1], BLOCK))
    return np.append(np.unique(starts[starts < len(offsets) - 1]), len(offsets) - 1)


def _each_block(  # type: ignore[no-untyped-def]
    function,
    features,
    weights,
    labels,
    offsets,
    extra,
    extra_offsets,
    keys,
    params,
    list_weights,
    blocks,
    values,
    parts,
):
    for block in prange(len(parts)):
        for q in range(blocks[block], blocks[block + 1]):
            low, high = offsets[q], offsets[q + 1]
            y = labels[low:high]
            if high - low < 2 or np.max(y) == np.min(y):
                continue
            scores, gradient = np.empty(high - low), np.zeros(high - low)
            curvature = np.zeros(high - low)
            fill_scores(features[low:high], weights, scores)
            own = extra[extra_offsets[q] : extra_offsets[q + 1]]
            value = function(scores, y, own, keys[q], params, gradient, curvature)
            values[q] = list_weights[q] * value
            gradient *= list_weights[q]
            add_combination(features[low:high], gradient, parts[block])


@cache
def each_block() -> Any:
    """The driver; compiled, or loaded from the cache, at the first call."""
    options = {"parallel": True, "cache": True, "nogil": True, "error_model": "numpy"}
    return njit(_SIGNATURE, **options)(_each_block)


class Loss(Protocol):
    """What the solvers minimise, before the penalty."""

    data: Dataset

    def evaluate(self, weights: Weights) -> tuple[float, Weights]:
        """The sum over lists and its gradient."""

    def curvature(self, weights: Weights) -> Scores:
        """The curvature of each document at these weights."""


class DenseLoss:
    """Dense features, scores that are not perturbed: one pass over the features a step."""

    def __init__(self, objective: Objective, data: Dataset) -> None:
        self.data = data
        self.lists = bound(objective, data)
        self._features: Features = np.asarray(data.features)
        self._keys = self.lists.noise_keys(0)
        self._params = np.array(objective.params, dtype=np.float64)
        self._blocks = blocks_of(data.offsets)
        given = self.lists.weights
        self._list_weights = np.ones(data.n_lists) if given is None else given

    def evaluate(self, weights: Weights) -> tuple[float, Weights]:
        values = np.zeros(self.data.n_lists)
        parts = np.zeros((len(self._blocks) - 1, self.data.n_features))
        each_block()(
            self.lists.objective.function.compiled,
            self._features,
            weights,
            self.lists.labels,
            self.lists.offsets,
            *self.lists.extra,
            self._keys,
            self._params,
            self._list_weights,
            self._blocks,
            values,
            parts,
        )
        return float(np.sum(values)), np.asarray(parts.sum(axis=0))

    def curvature(self, weights: Weights) -> Scores:
        return self.lists.evaluate(times(self._features, weights)).curvature


class ScoreLoss:
    """Any features, any objective: products with the features before and after the objective."""

    def __init__(self, objective: Objective, data: Dataset) -> None:
        self.data = data
        self.lists = bound(objective, data)

    def evaluate(self, weights: Weights, step: int = 0) -> tuple[float, Weights]:
        """The sum over lists and its gradient, with the noise of a step."""
        found = self.lists.evaluate(times(self.data.features, weights), step)
        return float(np.sum(found.values)), transposed_times(self.data.features, found.gradient)

    def curvature(self, weights: Weights) -> Scores:
        return self.lists.evaluate(times(self.data.features, weights)).curvature


def is_sparse(data: Dataset) -> bool:
    """Whether the features are a sparse matrix."""
    return isinstance(data.features, csr_array)


def bound(objective: Objective, data: Dataset) -> BoundObjective:
    """The objective for the lists of a data set, with its weights."""
    each = data.document_weights
    return objective.bind(data.labels, data.offsets, data.keys, data.weights, document_weights=each)


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
    return offsets_from_sizes(sizes)


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
