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

:func:`gains` and :func:`discounts` are for arrays. The compiled :func:`scaled_gain` and
:func:`discount` are those of the papers, for one document in a list function.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.kernels import compiled

Gain: TypeAlias = Literal["exp2", "identity"]
Discount: TypeAlias = Literal["log2", "letor", "reciprocal"]

_LOG_2 = np.log(2.0)


def gains(labels: ArrayLike, gain: Gain = "exp2") -> NDArray[np.float64]:
    """Gain of each label.

    >>> gains([0, 1, 2, 4])
    array([ 0.,  1.,  3., 15.])
    """
    y = np.asarray(labels, dtype=np.float64)
    return np.exp2(y) - 1.0 if gain == "exp2" else y


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
    return 1.0 / rank


@compiled
def discount(rank):  # type: ignore[no-untyped-def]
    """Discount ``log2`` of a rank that is counted from 0."""
    return _LOG_2 / np.log(rank + 2.0)


@compiled
def scaled_gain(label, top):  # type: ignore[no-untyped-def]
    r"""Gain ``exp2`` of a label in units of :math:`2^{top}`, so that no label overflows."""
    if label < 1.0:
        return np.expm1(_LOG_2 * label) * 2.0**-top
    return 2.0 ** (label - top) - 2.0**-top
