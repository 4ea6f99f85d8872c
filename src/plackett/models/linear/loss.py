r"""An objective as a function of the weights of the features: :math:`L(w) = \sum_q \ell_q(Xw)`.

:func:`make_loss` chooses the cheapest of three forms. :class:`DenseLoss` reads dense features once per evaluation, list
by list, and uses each list while it is in the cache. :class:`ScoreLoss` supports any features and any objective.
:class:`RankingLoss` is for conditional models over m sampled rankings (Dubey et al. 2009), whose energies are linear in
the weights, :math:`a_r = c_r \cdot Xw = (X^\top c_r) \cdot w`: with the products stored, an evaluation costs O(m d) per
list instead of O(m n + n d).

Features stay float32 while sums are float64; NumPy would first copy the whole matrix to float64. Partial sums are over
blocks of a fixed size, so results have the same bits for any number of threads, which BLAS does not guarantee.
"""

from typing import Any, Protocol

import numpy as np
from numba import float32, float64, int64, uint64, void
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.kernels import FLOATS, INTEGERS, LABELS, compiled, function_maker, list_function, readonly, reordered
from plackett.base.ragged import Features, Offsets, Scores, offsets_from_sizes
from plackett.base.threads import run_parallel
from plackett.data import Dataset
from plackett.models.fit_context import bind_objective
from plackett.models.linear.convergence import Weights
from plackett.objectives import Objective, Stochastic
from plackett.objectives.conditional.losses import COLUMNS, fill_weights, sampled_list
from plackett.objectives.driver import LIST_FUNCTION, has_one_level
from plackett.objectives.ranking import coefficients_of, column_of

BLOCK = 2048
"""Documents (or rankings) that share a partial sum."""


class LinearLoss(Protocol):
    """What the solvers minimize, before the penalty."""

    data: Dataset

    def evaluate(self, weights: Weights) -> tuple[float, Weights]:
        """The sum over lists and its gradient."""

    def curvature(self, weights: Weights) -> Scores:
        """The curvature of each document at these weights."""


def make_loss(objective: Objective, data: Dataset) -> LinearLoss:
    """The objective as a function of the weights, in its cheapest form."""
    # The kernels of the other two skip lists with one label.
    if isinstance(objective, Stochastic) or isinstance(data.features, csr_array) or objective.uses_one_level:
        return ScoreLoss(objective, data)
    if objective.function is sampled_list:
        samples: int = objective.samples  # type: ignore[attr-defined] # sampled objectives have it
        if products_are_smaller(data, samples):
            return RankingLoss(objective, data)
    return DenseLoss(objective, data)


class _BoundLoss:
    """An objective bound to the lists of a dataset."""

    def __init__(self, objective: Objective, data: Dataset) -> None:
        self.data = data
        self.lists = bind_objective(objective, data)
        self._list_weights = np.ones(data.n_lists) if self.lists.weights is None else self.lists.weights

    def _sum_blocks(self, kernel: Any, blocks: NDArray[np.int64], *arguments: Any) -> tuple[float, Weights]:
        """Run a kernel on blocks of lists; return the sum over lists and its gradient."""
        values = np.zeros(self.data.n_lists)
        parts = np.zeros((len(blocks) - 1, self.data.n_features))
        run_parallel(kernel, len(parts), *arguments, self._list_weights, blocks, values, parts)
        return float(np.sum(values)), np.asarray(parts.sum(axis=0))

    def curvature(self, weights: Weights) -> Scores:
        return self.lists.evaluate(matvec(self.data.features, weights)).curvature


class ScoreLoss(_BoundLoss):
    """Any features, any objective: products with the features before and after the objective."""

    def evaluate(self, weights: Weights, step: int = 0) -> tuple[float, Weights]:
        """The sum over lists and its gradient, with the noise of a step."""
        result = self.lists.evaluate(matvec(self.data.features, weights), step)
        return float(np.sum(result.values)), rmatvec(self.data.features, result.gradient)


class DenseLoss(_BoundLoss):
    """Dense features, scores without noise: one pass over the features per evaluation."""

    def __init__(self, objective: Objective, data: Dataset) -> None:
        super().__init__(objective, data)
        self._features: Features = np.asarray(data.features)
        self._keys = self.lists.step_keys(0)
        self._blocks = _block_starts(data.offsets)

    def evaluate(self, weights: Weights) -> tuple[float, Weights]:
        lists = self.lists
        prepared = (lists.labels, lists.offsets, *lists.prepared, self._keys, lists.params)
        arguments = (lists.function.address, self._features, weights, *prepared)
        return self._sum_blocks(_evaluate_blocks.compiled, self._blocks, *arguments)


class RankingLoss(_BoundLoss):
    """A conditional model over sampled rankings, with the products X^T c stored."""

    def __init__(self, objective: Objective, data: Dataset) -> None:
        super().__init__(objective, data)
        self.ranking_offsets = _ranking_offsets(self.lists.prepared.values, self.lists.prepared.offsets)
        n_rankings = int(self.ranking_offsets[-1])
        self.products = np.empty((n_rankings, data.n_features), dtype=np.float32)
        """X^T c of each ranking."""
        self.losses = np.empty(n_rankings)
        """The loss of each ranking."""
        stored = (data.offsets, *self.lists.prepared, self.ranking_offsets)
        run_parallel(_fill_products, data.n_lists, np.asarray(data.features), *stored, self.products, self.losses)
        self._loss = objective.params[0]
        self._blocks = _block_starts(self.ranking_offsets)

    def evaluate(self, weights: Weights) -> tuple[float, Weights]:
        arguments = (self._loss, self.products, self.losses, self.ranking_offsets, weights)
        return self._sum_blocks(_evaluate_rankings, self._blocks, *arguments)


def products_are_smaller(data: Dataset, samples: int) -> bool:
    """Whether stored products are cheaper: m d against m n + n d numbers, over all lists."""
    n_docs, n_lists, d = data.n_docs, data.n_lists, data.n_features
    return n_lists * samples * d <= samples * n_docs + n_docs * d


def _block_starts(offsets: Offsets) -> NDArray[np.int64]:
    """The first list of each block of about BLOCK documents, and the number of lists."""
    starts = np.searchsorted(offsets[:-1], np.arange(0, offsets[-1], BLOCK))
    return np.append(np.unique(starts[starts < len(offsets) - 1]), len(offsets) - 1)


def _ranking_offsets(stored: NDArray[np.float64], offsets: Offsets) -> Offsets:
    """Offsets of the rankings of each list."""
    present = offsets[1:] > offsets[:-1]
    sizes = np.zeros(len(offsets) - 1, dtype=np.int64)
    sizes[present] = stored[offsets[:-1][present]].astype(np.int64)
    return offsets_from_sizes(sizes)


def matvec(features: Features | csr_array, weights: Weights) -> Scores:
    """The product X w: one number per document."""
    if isinstance(features, csr_array):
        return np.asarray(features @ weights, dtype=np.float64)
    out = np.empty(len(features))
    run_parallel(_matvec, -(-len(features) // BLOCK), features, weights, out)
    return out


def rmatvec(features: Features | csr_array, gradient: Scores) -> Weights:
    """The product X^T g: one number per feature."""
    if isinstance(features, csr_array):
        return np.asarray(features.T @ gradient, dtype=np.float64)
    parts = np.zeros((-(-len(features) // BLOCK), features.shape[1]))
    run_parallel(_rmatvec, len(parts), features, gradient, parts)
    return np.asarray(parts.sum(axis=0))


@reordered
def _fill_scores(rows, weights, scores):  # type: ignore[no-untyped-def]
    """Fill the product of each row with the weights."""
    for i in range(len(rows)):
        row = rows[i]
        total = 0.0
        for j in range(len(weights)):
            total += np.float64(row[j]) * weights[j]
        scores[i] = total


@reordered
def _add_combination(rows, factors, part):  # type: ignore[no-untyped-def]
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


@compiled
def _matvec(first, last, features, weights, out):  # type: ignore[no-untyped-def]
    n = len(features)
    for block in range(first, last):
        low, high = block * BLOCK, min((block + 1) * BLOCK, n)
        _fill_scores(features[low:high], weights, out[low:high])


@compiled
def _rmatvec(first, last, features, gradient, parts):  # type: ignore[no-untyped-def]
    for block in range(first, last):
        low, high = block * BLOCK, min((block + 1) * BLOCK, len(features))
        _add_combination(features[low:high], gradient[low:high], parts[block])


_SIGNATURE = void(
    int64,  # the first block
    int64,  # the end
    int64,  # address of the list function
    readonly(float32, 2),  # features
    FLOATS,  # weights of the features
    LABELS,
    INTEGERS,  # offsets
    FLOATS,  # prepared data of the lists
    INTEGERS,  # their offsets
    readonly(uint64),  # keys
    FLOATS,  # params
    FLOATS,  # weights of the lists
    INTEGERS,  # first list of each block, and the number of lists
    float64[::1],  # values
    float64[:, ::1],  # sums of the blocks
)
_function_at = function_maker(LIST_FUNCTION)


@list_function(_SIGNATURE)
def _evaluate_blocks(  # type: ignore[no-untyped-def]
    first,
    last,
    address,
    features,
    weights,
    labels,
    offsets,
    prepared,
    prepared_offsets,
    keys,
    params,
    list_weights,
    blocks,
    values,
    parts,
):
    function = _function_at(address)
    for block in range(first, last):
        for q in range(blocks[block], blocks[block + 1]):
            low, high = offsets[q], offsets[q + 1]
            y = labels[low:high]
            if has_one_level(y):
                continue
            scores, gradient = np.empty(high - low), np.zeros(high - low)
            curvature = np.zeros(high - low)
            _fill_scores(features[low:high], weights, scores)
            data = prepared[prepared_offsets[q] : prepared_offsets[q + 1]]
            value = function(scores, y, data, keys[q], params, gradient, curvature)
            values[q] = list_weights[q] * value
            gradient *= list_weights[q]
            _add_combination(features[low:high], gradient, parts[block])


@compiled
def _fill_products(  # type: ignore[no-untyped-def]
    first, last, features, offsets, prepared, prepared_offsets, where, products, losses
):
    for q in range(first, last):
        if where[q + 1] > where[q]:
            stored = prepared[prepared_offsets[q] : prepared_offsets[q + 1]]
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


@compiled
def _evaluate_rankings(  # type: ignore[no-untyped-def]
    first, last, loss, products, losses, where, weights, list_weights, blocks, values, parts
):
    for block in range(first, last):
        for q in range(blocks[block], blocks[block + 1]):
            low, high = where[q], where[q + 1]
            if low == high:
                continue
            energies, shares = np.empty(high - low), np.empty(high - low)
            slopes, bends = np.empty(high - low), np.empty(high - low)
            _fill_scores(products[low:high], weights, energies)
            value = fill_weights(loss, losses[low:high], energies, shares, slopes, bends)
            values[q] = list_weights[q] * value
            slopes *= list_weights[q]
            _add_combination(products[low:high], slopes, parts[block])
