r"""A ranking of relevant documents (goods) against irrelevant ones (bads), with flips in O(1).

The conditional models represent a ranking as :math:`y_{gb} = \pm 1`: +1 if good g is above bad b. The orders among
goods and among bads do not matter. A ranking is a sequence of alternating *blocks* of goods and bads, given by

- ``good_wins[g]``: how many bads g beats,
- ``bad_wins[b]``: how many goods b beats,

so the n+ n- signs need not be stored. ``good_at_least[k]`` is the number of goods with at least k
wins, ``bad_at_least[k]`` that of bads. With these, for :math:`n_g` and :math:`n_b` wins and
:math:`m_b = n_+ - n_b` goods above b,

.. math::

    y_{gb} = +1 &\iff \mathrm{good\_at\_least}[n_g] \le m_b \\
    \text{g and b may change places} &\iff
      m_b = \mathrm{good\_at\_least}[n_g + (y_{gb} = -1)]

The second line says that their blocks are neighbors; any other flip would make a cycle g > b' >
g' > b > g. Every ranking can be reached from every other one by such flips.

A flip is proposed with probability :math:`\alpha = (1 + a) / (n_+ + n_- - 1)`, :math:`a = n_- - n_g + n_b` where
:math:`y_{gb} = +1` and :math:`n_g + n_+ - n_b` where it is -1: large where the flip changes the quality of the ranking
little (Dubey et al. 2009, figure 2). The 1 is ours: without it :math:`\alpha` is 0 for all pairs of the best and of the
worst ranking, from which the walks start. It lies between :math:`1/(n_+ + n_- - 1)` and 1.

The functions are compiled and can be called from Python and from other compiled functions alike.
:func:`flip` changes its argument: it is the inner step of random walks.

**Gains** follow from how many bads each good beats. Sorted by wins, descending, the k-th good (from
0) with :math:`n_{(k)}` wins stands at rank :math:`r_k = k + n_- - n_{(k)}` (from 0), and

.. math::

    \mathrm{AUC} = \frac{1}{n_+ n_-}\sum_g n_g, \qquad
    \mathrm{MAP} = \frac{1}{n_+}\sum_k \frac{k+1}{r_k+1}, \qquad
    \mathrm{NDCG@K} = \sum_{r_k < K} D(r_k) \Big/ \sum_{i < \min(n_+, K)} D(i).

The discount ``jk`` is :math:`D(0) = D(1) = 1`, then :math:`D(i) = 1/\log_2(1+i)` (Järvelin & Kekäläinen 2002 with base
2); ``standard`` is :math:`1/\log_2(2+i)`. All gains lie in [0, 1] and are 1 for the ideal ranking.
"""

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.arithmetic import stable_order
from plackett.base.errors import DataError
from plackett.base.gains import OBJECTIVE_DISCOUNTS, ObjectiveDiscount, inverse_discount
from plackett.base.kernels import compiled
from plackett.objectives.objective import check_choice, check_whole


class RankingState(NamedTuple):
    """A valid ranking of goods against bads."""

    good_wins: NDArray[np.int64]
    """Number of bads that each good beats."""
    bad_wins: NDArray[np.int64]
    """Number of goods that each bad beats."""
    good_at_least: NDArray[np.int64]
    """At k, from 0 to n- + 1: the number of goods with at least k wins."""
    bad_at_least: NDArray[np.int64]
    """At k, from 0 to n+ + 1: the number of bads with at least k wins."""


@compiled
def ideal_state(n_goods, n_bads):  # type: ignore[no-untyped-def]
    """The ranking with all goods above all bads."""
    state = RankingState(
        np.full(n_goods, n_bads, dtype=np.int64),
        np.zeros(n_bads, dtype=np.int64),
        np.full(n_bads + 2, n_goods, dtype=np.int64),
        np.zeros(n_goods + 2, dtype=np.int64),
    )
    state.good_at_least[n_bads + 1] = 0
    state.bad_at_least[0] = n_bads
    return state


def state_of(bits: ArrayLike) -> RankingState:
    """The state of a ranking given as signs, one row per good, one column per bad.

    >>> state_of([[1, -1]]).bad_wins
    array([0, 1])
    """
    y = np.asarray(bits)
    if y.ndim != 2 or 0 in y.shape or not np.isin(y, (-1, 1)).all():
        raise DataError(f"bits must be goods x bads signs of +1 or -1, got shape {y.shape}.")
    good_wins, bad_wins = (y == 1).sum(axis=1), (y == -1).sum(axis=0)
    state = RankingState(
        good_wins,
        bad_wins,
        (good_wins[:, None] >= np.arange(y.shape[1] + 2)).sum(axis=0),
        (bad_wins[:, None] >= np.arange(y.shape[0] + 2)).sum(axis=0),
    )
    if not np.array_equal(bits_of(state), y):
        raise DataError("bits are not those of a ranking: some goods g, g' and bads b, b' have g > b > g' > b' > g.")
    return state


@compiled
def bit(state, g, b):  # type: ignore[no-untyped-def]
    """Sign of a pair: +1 where good g stands above bad b."""
    above = len(state.good_wins) - state.bad_wins[b]
    return 1 if state.good_at_least[state.good_wins[g]] <= above else -1


@compiled
def flippable(state, g, b):  # type: ignore[no-untyped-def]
    """Whether good g and bad b may change places: whether their blocks are neighbors."""
    above = len(state.good_wins) - state.bad_wins[b]
    lost = 1 if bit(state, g, b) < 0 else 0
    return above == state.good_at_least[state.good_wins[g] + lost]


@compiled
def alpha(state, g, b):  # type: ignore[no-untyped-def]
    """Probability with which a flip of the pair is proposed."""
    n_goods, n_bads = len(state.good_wins), len(state.bad_wins)
    lead = state.good_wins[g] - state.bad_wins[b]
    near = n_bads - lead if bit(state, g, b) > 0 else n_goods + lead
    return (1 + near) / (n_goods + n_bads - 1)


@compiled
def flip(state, g, b):  # type: ignore[no-untyped-def]
    """Let good g and bad b change places, in place; the pair must be flippable."""
    if bit(state, g, b) > 0:
        state.good_at_least[state.good_wins[g]] -= 1
        state.good_wins[g] -= 1
        state.bad_wins[b] += 1
        state.bad_at_least[state.bad_wins[b]] += 1
    else:
        state.bad_at_least[state.bad_wins[b]] -= 1
        state.bad_wins[b] -= 1
        state.good_wins[g] += 1
        state.good_at_least[state.good_wins[g]] += 1


@compiled
def bits_of(state):  # type: ignore[no-untyped-def]
    """All signs, one row per good, one column per bad."""
    signs = np.empty((len(state.good_wins), len(state.bad_wins)), dtype=np.int64)
    for g in range(len(state.good_wins)):
        for b in range(len(state.bad_wins)):
            signs[g, b] = bit(state, g, b)
    return signs


GainName: TypeAlias = Literal["auc", "map", "ndcg"]

GAINS: tuple[GainName, ...] = ("auc", "map", "ndcg")


def gain_of(
    good_wins: ArrayLike, n_bads: int, *, gain: GainName, cutoff: int = 10, discount: ObjectiveDiscount = "jk"
) -> float:
    """Gain of one ranking, from how many bads each good beats and the number of bads.

    >>> gain_of([1], 3, gain="map")
    0.3333333333333333
    """
    check_choice("gain_of", GAINS, gain=gain)
    check_choice("gain_of", OBJECTIVE_DISCOUNTS, discount=discount)
    check_whole("gain_of", cutoff=cutoff)
    wins = np.asarray(good_wins, dtype=np.int64)
    numbers = n_bads, cutoff, OBJECTIVE_DISCOUNTS.index(discount)
    return float(gain_of_wins(GAINS.index(gain), wins, np.ones(len(wins)), *numbers))


@compiled
def gain_of_wins(gain, good_wins, weights, n_bads, cutoff, kind):  # type: ignore[no-untyped-def]
    """Like :func:`gain_of`, for compiled code; gain: of ``GAINS``, kind: of ``OBJECTIVE_DISCOUNTS``.

    A good's part is multiplied by its weight. Goods with equal wins are adjacent in any order; the heavier come first,
    so that the ideal ranking has gain 1.
    """
    n_goods = len(good_wins)
    if gain == 0:
        return np.sum(weights * good_wins) / (np.sum(weights) * n_bads)
    heaviest = stable_order(weights, True)
    order = heaviest[stable_order(good_wins[heaviest], True)]
    total, ideal = 0.0, 0.0
    for k in range(n_goods):
        rank, weight = k + n_bads - good_wins[order[k]], weights[order[k]]
        if gain == 1:
            total += weight * ((k + 1.0) / (rank + 1.0))
            ideal += weight
        else:
            total += weight * _discount(rank, cutoff, kind)
            ideal += weights[heaviest[k]] * _discount(k, cutoff, kind)
    return total / ideal


@compiled
def _discount(rank, cutoff, kind):  # type: ignore[no-untyped-def]
    if rank >= cutoff:
        return 0.0
    return 1.0 / inverse_discount(rank, kind)
