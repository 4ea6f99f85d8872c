r"""Random walks over rankings of goods against bads: the mutation of Dubey et al. (2009, figure 2).

The paper draws a pair uniformly, proposes its flip with probability :math:`\alpha`, rejects flips
that leave the valid rankings, and repeats until one is accepted. That draws among the flippable
pairs in proportion to :math:`\alpha`, which is constant over the pairs of two neighbouring blocks.
We draw from that law directly: a boundary between blocks in proportion to :math:`|\mathrm{block}|
\cdot |\mathrm{block'}| \cdot \alpha`, then one document of each block. A step costs O(number of
blocks), a handful near the best and the worst ranking, where the paper's loop takes thousands of
proposals on long lists.

A walk keeps, beside the state, goods and bads sorted by wins, descending: the goods with v wins
are ``goods[good_at_least[v + 1] : good_at_least[v]]``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from plackett.base.kernels import compiled
from plackett.base.random import combine, unit
from plackett.objectives.conditional.ranking_state import RankingState, flip, ideal_state


class Walk(NamedTuple):
    """A ranking on the move."""

    state: RankingState
    goods: NDArray[np.int64]
    """Goods by wins, descending."""
    good_places: NDArray[np.int64]
    """Where each good stands in ``goods``."""
    bads: NDArray[np.int64]
    """Bads by wins, descending."""
    bad_places: NDArray[np.int64]
    """Where each bad stands in ``bads``."""


@compiled
def start_walk(n_goods, n_bads):  # type: ignore[no-untyped-def]
    """A walk at the ideal ranking."""
    return Walk(
        ideal_state(n_goods, n_bads),
        np.arange(n_goods),
        np.arange(n_goods),
        np.arange(n_bads),
        np.arange(n_bads),
    )


@compiled
def restart(walk, n_above, key):  # type: ignore[no-untyped-def]
    """Put so many bads, at random, above all goods, and the others below."""
    state, bads = walk.state, walk.bads
    n_goods, n_bads = len(walk.goods), len(bads)
    state.good_wins[:] = n_bads - n_above
    state.good_at_least[:] = 0
    state.good_at_least[: n_bads - n_above + 1] = n_goods
    state.bad_wins[:] = 0
    state.bad_at_least[:] = n_above
    state.bad_at_least[0] = n_bads
    state.bad_at_least[n_goods + 1] = 0
    for k in range(n_above):
        other = k + int(unit(combine(key, uint64(k))) * (n_bads - k))
        _swap(bads, walk.bad_places, k, other)
        state.bad_wins[bads[k]] = n_goods


@compiled
def mutate(walk, key):  # type: ignore[no-untyped-def]
    """Flip one flippable pair, drawn in proportion to alpha; returns it."""
    left = unit(combine(key, uint64(0))) * _next_flip(walk, np.inf)[0]
    _, wins, bad_wins = _next_flip(walk, left)
    state = walk.state
    low, high = state.good_at_least[wins + 1], state.good_at_least[wins]
    g = walk.goods[low + int(unit(combine(key, uint64(1))) * (high - low))]
    low, high = state.bad_at_least[bad_wins + 1], state.bad_at_least[bad_wins]
    b = walk.bads[low + int(unit(combine(key, uint64(2))) * (high - low))]
    # A document that loses becomes the first of the next lower level, one that wins the last of the
    # next higher one: it changes places with the one there before the boundary moves over it.
    falls = 1 if state.good_at_least[wins] <= len(walk.goods) - bad_wins else 0
    rises = 1 - falls
    place = state.good_at_least[wins + rises] - falls
    _swap(walk.goods, walk.good_places, walk.good_places[g], place)
    place = state.bad_at_least[bad_wins + falls] - rises
    _swap(walk.bads, walk.bad_places, walk.bad_places[b], place)
    flip(state, g, b)
    return g, b


@compiled
def _next_flip(walk, left):  # type: ignore[no-untyped-def]
    """Walk along the boundaries of blocks until their weights exceed ``left``.

    Returns the sum of weights so far and the wins of the goods and of the bads at that boundary;
    with infinite ``left``, the sum of all weights and the last boundary.
    """
    state = walk.state
    n_goods, n_bads = len(walk.goods), len(walk.bads)
    total, good_wins, bad_wins = 0.0, 0, 0
    first = 0
    while first < n_goods:
        wins = state.good_wins[walk.goods[first]]
        last = state.good_at_least[wins]
        for above in (first, last):  # the bads just above the block, then those just below it
            lost = n_goods - above
            width = (last - first) * (state.bad_at_least[lost] - state.bad_at_least[lost + 1])
            if width > 0:
                near = n_goods + wins - lost if above == first else n_bads - wins + lost
                total += width * (1.0 + near)
                good_wins, bad_wins = wins, lost
                if total > left:
                    return total, good_wins, bad_wins
        first = last
    return total, good_wins, bad_wins


@compiled
def _swap(order, places, k, other):  # type: ignore[no-untyped-def]
    order[k], order[other] = order[other], order[k]
    places[order[k]] = k
    places[order[other]] = other
