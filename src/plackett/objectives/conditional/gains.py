r"""Gains of a ranking of goods against bads, from how many bads each good beats.

Sorted by wins, descending, the k-th good (from 0) with :math:`n_{(k)}` wins stands at rank
:math:`r_k = k + n_- - n_{(k)}` (from 0), and

.. math::

    \mathrm{AUC} = \frac{1}{n_+ n_-}\sum_g n_g, \qquad
    \mathrm{MAP} = \frac{1}{n_+}\sum_k \frac{k+1}{r_k+1}, \qquad
    \mathrm{NDCG@K} = \sum_{r_k < K} D(r_k) \Big/ \sum_{i < \min(n_+, K)} D(i).

The discount ``jk`` is :math:`D(0) = D(1) = 1`, then :math:`D(i) = 1/\log_2(1+i)` (Järvelin &
Kekäläinen 2002 with base 2); ``standard`` is :math:`1/\log_2(2+i)`. All gains lie in [0, 1] and
are 1 for the ideal ranking.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from plackett.base.kernels import compiled
from plackett.objectives.checks import need_choice, need_count

GainName: TypeAlias = Literal["auc", "map", "ndcg"]
DiscountName: TypeAlias = Literal["jk", "standard"]

GAINS: tuple[GainName, ...] = ("auc", "map", "ndcg")
DISCOUNTS: tuple[DiscountName, ...] = ("jk", "standard")


def gain_of(
    good_wins: ArrayLike,
    n_bads: int,
    *,
    gain: GainName,
    cutoff: int = 10,
    discount: DiscountName = "jk",
) -> float:
    """Gain of one ranking.

    Parameters
    ----------
    good_wins
        For each good document, how many of the bads it beats.
    n_bads
        Number of bad documents.
    gain
        ``auc``, ``map`` or ``ndcg``.
    cutoff, discount
        Of NDCG.

    >>> gain_of([1], 3, gain="map")
    0.3333333333333333
    """
    need_choice("gain_of", GAINS, gain=gain)
    need_choice("gain_of", DISCOUNTS, discount=discount)
    need_count("gain_of", cutoff=cutoff)
    wins = np.asarray(good_wins, dtype=np.int64)
    return float(gain_of_wins(GAINS.index(gain), wins, n_bads, cutoff, DISCOUNTS.index(discount)))


@compiled
def gain_of_wins(gain, good_wins, n_bads, cutoff, discount):  # type: ignore[no-untyped-def]
    """The same for compiled code; gain and discount are positions in GAINS and DISCOUNTS."""
    n_goods = len(good_wins)
    if gain == 0:
        return np.sum(good_wins) / (n_goods * n_bads)
    ascending = np.sort(good_wins)
    total, ideal = 0.0, 0.0
    for k in range(n_goods):
        rank = k + n_bads - ascending[n_goods - 1 - k]
        if gain == 1:
            total += (k + 1.0) / (rank + 1.0)
            ideal += 1.0
        else:
            total += _discount(rank, cutoff, discount)
            ideal += _discount(k, cutoff, discount)
    return total / ideal


@compiled
def gain_of_weighted_wins(gain, good_wins, weights, n_bads, cutoff, discount):  # type: ignore[no-untyped-def]
    """The same with weights: a good's part is multiplied by its own.

    Goods with as many wins as each other stand side by side in any order; the heavier come first,
    so that the ideal ranking has gain 1.
    """
    n_goods = len(good_wins)
    if gain == 0:
        return np.sum(weights * good_wins) / (np.sum(weights) * n_bads)
    heaviest = np.argsort(-weights, kind="mergesort")
    order = heaviest[np.argsort(-good_wins[heaviest], kind="mergesort")]
    total, ideal = 0.0, 0.0
    for k in range(n_goods):
        rank, weight = k + n_bads - good_wins[order[k]], weights[order[k]]
        if gain == 1:
            total += weight * ((k + 1.0) / (rank + 1.0))
            ideal += weight
        else:
            total += weight * _discount(rank, cutoff, discount)
            ideal += weights[heaviest[k]] * _discount(k, cutoff, discount)
    return total / ideal


@compiled
def _discount(rank, cutoff, discount):  # type: ignore[no-untyped-def]
    if rank >= cutoff:
        return 0.0
    # Both discounts are 1 / log2 of a number: max(2, rank from 1), or rank from 1 plus 1.
    return 1.0 / np.log2(max(rank + 1.0, 2.0) if discount == 0 else rank + 2.0)
