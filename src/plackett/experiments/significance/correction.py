"""p-values of many tests: correct for their number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def holm(p_values: Sequence[float]) -> NDArray[np.float64]:
    """Adjust p-values by Holm's step-down method (1979).

    Rejecting those below alpha makes a single false discovery with probability alpha at most.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)
    factors = len(p) - np.arange(len(p))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> NDArray[np.float64]:
    """Adjust p-values by Benjamini & Hochberg's step-up method (1995).

    Of those below alpha, a share of alpha is false on average: weaker than Holm's promise, and the
    usual choice where many systems are screened.

    >>> benjamini_hochberg([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.04, 0.04]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)[::-1]
    factors = len(p) / (len(p) - np.arange(len(p)))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.minimum.accumulate(p[order] * factors), 1.0)
    return adjusted
