r"""Gains of labels and discounts of ranks, shared by metrics and objectives.

==============  ===========================  =========================================
gain            of label y
==============  ===========================  =========================================
``exp2``        :math:`2^y - 1`              Burges et al. 2005; the papers
``identity``    :math:`y`                    Järvelin & Kekäläinen 2002; trec_eval
==============  ===========================  =========================================

==============  ===========================  =========================================
discount        of rank r, counted from 1
==============  ===========================  =========================================
``log2``        :math:`1/\log_2(1+r)`        Burges et al. 2005; the papers
``letor``       1 for r = 1, 2, then         Järvelin & Kekäläinen 2002; the scripts of
                :math:`1/\log_2 r`           LETOR 3 and 4 and of MSLR
``reciprocal``  :math:`1/r`                  CatBoost's ``type=Position``
==============  ===========================  =========================================

Parameters of objectives have the names of the papers instead: ``jk`` is ``letor``, ``standard`` is ``log2``.

Compiled code for one document: the gains :func:`exp2_gain` and :func:`scaled_gain`, and the discounts :func:`discount`
and :func:`inverse_discount`, whose ranks count from 0. :func:`inverse_discount` serves MDPRank and the conditional
models. :func:`discounts` returns a float64 array: for the metrics NDCG and DCG, and for the float32 kernel of
LambdaRank. The convention of a metric changes metrics only; objectives keep their own discount.
ApproxNDCG and FastSoftRank need the discount at ranks that are no whole numbers, and its derivative: they compute it
themselves.
"""

from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import unknown_name
from plackett.base.kernels import compiled

Gain: TypeAlias = Literal["exp2", "identity"]
Discount: TypeAlias = Literal["log2", "letor", "reciprocal"]
ObjectiveDiscount: TypeAlias = Literal["jk", "standard"]
OBJECTIVE_DISCOUNTS: tuple[ObjectiveDiscount, ...] = ("jk", "standard")
"""Compiled code refers to them by position."""

_LOG_2 = np.log(2.0)
LARGEST_WHOLE = 62.0
"""Gains of whole labels up to it come from a table."""
_WHOLE_GAINS = np.exp2(np.arange(LARGEST_WHOLE + 1.0)) - 1.0


def discounts(n: int, discount: Discount = "log2") -> NDArray[np.float64]:
    """Discounts of the ranks 1 to n.

    >>> discounts(3, "reciprocal")
    array([1.        , 0.5       , 0.33333333])
    """
    rank = np.arange(1, n + 1, dtype=np.float64)
    if discount == "log2":
        return 1.0 / np.log2(1.0 + rank)
    if discount == "letor":
        return 1.0 / np.log2(np.maximum(rank, 2.0))
    if discount == "reciprocal":
        return 1.0 / rank
    raise unknown_name("discount", discount, get_args(Discount))


@compiled
def discount(rank):  # type: ignore[no-untyped-def]
    """Discount ``log2`` of a rank that is counted from 0."""
    return _LOG_2 / np.log(rank + 2.0)


@compiled
def inverse_discount(rank, kind):  # type: ignore[no-untyped-def]
    """One over the discount of a rank that is counted from 0; kind: of ``OBJECTIVE_DISCOUNTS``."""
    return np.log2(max(rank + 1.0, 2.0) if kind == 0 else rank + 2.0)


@compiled
def scaled_gain(label, top):  # type: ignore[no-untyped-def]
    r"""Gain ``exp2`` of a label in units of :math:`2^{top}`, so that no label overflows."""
    if label < 1.0:
        return np.expm1(_LOG_2 * label) * 2.0**-top
    return 2.0 ** (label - top) - 2.0**-top


@compiled
def exp2_gain(label, top):  # type: ignore[no-untyped-def]
    """2^y - 1, divided by 2^top if top is so large that the power might overflow."""
    if top > LARGEST_WHOLE:
        return np.exp2(label - top) - np.exp2(-top)
    whole = np.uint64(label)
    if whole == label:
        return _WHOLE_GAINS[whole]
    return np.expm1(label * _LOG_2)
