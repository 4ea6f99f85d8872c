r"""Normalised discounted cumulative gain.

.. math:: \mathrm{NDCG@}k = \frac{\sum_{r \le k} G(y_r) D(r)}{\sum_{r \le k} G(y^*_r) D(r)}

where :math:`y_r` is the label at rank r, :math:`y^*` the labels in falling order, G the gain and D
the discount (Järvelin & Kekäläinen 2002, "Cumulated gain-based evaluation of IR techniques", ACM
TOIS; gain :math:`2^y - 1` after Burges et al. 2005, "Learning to rank using gradient descent").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plackett.base.gains import discounts
from plackett.base.kernels import list_function
from plackett.metrics.definition import SIGNATURE, Definition
from plackett.metrics.groups import EXP2, IDENTITY, discounted_sum
from plackett.metrics.settings import Settings


@list_function(SIGNATURE)
def ndcg_list(ranked, ends, ideal, labels, cutoff, discounts, params):  # type: ignore[no-untyped-def] # noqa: ARG001
    """NDCG of one list; both sums carry the same power of two, so no label overflows."""
    if len(ideal) == 0 or ideal[0] <= 0.0:
        return np.nan
    top = np.float64(ideal[0])
    best = discounted_sum(ideal, ends[:0], cutoff, discounts, params[0], top)
    # Sums over groups add in another order, which may end one rounding above the best.
    return min(discounted_sum(ranked, ends, cutoff, discounts, params[0], top) / best, 1.0)


def gain_kind(settings: Settings) -> tuple[float, ...]:
    """Kind of gain, as a parameter of list functions."""
    return (EXP2 if settings.gain == "exp2" else IDENTITY,)


def rank_discounts(settings: Settings, n: int) -> NDArray[np.float64]:
    """Discounts of the ranks 1 to n."""
    return discounts(n, settings.discount)


NDCG = Definition(
    "ndcg",
    ndcg_list,
    ("gain", "discount", "short", "ties", "seed", "rounding", "empty"),
    params=gain_kind,
    discounts=rank_discounts,
    uses_ideal=True,
)
