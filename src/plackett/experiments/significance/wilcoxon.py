"""Wilcoxon's signed-rank test: the ranks of the differences instead of the differences."""

from __future__ import annotations

import numpy as np
from scipy import stats

from plackett.base.ragged import Values

_EXACT_UP_TO = 50  # differences; beyond, the normal approximation is good to three digits


def wilcoxon_test(differences: Values) -> float:
    """Two-sided p-value; differences of zero are left out (Wilcoxon 1945).

    Exact for few differences without ties, else by the normal approximation with the correction
    for ties.

    >>> wilcoxon_test(np.array([0.0, 0.0]))
    1.0
    >>> wilcoxon_test(np.array([0.1, 0.2, 0.3, 0.4, 0.5]))  # 2 / 2**5
    0.0625
    """
    d = np.asarray(differences, dtype=np.float64)
    d = d[d != 0.0]
    if len(d) == 0:
        return 1.0
    few = len(d) <= _EXACT_UP_TO and len(np.unique(np.abs(d))) == len(d)
    return float(stats.wilcoxon(d, method="exact" if few else "approx").pvalue)
