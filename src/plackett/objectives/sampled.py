r"""Rankings drawn from perturbed scores: YetiRank and StochasticRank.

Both draw new noise for each list and step. Neither is declared exact: the value is that of one
draw, and which pairs count jumps where perturbed scores cross.

**YetiRank** (Gulin, Kuralenok & Pavlov 2011): ``samples`` rankings by scores plus logistic noise,
:math:`s_i + \log(u_i/(1 - u_i))`. Neighbors with different labels form pairs, which count less at lower
ranks; over all rankings, with i the better document of the pair at ranks k and k + 1,

.. math:: \ell = \frac1S \sum_{\text{rankings}} \sum_k \lambda^{k-1} (y_i - y_j)
    \log(1 + e^{-(s_i - s_j)}).

The logistic loss is that of the scores without noise; pairs and weights are held constant, so that
gradient and curvature are those of RankNet. :math:`\lambda` is CatBoost's ``decay``. The weight of
a document multiplies its label. O(samples n log n).

**StochasticRank** (Ustimenko & Prokhorenkova 2020): NDCG smoothed by Gaussian noise, :math:`z = s + \sigma\epsilon`.
For its gradient by :math:`s_i` the noise of document i is integrated out, given the noise of all others (the paper's
coordinate conditional sampling): moving i across :math:`z_j`, which stands at rank :math:`p_j` of the others, changes
NDCG by :math:`\Delta_{ij}`, and

.. math:: \frac{\partial\ell}{\partial s_i} \approx -\sum_{j \ne i} \Delta_{ij}\,
    \frac{1}{\sigma}\varphi\Big(\frac{z_j - s_i}{\sigma}\Big), \qquad
    \Delta_{ij} = (G_i - G_j)(D_{p_j} - D_{p_j + 1}).

Its mean over the noise is the gradient of the mean of :math:`-\mathrm{NDCG}`, whose entries sum to zero; subtracting
the mean of the entries therefore reduces the noise. There is one draw per step, and no shift :math:`\mu` against ties,
as in CatBoost's defaults. The curvature is the sum of the sizes of the terms, each times :math:`\max(\sigma, |z_j -
s_i|)/\sigma^2`, raised to at least 1e-6 of the list's mean. O(n²).
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
from plackett.base.random import combine, mix_keys, to_uniform
from plackett.objectives import ranking
from plackett.objectives.driver import LIST_FUNCTION, Weighting, append_weights
from plackett.objectives.listmle import draw_order
from plackett.objectives.objective import (
    Limits,
    ListLabels,
    Objective,
    Prepared,
    check_between,
    check_positive,
    check_whole,
)
from plackett.objectives.pairwise import add_pair, raise_to_floor


@compiled
def _draw_ranking(scores, key, z):  # type: ignore[no-untyped-def]
    """A ranking by scores with logistic noise; z: buffer."""
    for i in range(len(scores)):
        u = to_uniform(combine(key, uint64(i)))
        z[i] = scores[i] + np.log(u / (1.0 - u))
    return ranking.rank_order(z)


@list_function(LIST_FUNCTION)
def yetirank_list(scores, labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """All derivatives; params: samples and decay, prepared: explicit rankings, if any."""
    n = len(scores)
    samples = len(prepared) // n if len(prepared) > 0 else int(params[0])
    value, z = 0.0, np.empty(n)
    for sample in range(samples):
        if len(prepared) > 0:
            order = prepared[sample * n : (sample + 1) * n].astype(np.int64)
        else:
            order = _draw_ranking(scores, combine(key, uint64(sample)), z)
        place_weight = 1.0 / samples
        for k in range(n - 1):
            high, low = order[k], order[k + 1]
            if labels[high] < labels[low]:
                high, low = low, high
            weight = place_weight * (np.float64(labels[high]) - np.float64(labels[low]))
            place_weight *= params[1]
            value += add_pair(scores, high, low, weight, 1.0, gradient, curvature)
    return value


@compiled
def _draw_normal(key, i):  # type: ignore[no-untyped-def]
    state = combine(key, uint64(i))
    radius = np.sqrt(-2.0 * np.log(to_uniform(state)))
    return radius * np.cos(2.0 * np.pi * to_uniform(combine(state, uint64(1))))


@list_function(LIST_FUNCTION)
def stochasticrank_list(scores, _labels, prepared, key, params, gradient, curvature):  # type: ignore[no-untyped-def]
    """All derivatives; params: sigma, prepared: normalized gains, then explicit noise, if any."""
    n, sigma, gains = len(scores), params[0], prepared[: len(scores)]
    z, drops = np.empty(n), np.empty(n)
    for i in range(n):
        noise = prepared[n + i] if len(prepared) > n else _draw_normal(key, i)
        z[i] = scores[i] + sigma * noise
        drops[i] = discount(i) - discount(i + 1)
    order = ranking.rank_order(z)
    place = np.empty(n, np.int64)
    value = 0.0
    for k in range(n):
        place[order[k]] = k
        value -= gains[order[k]] * discount(k)
    for i in range(n):
        for j in range(n):
            distance = abs(z[j] - scores[i]) / sigma
            density = np.exp(-0.5 * distance * distance) / (sigma * np.sqrt(2.0 * np.pi))
            if j != i and density > 0.0:
                rank = place[j] - (1 if place[i] < place[j] else 0)
                force = (gains[i] - gains[j]) * drops[rank] * density
                gradient[i] -= force
                curvature[i] += abs(force) * max(1.0, distance) / sigma
    gradient -= np.sum(gradient) / n
    raise_to_floor(curvature)
    return value


def _check_decay(objective: str, decay: float) -> None:
    check_positive(objective, decay=decay)
    check_between(objective, 0.0, 1.0, decay=decay)


@dataclass(frozen=True)
class YetiRank(Objective):
    """Neighbors in rankings by noisy scores, as pairs (Gulin, Kuralenok & Pavlov 2011).

    >>> YetiRank().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [1.335, -1.093, -0.243]

    Parameters
    ----------
    samples
        Number of rankings per step.
    decay
        Factor of a pair's weight from one rank to the next.
    seed
        Seed of the noise; with the step and the list it determines every draw.
    """

    name: ClassVar[str] = "yetirank"
    exact: ClassVar[bool] = False
    draw: ClassVar[str | None] = "permutations"
    weighting: ClassVar[Weighting | None] = "share"
    function: ClassVar[ListFunction] = yetirank_list
    limits: ClassVar[Limits] = {"samples": check_whole, "decay": _check_decay}

    samples: int = 10
    decay: float = 0.85
    seed: int = 0

    def prepare(self, lists: ListLabels) -> Prepared | None:
        if "permutations" not in lists.draws:
            return None
        sets = check_permutations(lists.draws["permutations"], lists.offsets)
        return ranking.join_sets([orders.ravel().astype(np.float64) for orders in sets])


@dataclass(frozen=True)
class StochasticRank(Objective):
    """Minus NDCG smoothed by Gaussian noise on the scores (Ustimenko & Prokhorenkova 2020).

    >>> StochasticRank().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [0.111, -0.101, -0.01]

    Parameters
    ----------
    sigma
        Standard deviation of the noise: a smaller value approximates the metric better, with flatter gradients.
    seed
        Seed of the noise; with the step and the list it determines every draw.
    """

    name: ClassVar[str] = "stochasticrank"
    exact: ClassVar[bool] = False
    draw: ClassVar[str | None] = "noise"
    weighting: ClassVar[Weighting | None] = "gain"
    function: ClassVar[ListFunction] = stochasticrank_list
    limits: ClassVar[Limits] = {"sigma": check_positive}

    sigma: float = 1.0
    seed: int = 0

    def prepare(self, lists: ListLabels) -> Prepared:
        gains, noise = ranking.normalized_gains(lists.labels, lists.offsets), super().prepare(lists)
        if noise is None:
            return gains
        return Prepared(*append_weights(*gains, noise.values, lists.offsets))


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
