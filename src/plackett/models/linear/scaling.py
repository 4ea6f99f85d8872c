r"""The scale of a linear problem: an approximate Hessian that costs next to nothing.

Quasi-Newton methods need many steps where the Hessian is far from a multiple of the identity, and
features of search engines are that: nearly copies of each other. The Hessian of :math:`\sum_q
\ell_q(Xw) + \lVert w\rVert^2/C` is close to

.. math:: M = \sum_q \sum_{d \in q} h_d (x_d - \bar x_q)(x_d - \bar x_q)^\top + \frac{2}{C} I,
    \qquad \bar x_q = \sum_d h_d x_d \Big/ \sum_d h_d

with the objective's own curvature h: for the softmax family it is that up to terms in the squares
of probabilities, for pairwise losses the two agree in spectrum up to a small factor. L-BFGS starts
its recursion from :math:`M^{-1}`.

M needs not be exact: it is summed over lists evenly spread, about :data:`DOCUMENTS` documents. With
more than :data:`WIDEST` features, or sparse ones, only its diagonal is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.kernels import compiled
from plackett.base.ragged import Offsets, Scores
from plackett.data.dataset import Dataset
from plackett.models.linear.products import Weights

DOCUMENTS = 10_000
WIDEST = 800
_BLOCKS = 16  # partial sums: few, because each is a whole matrix
_RIDGE = 1e-10  # of the largest diagonal element: a feature that is a copy of another


@dataclass(frozen=True)
class Scale:
    """M as the triangle R of M = R R^T, or as a vector where only its diagonal is kept."""

    root: NDArray[np.float64]

    def solve(self, gradient: Weights) -> Weights:
        """M^-1 times a gradient."""
        if self.root.ndim == 1:
            return gradient / self.root
        return np.asarray(_solve(self.root, gradient))


def scale_of(data: Dataset, curvature: Scores, C: float) -> Scale:
    """The scale at weights where the objective has this curvature."""
    X = data.features
    ridge = 2.0 / C
    if isinstance(X, csr_array) or data.n_features > WIDEST:
        squares = _sum_of_squares(X, curvature)
        return Scale(squares + ridge)
    lists = _some_lists(data.offsets)
    parts = np.zeros((_BLOCKS, data.n_features, data.n_features))
    _add_lists(np.asarray(X), data.offsets, curvature, lists, parts)
    documents = np.diff(data.offsets)[lists].sum()
    M = parts.sum(axis=0) * (data.n_docs / documents)
    M[np.diag_indices_from(M)] += ridge + _RIDGE * np.max(np.diag(M))
    _factorise(M)
    return Scale(M)


def _some_lists(offsets: Offsets) -> NDArray[np.int64]:
    n_lists = len(offsets) - 1
    step = max(1, int(offsets[-1]) // DOCUMENTS)
    return np.arange(0, n_lists, step)


def _sum_of_squares(X: NDArray[np.float32] | csr_array, curvature: Scores) -> Weights:
    if isinstance(X, csr_array):
        return np.asarray(X.multiply(X).T @ curvature, dtype=np.float64)
    total = np.zeros(X.shape[1])
    for low in range(0, len(X), DOCUMENTS):
        block = X[low : low + DOCUMENTS].astype(np.float64)
        total += curvature[low : low + DOCUMENTS] @ (block * block)
    return total


# LAPACK would wake its own threads for matrices this small, beside those of our kernels: 175 ms
# where this takes one.
@compiled
def _factorise(M):  # type: ignore[no-untyped-def]
    """Replace the lower triangle by that of its Cholesky factor."""
    for i in range(len(M)):
        row = M[i]
        for j in range(i):
            row[j] = (row[j] - np.dot(row[:j], M[j, :j])) / M[j, j]
        row[i] = np.sqrt(row[i] - np.dot(row[:i], row[:i]))


@compiled
def _solve(root, right):  # type: ignore[no-untyped-def]
    """Solve R R^T x = right."""
    x = right.copy()
    for i in range(len(x)):
        x[i] = (x[i] - np.dot(root[i, :i], x[:i])) / root[i, i]
    for i in range(len(x) - 1, -1, -1):
        x[i] /= root[i, i]
        x[:i] -= x[i] * root[i, :i]
    return x


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _add_lists(features, offsets, curvature, lists, parts):  # type: ignore[no-untyped-def]
    for block in prange(len(parts)):
        for k in range(block, len(lists), len(parts)):
            low, high = offsets[lists[k]], offsets[lists[k] + 1]
            _add_list(features[low:high], curvature[low:high], parts[block])


@compiled
def _add_list(rows, curvature, part):  # type: ignore[no-untyped-def]
    """Add the lower triangle of one list's sum."""
    total = np.sum(curvature)
    if not total > 0.0:
        return
    d = rows.shape[1]
    middle, row = np.zeros(d), np.empty(d)
    for i in range(len(rows)):
        for j in range(d):
            middle[j] += curvature[i] / total * rows[i, j]
    for i in range(len(rows)):
        for j in range(d):
            row[j] = rows[i, j] - middle[j]
        for j in range(d):
            factor = curvature[i] * row[j]
            out = part[j, : j + 1]
            for k in range(j + 1):
                out[k] += factor * row[k]
