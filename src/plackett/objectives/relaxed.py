r"""NDCG of a relaxed sort: NeuralNDCG, PiRank, SoftSort, and fast soft ranks.

**Relaxed permutation matrices.** Sorting is a permutation matrix with one row per rank. In the relaxed
matrix, row r is a softmax over the documents that may have rank r,

.. math:: P_{rj} \propto e^{L_{rj}}, \qquad
    L_{rj} = \frac{(n + 1 - 2r) s_j - \sum_k |s_j - s_k|}{\tau} \text{ (NeuralSort)}, \qquad
    L_{rj} = -\frac{|s_{[r]} - s_j|}{\tau} \text{ (SoftSort)}

with :math:`s_{[r]}` the r-th largest score (Grover et al. 2019; Prillo & Eisenschlos 2020). Each
rank then has an expected gain, and the loss is minus NDCG of the first ``cutoff`` ranks,

.. math:: \ell = -\frac{1}{\mathrm{IDCG}} \sum_r D_r \sum_j P_{rj} (2^{y_j} - 1), \qquad
    D_r = 1/\log_2(1 + r).

- :class:`PiRank`: NeuralSort (Swezey et al. 2021)
- :class:`SoftSort`: the simpler matrix
- :class:`NeuralNDCG`: NeuralSort, then ``rounds`` of Sinkhorn scaling, rows and columns in turn, so
  that the shares of each document sum to about one rank (Pobrotyn & Białobrzeski 2021)

**Gradient**, through the logits, which are piecewise linear in the scores. Where scores are equal,
absolute values have slope 0 in NeuralSort; SoftSort takes the mean over all orders of the tied
documents. Sinkhorn's scaling is :math:`\mathrm{diag}(u)\,P\,\mathrm{diag}(v)` with :math:`u =
1/(Pv)` and :math:`v = 1/(P^\top u)` in turn, so going back through it needs the vectors of all
rounds, not the matrices. A small constant in the denominators keeps them finite.

**Curvature.** With :math:`m_{rj} = |\partial\ell/\partial L_{rj}|`, the size of a softmax's second
derivatives, it is :math:`\sum_{rj} m_{rj} (\partial L_{rj}/\partial s_k)^2`, raised to at least
1e-6 of the list's mean: this is no bound, but it keeps Newton steps about as short as the smoothing is wide.

**Cut-off.** In PiRank and SoftSort, the shares of a document in all rows need not sum to 1: a document in the middle of
the scores has a share in every row. If all ranks count in the loss, relevant documents are therefore drawn to the
middle as well as to the top. PiRank's authors count the first 10 ranks, which is the default of both here. On
validation lists of OHSUMED, trees have NDCG@10 .466 and .432 with this cut-off, .333 and .364 without. Sinkhorn's
scaling solves the same problem, so NeuralNDCG counts all ranks.

O(n²) time (NeuralNDCG: times rounds) and memory.

**Fast soft ranks** (Blondel et al. 2020): the ranks closest to :math:`-s/\varepsilon` among all averages of rankings,
the permutahedron of 1, ..., n. With z the scores divided by :math:`-\varepsilon`, in falling order, they are :math:`z -
v` where v is the isotonic regression of :math:`z - (n, n-1, \ldots, 1)`, in blocks that pool adjacent violators: O(n
log n). *FastSoftRank* is minus NDCG at these ranks r, with :math:`a_i = \partial\ell/\partial r_i`; within a block B,

.. math:: \frac{\partial\ell}{\partial s_k} =
    -\frac{1}{\varepsilon |B|} \sum_{i \in B} (a_k - a_i), \qquad
    \text{curvature}\ \frac{1}{\varepsilon^2 |B|} \sum_{i \in B} |a_k - a_i|.

No Newton step exceeds :math:`\varepsilon`. Where scores are so far apart that ranks are whole
numbers, blocks have one document and the gradient is zero.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from plackett.base.arithmetic import exp
from plackett.base.gains import discount
from plackett.base.kernels import ListFunction, compiled, list_function, reordered
from plackett.objectives.driver import LIST_FUNCTION, Weighting
from plackett.objectives.objective import Limits, Objective, check_between, check_count, check_positive
from plackett.objectives.pairwise import raise_to_floor
from plackett.objectives.ranking import prepare_gains, rank_order

_NEURALSORT, _SOFTSORT = 0.0, 1.0
_LEAST = 1e-10  # added to sums that Sinkhorn's scaling divides by


@compiled
def _fill_distances(scores, distances, signs):  # type: ignore[no-untyped-def]
    """Fill sums of distances to all documents, and of the signs of the differences."""
    for j in range(len(scores)):
        for k in range(len(scores)):
            distances[j] += abs(scores[j] - scores[k])
            signs[j] += np.sign(scores[j] - scores[k])


@compiled
def _fill_rows(kind, scores, order, distances, tau, matrix):  # type: ignore[no-untyped-def]
    """Fill the relaxed permutation matrix, row by row."""
    n = len(scores)
    for r in range(n):
        row = matrix[r]
        for j in range(n):
            if kind == _NEURALSORT:
                row[j] = ((n - 1.0 - 2.0 * r) * scores[j] - distances[j]) / tau
            else:
                row[j] = -abs(scores[order[r]] - scores[j]) / tau
        top = np.max(row)
        for j in range(n):
            row[j] = exp(row[j] - top)
        row /= np.sum(row)


@reordered
def _scale(matrix, rounds, u, v):  # type: ignore[no-untyped-def]
    """Sinkhorn's scaling: fill the factors of rows and columns of all rounds."""
    n = len(matrix)
    v[0] = 1.0
    for t in range(rounds):
        sums = np.zeros(n)
        for r in range(n):
            total = _LEAST
            for j in range(n):
                total += matrix[r, j] * v[t, j]
            u[t, r] = 1.0 / total
            for j in range(n):
                sums[j] += matrix[r, j] * u[t, r]
        for j in range(n):
            v[t + 1, j] = 1.0 / (sums[j] + _LEAST)


@reordered
def _unscale(matrix, rounds, u, v, discounts, gains, slopes):  # type: ignore[no-untyped-def]
    """Value of the scaled matrix; fills its derivatives by the entries of the matrix."""
    n, value = len(matrix), 0.0
    du, dv = np.zeros(n), np.zeros(n)
    last_u, last_v = u[rounds - 1], v[rounds]
    for r in range(n):
        for j in range(n):
            worth = -discounts[r] * gains[j]
            value += worth * last_u[r] * matrix[r, j] * last_v[j]
            slopes[r, j] = worth * last_u[r] * last_v[j]
            du[r] += worth * matrix[r, j] * last_v[j]
            dv[j] += worth * last_u[r] * matrix[r, j]
    for t in range(rounds - 1, -1, -1):
        for j in range(n):
            dv[j] *= -v[t + 1, j] * v[t + 1, j]
        for r in range(n):
            for j in range(n):
                du[r] += dv[j] * matrix[r, j]
                slopes[r, j] += dv[j] * u[t, r]
        dv[:] = 0.0
        for r in range(n):
            du[r] *= -u[t, r] * u[t, r]
            for j in range(n):
                dv[j] += du[r] * matrix[r, j]
                slopes[r, j] += du[r] * v[t, j]
        du[:] = 0.0
    return value


@reordered
def _to_logits(matrix, slopes):  # type: ignore[no-untyped-def]
    """Turn derivatives by the entries of each row's softmax into those by its logits."""
    n = len(matrix)
    for r in range(n):
        mean = 0.0
        for j in range(n):
            mean += matrix[r, j] * slopes[r, j]
        for j in range(n):
            slopes[r, j] = matrix[r, j] * (slopes[r, j] - mean)


@compiled
def _add_neuralsort(scores, signs, tau, slopes, gradient, curvature):  # type: ignore[no-untyped-def]
    n = len(scores)
    totals, bends = np.zeros(n), np.zeros(n)
    for r in range(n):
        row = slopes[r]
        for j in range(n):
            direct = (n - 1.0 - 2.0 * r - signs[j]) / tau
            gradient[j] += row[j] * direct
            curvature[j] += abs(row[j]) * direct * direct
            totals[j] += row[j] / tau
            bends[j] += abs(row[j]) / (tau * tau)
    for j in range(n):
        for k in range(n):
            gradient[k] += totals[j] * np.sign(scores[j] - scores[k])
            if scores[j] != scores[k]:
                curvature[k] += bends[j]


@compiled
def _add_softsort(scores, order, tau, slopes, gradient, curvature):  # type: ignore[no-untyped-def]
    n, start = len(scores), 0
    while start < n:
        stop = start + 1
        while stop < n and scores[order[stop]] == scores[order[start]]:
            stop += 1
        for r in range(start, stop):
            _add_tied_row(order, start, stop, r, slopes[r] / tau, tau, gradient, curvature)
        start = stop


@compiled
def _add_tied_row(order, start, stop, r, slopes, tau, gradient, curvature):  # type: ignore[no-untyped-def]
    """Add row r; the documents at places start to stop tie: the mean over all their orders."""
    tied = stop - start
    # How many more of the tied positions other than r are below r than above it.
    balance = (stop - 1.0 - r - (r - start)) / tied
    outside, outside_size, inside, inside_size = 0.0, 0.0, 0.0, 0.0
    for place in range(len(order)):
        j = order[place]
        size = abs(slopes[j]) / tau
        if start <= place < stop:
            if tied > 1:
                gradient[j] += balance * slopes[j]
                curvature[j] += size
                inside += balance * slopes[j]
                inside_size += size
        else:
            force = slopes[j] if place > r else -slopes[j]
            gradient[j] += force
            curvature[j] += size
            outside += force
            outside_size += size
    for place in range(start, stop):
        i = order[place]
        gradient[i] -= outside / tied
        curvature[i] += outside_size / tied
        if tied > 1:
            gradient[i] -= (inside - balance * slopes[i]) / (tied - 1.0)
            curvature[i] += (inside_size - abs(slopes[i]) / tau) / (tied - 1.0)


@list_function(LIST_FUNCTION)
def relaxed_list(scores, _labels, prepared, _key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """All derivatives; params: kind, tau, cutoff, rounds if any, prepared: normalized gains."""
    n, kind, tau, rounds = len(scores), params[0], params[1], int(params[3]) if len(params) > 3 else 0
    depth = min(n, int(params[2])) if params[2] > 0.0 else n
    order, ideal_order = rank_order(scores), rank_order(prepared)
    discounts, ideal = np.zeros(n), 0.0
    for r in range(depth):
        discounts[r] = discount(r)
        ideal += discounts[r] * prepared[ideal_order[r]]
    gains = prepared / ideal
    distances, signs = np.zeros(n), np.zeros(n)
    matrix, slopes = np.empty((n, n)), np.empty((n, n))
    _fill_distances(scores, distances, signs)
    _fill_rows(kind, scores, order, distances, tau, matrix)
    value = 0.0
    if rounds > 0:
        u, v = np.empty((rounds, n)), np.empty((rounds + 1, n))
        _scale(matrix, rounds, u, v)
        value = _unscale(matrix, rounds, u, v, discounts, gains, slopes)
    else:
        for r in range(n):
            for j in range(n):
                slopes[r, j] = -discounts[r] * gains[j]
                value += slopes[r, j] * matrix[r, j]
    _to_logits(matrix, slopes)
    if kind == _NEURALSORT:
        _add_neuralsort(scores, signs, tau, slopes, gradient, curvature)
    else:
        _add_softsort(scores, order, tau, slopes, gradient, curvature)
    raise_to_floor(curvature)
    return value


@compiled
def _fill_soft_ranks(z, ranks, starts):  # type: ignore[no-untyped-def]
    """Fill soft ranks of falling z, and for each place where its block starts."""
    n, blocks = len(z), 0
    means, begins = np.empty(n), np.empty(n + 1, np.int64)
    for k in range(n):
        means[blocks], begins[blocks] = z[k] - (n - k), k
        blocks += 1
        begins[blocks] = k + 1
        # Means of blocks must fall; pool the last two until they do.
        while blocks > 1 and means[blocks - 1] >= means[blocks - 2]:
            first, middle = begins[blocks - 2], begins[blocks - 1]
            weight = (k + 1.0 - middle) / (k + 1.0 - first)
            means[blocks - 2] += weight * (means[blocks - 1] - means[blocks - 2])
            blocks -= 1
            begins[blocks] = k + 1
    for b in range(blocks):
        for k in range(begins[b], begins[b + 1]):
            ranks[k] = z[k] - means[b]
            starts[k] = begins[b]


@list_function(LIST_FUNCTION)
def fastsoftrank_list(scores, _labels, prepared, _key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """All derivatives; params: epsilon, prepared: normalized gains."""
    n, epsilon = len(scores), params[0]
    order = rank_order(scores)[::-1].copy()  # z falls where scores rise
    # A shift of all scores changes no rank; without one, sums lose fewer digits.
    z = (np.mean(scores) - scores[order]) / epsilon
    ranks, starts, slopes = np.empty(n), np.empty(n, np.int64), np.empty(n)
    _fill_soft_ranks(z, ranks, starts)
    value = 0.0
    for k in range(n):
        rank = max(ranks[k], 1.0)  # rounding may end below
        logarithm, gain = np.log1p(rank), prepared[order[k]]
        value -= gain * np.log(2.0) / logarithm
        slopes[k] = gain * np.log(2.0) / ((1.0 + rank) * logarithm * logarithm)
    start = 0
    while start < n:
        stop = start
        while stop < n and starts[stop] == start:
            stop += 1
        size = float(stop - start)
        for k in range(start, stop):
            for i in range(start, stop):
                difference = slopes[k] - slopes[i]
                gradient[order[k]] -= difference / (epsilon * size)
                curvature[order[k]] += abs(difference) / (epsilon * epsilon * size)
        start = stop
    raise_to_floor(curvature)
    return value


@dataclass(frozen=True)
class _Relaxed(Objective):
    weighting: ClassVar[Weighting | None] = "gain"
    function: ClassVar[ListFunction] = relaxed_list
    kind: ClassVar[float] = _NEURALSORT
    prepare = prepare_gains
    limits: ClassVar[Limits] = {"tau": check_positive, "cutoff": check_count}

    tau: float = 1.0
    """Temperature: the smaller, the closer to the metric and the flatter."""
    cutoff: int | None = None
    """Number of ranks that count; None: all."""

    @property
    def params(self) -> tuple[float, ...]:
        return (self.kind, *super().params)


@dataclass(frozen=True)
class PiRank(_Relaxed):
    """Minus NDCG of NeuralSort's relaxed permutation (Swezey et al. 2021).

    >>> PiRank().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).values.round(3).tolist()
    [-0.819]
    """

    name: ClassVar[str] = "pirank"

    cutoff: int | None = 10


@dataclass(frozen=True)
class SoftSort(_Relaxed):
    """Minus NDCG of SoftSort's relaxed permutation (Prillo & Eisenschlos 2020).

    >>> SoftSort().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [0.031, -0.042, 0.01]
    """

    name: ClassVar[str] = "softsort"
    kind: ClassVar[float] = _SOFTSORT

    cutoff: int | None = 10


@dataclass(frozen=True)
class NeuralNDCG(_Relaxed):
    """Minus NDCG of a doubly stochastic relaxed permutation (Pobrotyn & Białobrzeski 2021).

    >>> NeuralNDCG().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [0.104, -0.134, 0.03]

    Parameters
    ----------
    tau
        Temperature: the smaller, the closer to the metric and the flatter.
    cutoff
        Number of ranks that count; None: all.
    rounds
        Sinkhorn's scalings of rows and columns; 0 leaves the matrix of :class:`PiRank`.
    """

    name: ClassVar[str] = "neuralndcg"
    limits: ClassVar[Limits] = {**_Relaxed.limits, "rounds": partial(check_between, low=0.0)}

    rounds: int = 20


@dataclass(frozen=True)
class FastSoftRank(Objective):
    """Minus NDCG at the soft ranks of Blondel et al. (2020).

    >>> FastSoftRank().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [0.065, -0.093, 0.028]

    Parameters
    ----------
    epsilon
        Distance of scores that makes up one rank: the smaller, the closer to the metric and the flatter.
    """

    name: ClassVar[str] = "fastsoftrank"
    weighting: ClassVar[Weighting | None] = "gain"
    function: ClassVar[ListFunction] = fastsoftrank_list
    limits: ClassVar[Limits] = {"epsilon": check_positive}
    prepare = prepare_gains

    epsilon: float = 1.0
