"""Sampled rankings of all lists as the list functions take them: drawn, or given explicitly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.kernels import compiled
from plackett.base.ragged import Keys, Labels, Offsets, from_sizes
from plackett.base.random import combine
from plackett.objectives.conditional.gains import gain_of_weighted_wins, gain_of_wins
from plackett.objectives.conditional.sampled import COLUMNS
from plackett.objectives.conditional.sampler import SamplerSettings, draw_rankings
from plackett.objectives.lists import Extra
from plackett.objectives.ranking_sets import coefficients_of, column_of, set_size

NO_GAIN = -1
"""Stands for a gain where the objective has none (MLE): all losses are 0."""

NO_WEIGHTS = np.empty(0)
"""Stands for weights of 1."""

Measure = tuple[int, int, int]
"""A gain for compiled code: its position in GAINS (or NO_GAIN), cut-off, position in DISCOUNTS."""


def drawn_rankings(
    labels: Labels,
    offsets: Offsets,
    keys: Keys,
    *,
    seed: int,
    settings: SamplerSettings,
    measure: Measure,
    weights: NDArray[np.float64] = NO_WEIGHTS,
) -> Extra:
    """Draw the rankings of each list; they depend on seed and key of the list only."""
    relevant = labels > 0
    goods = np.add.reduceat(np.append(relevant, False), offsets[:-1], dtype=np.int64)
    sizes = np.diff(offsets)
    has_pairs = (sizes > 0) & (goods > 0) & (goods < sizes)
    if len(weights):
        has_pairs &= np.add.reduceat(np.append(weights * relevant, 0.0), offsets[:-1]) > 0
    where = from_sizes(np.where(has_pairs, set_size(settings.samples, sizes, COLUMNS), 0))
    values = np.empty(where[-1])
    word = np.uint64(seed % 2**64)
    own = np.ascontiguousarray(keys)
    _draw_sets(labels, weights, offsets, own, word, settings, measure, values, where)
    return Extra(values, where)


def given_rankings(
    rankings: Any,
    labels: Labels,
    offsets: Offsets,
    *,
    measure: Measure,
    weights: NDArray[np.float64] = NO_WEIGHTS,
) -> Extra:
    """Explicit rankings: for each list an array m x goods x bads of signs, by position in the list.

    Lists without goods or without bads may have anything.
    """
    n_lists = len(offsets) - 1
    if len(rankings) != n_lists:
        raise DataError(
            f"draws['rankings'] must be {n_lists} arrays, one per list, got {len(rankings)}."
        )
    parts = []
    for q in range(n_lists):
        y = labels[offsets[q] : offsets[q + 1]]
        w = weights[offsets[q] : offsets[q + 1]]
        n_goods, n_bads = int(np.sum(y > 0)), int(np.sum(y == 0))
        if n_goods == 0 or n_bads == 0 or (len(w) and not w[y > 0].any()):
            parts.append(np.empty(0))
            continue
        signs = _as_signs(rankings[q], q, n_goods, n_bads)
        wins = np.concatenate([(signs == 1).sum(axis=2), (signs == -1).sum(axis=1)], axis=1)
        part = np.zeros(set_size(len(wins), len(y), COLUMNS))
        beaten = np.einsum("rgb,g->rb", signs == -1, w[y > 0] if len(w) else np.ones(n_goods))
        _store(y, w, wins.astype(np.int32), beaten, len(wins), measure, part)
        parts.append(part)
    return Extra(np.concatenate([*parts, np.empty(0)]), from_sizes([len(part) for part in parts]))


def _as_signs(given: Any, q: int, n_goods: int, n_bads: int) -> NDArray[np.int64]:
    signs = np.asarray(given)
    if (
        signs.ndim != 3
        or len(signs) == 0
        or signs.shape[1:] != (n_goods, n_bads)
        or not np.isin(signs, (-1, 1)).all()
    ):
        raise DataError(
            f"draws['rankings'][{q}] must be m x goods x bads = m x {n_goods} x {n_bads} signs of "
            f"+1 or -1 with m >= 1, got shape {signs.shape}."
        )
    return signs


@njit(cache=True, nogil=True, parallel=True)
def _draw_sets(labels, weights, offsets, keys, seed, settings, measure, values, where):  # type: ignore[no-untyped-def]
    for q in prange(len(offsets) - 1):
        if where[q + 1] == where[q]:
            continue
        y = labels[offsets[q] : offsets[q + 1]]
        wins = np.empty((settings.samples, len(y)), dtype=np.int32)
        found = draw_rankings(settings, combine(seed, keys[q]), np.sum(y > 0), wins)
        w = weights[offsets[q] : offsets[q + 1]]
        beaten = _weights_beaten(w[y > 0], wins[:found]) if len(w) else np.empty((0, 0))
        _store(y, w, wins, beaten, found, measure, values[where[q] : where[q + 1]])


@compiled
def _weights_beaten(weights, wins):  # type: ignore[no-untyped-def]
    """For each ranking and bad, the summed weights of the goods it beats.

    In a ranking the goods below a bad are those with the fewest wins.
    """
    n_goods = len(weights)
    beaten = np.empty((len(wins), wins.shape[1] - n_goods))
    for r in range(len(wins)):
        order = np.argsort(wins[r, :n_goods], kind="mergesort")
        sums = np.zeros(n_goods + 1)
        for k in range(n_goods):
            sums[k + 1] = sums[k] + weights[order[k]]
        for b in range(beaten.shape[1]):
            beaten[r, b] = sums[wins[r, n_goods + b]]
    return beaten


@compiled
def _store(labels, weights, wins, beaten, found, measure, stored):  # type: ignore[no-untyped-def]
    """Store rankings of a list: losses, and coefficients relative to the ideal ranking.

    A good that beats n of the bads has coefficient 2 (n - n_bads), a bad that beats n of the goods
    has 2 n. With weights w (none: an empty array) every pair counts w of its good: the good has
    2 w (n - n_bads), a bad twice the weights of the goods it beats.
    """
    n_goods = np.sum(labels > 0)
    n_bads = len(labels) - n_goods
    stored[0] = found
    losses, coefficients = column_of(stored, 0), coefficients_of(stored, len(labels), COLUMNS)
    for r in range(found):
        losses[r] = 0.0
        if measure[0] != NO_GAIN:
            losses[r] = 1.0 - _gain(measure, wins[r, :n_goods], weights, labels, n_bads)
        good, bad = 0, n_goods
        for d in range(len(labels)):
            if labels[d] > 0:
                own = weights[d] if len(weights) else 1.0
                coefficients[r, d] = 2.0 * own * (wins[r, good] - n_bads)
                good += 1
            else:
                below = beaten[r, bad - n_goods] if len(weights) else np.float64(wins[r, bad])
                coefficients[r, d] = 2.0 * below
                bad += 1


@compiled
def _gain(measure, good_wins, weights, labels, n_bads):  # type: ignore[no-untyped-def]
    gain, cutoff, discount = measure
    if len(weights) == 0:
        return gain_of_wins(gain, good_wins, n_bads, cutoff, discount)
    own = weights[labels > 0]
    return gain_of_weighted_wins(gain, good_wins, own, n_bads, cutoff, discount)
