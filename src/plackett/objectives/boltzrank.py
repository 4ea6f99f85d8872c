r"""BoltzRank: expected NDCG under a Boltzmann distribution (Volkovs & Zemel 2009).

A ranking of the n documents has energy

.. math:: E(R | s) = \frac{2}{n(n-1)} \sum_{i \text{ above } j} (s_j - s_i), \qquad
    P(R) \propto e^{-E(R|s)}

over a set of rankings of the list. With the same distribution :math:`P^y` made from labels,

.. math:: \ell = -\lambda\, E_P[\mathrm{NDCG}] + (1 - \lambda) \Big(-\sum_R P^y(R) \log P(R)\Big).

:math:`-E = \sum_d c_d s_d`, where :math:`c_d` is 2/(n(n-1)) times the number of documents below
less those above, so with :math:`\bar c = E_P[c]`

.. math:: \frac{\partial\ell}{\partial s} = -\lambda\, E_P[(\mathrm{NDCG} - E_P\mathrm{NDCG})\, c] +
    (1-\lambda)\,(\bar c - E_{P^y}[c]).

**Curvature.** The second part is convex, with diagonal :math:`\mathrm{Var}_P(c)`. The first is not: its diagonal is
:math:`-E_P[(\mathrm{NDCG} - E_P \mathrm{NDCG})(c - \bar c)^2]`, which we bound by the same expression with the absolute
value of the first factor. The sum is raised to at least 1e-6 of the list's mean.

The set is the ideal ranking (equal labels in random order) and ``samples - 1`` draws from the Plackett-Luce model of
the labels. It depends on the seed and the list, not on the step: a new set at each step would make line searches fail.
NDCG is that of the whole list with gain :math:`2^y - 1` and discount :math:`1/\log_2(1+r)`. A step costs O(samples n).

``mix`` below 1 adds the cross entropy, as the authors train. They score a document by a potential of
its own and by potentials of pairs; ``NeuralRanker(objective="boltzrank", group_size=2)`` learns such
potentials from pairs of documents.
"""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numba import prange, uint64
from numpy.typing import NDArray

from plackett.base.arithmetic import stable_order
from plackett.base.errors import DataError
from plackett.base.gains import discount
from plackett.base.kernels import ListFunction, compiled, list_function, parallel
from plackett.base.ragged import Labels, Offsets, offsets_from_sizes
from plackett.base.random import combine
from plackett.objectives import ranking
from plackett.objectives.driver import LIST_FUNCTION, Weighting
from plackett.objectives.listmle import draw_order
from plackett.objectives.objective import Limits, ListLabels, Objective, Prepared, check_between, check_whole, mix_keys
from plackett.objectives.pairwise import raise_to_floor

_COLUMNS = 2  # NDCG of the ranking, and its probability under the labels
_STREAM = 3  # of random numbers, for the rankings


@list_function(LIST_FUNCTION)
def boltzrank_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature; params: samples and mix; prepared: the set of rankings."""
    n, mix = len(scores), params[1]
    ndcg, target = ranking.column_of(prepared, 0), ranking.column_of(prepared, 1)
    coefficients = ranking.coefficients_of(prepared, n, _COLUMNS)
    factor = 2.0 / (n * (n - 1.0))
    energies, shares, weights = np.empty(len(ndcg)), np.empty(len(ndcg)), np.empty(len(ndcg))
    mean = np.zeros(n)
    ranking.fill_energies(coefficients, scores, factor, energies)
    log_total = ranking.fill_softmax(energies, shares)
    ranking.add_mean(coefficients, shares, factor, mean)
    expected = np.dot(shares, ndcg)
    cross_entropy = log_total - np.dot(target, energies)
    for r in range(len(ndcg)):
        surplus = ndcg[r] - expected
        weights[r] = -mix * shares[r] * surplus + (1.0 - mix) * (shares[r] - target[r])
        shares[r] *= mix * abs(surplus) + 1.0 - mix
    ranking.add_mean(coefficients, weights, factor, gradient)
    ranking.add_spread(coefficients, shares, mean, factor, curvature)
    raise_to_floor(curvature)
    return -mix * expected + (1.0 - mix) * cross_entropy


@compiled
def _store(order, r, labels, gains, stored):  # type: ignore[no-untyped-def]
    """Store one ranking of a list: coefficients, NDCG, and minus its energy under the labels."""
    n = len(order)
    row = ranking.coefficients_of(stored, n, _COLUMNS)[r]
    ndcg, energy = 0.0, 0.0
    for rank in range(n):
        document = order[rank]
        row[document] = n - 1 - 2 * rank
        ndcg += gains[document] * discount(rank)
        energy += (n - 1 - 2 * rank) * np.float64(labels[document])
    ranking.column_of(stored, 0)[r] = ndcg
    ranking.column_of(stored, 1)[r] = 2.0 * energy / (n * (n - 1.0))


@parallel
def _draw_sets(labels, gains, offsets, keys, samples, values, starts):  # type: ignore[no-untyped-def]
    for q in prange(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        stored = values[starts[q] : starts[q + 1]]
        if high - low < 2:
            continue
        y = labels[low:high].astype(np.float64)
        stored[0] = samples
        for r in range(samples):
            order = draw_order(y, combine(keys[q], uint64(r)))
            if r == 0:  # the ideal ranking, with ties in the order drawn
                order = order[stable_order(y[order], True)]
            _store(order, r, y, gains[low:high], stored)
        target = ranking.column_of(stored, 1)
        ranking.fill_softmax(target.copy(), target)


@dataclass(frozen=True)
class BoltzRank(Objective):
    """Expected NDCG over a fixed set of rankings (Volkovs & Zemel 2009).

    >>> BoltzRank().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [0.052, -0.065, 0.013]
    """

    name: ClassVar[str] = "boltzrank"
    weighting: ClassVar[Weighting | None] = "gain"
    draw: ClassVar[str | None] = "permutations"
    function: ClassVar[ListFunction] = boltzrank_list
    limits: ClassVar[Limits] = {"samples": check_whole, "mix": partial(check_between, low=0.0, high=1.0)}

    samples: int = 100
    """Number of rankings of each list."""
    mix: float = 1.0
    """Weight of the expected NDCG; the cross entropy has the weight 1 - mix."""
    seed: int = 0
    """Seed of the rankings."""

    def prepare(self, lists: ListLabels) -> Prepared:
        labels, offsets, keys, draws, _ = lists
        gains = ranking.normalized_gains(labels, offsets).values
        if "permutations" in draws:
            return _explicit_sets(draws["permutations"], labels, gains, offsets)
        sizes = np.diff(offsets)
        where = offsets_from_sizes(np.where(sizes > 1, ranking.set_size(self.samples, sizes, _COLUMNS), 0))
        values = np.empty(where[-1])
        mixed = mix_keys(keys, np.uint64(self.seed % 2**64), np.uint64(_STREAM))
        _draw_sets(labels, gains, offsets, mixed, self.samples, values, where)
        return Prepared(values, where)


def _explicit_sets(permutations: Any, labels: Labels, gains: NDArray[np.float64], offsets: Offsets) -> Prepared:
    """Explicit rankings, one array of m x n positions (best first) per list."""
    parts = []
    for orders, (low, high) in zip(check_permutations(permutations, offsets), pairwise(offsets), strict=True):
        part = np.zeros(ranking.set_size(len(orders), high - low, _COLUMNS))
        part[0] = len(orders)
        if high - low > 1:
            for r, order in enumerate(orders):
                _store(order, r, labels[low:high], gains[low:high], part)
            target = ranking.column_of(part, 1)
            ranking.fill_softmax(target.copy(), target)
        parts.append(part)
    return ranking.join_sets(parts)


def check_permutations(permutations: Any, offsets: Offsets) -> list[NDArray[np.int64]]:
    """Explicit rankings, one array per list: one permutation (best first) of its documents per row."""
    sizes = np.diff(offsets).tolist()
    if len(permutations) != len(sizes):
        raise DataError(f"draws['permutations'] must be {len(sizes)} arrays, one per list, got {len(permutations)}.")
    checked = [np.asarray(orders, dtype=np.int64) for orders in permutations]
    for q, (orders, n) in enumerate(zip(checked, sizes, strict=True)):
        if (
            orders.ndim != 2
            or not len(orders)
            or not np.array_equal(np.sort(orders, axis=1), np.broadcast_to(np.arange(n), (len(orders), n)))
        ):
            raise DataError(
                f"draws['permutations'][{q}] must be at least one permutation of 0 to {n - 1} (best "
                f"first), one per row, got shape {orders.shape}."
            )
    return checked
