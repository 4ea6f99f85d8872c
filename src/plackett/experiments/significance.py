r"""Is one ranking better than another? Paired tests on the values of the same lists.

Two tests are made on the differences :math:`d_q` of a metric's values between two systems:

- Student's paired t-test;
- Fisher's randomisation test: under the null hypothesis each difference is as likely to have the
  other sign, so the p-value is the share of sign patterns whose mean is at least as far from
  zero as the one observed. It assumes no distribution (Smucker, Allan & Carterette 2007).

The interval of the mean difference is Student's. Several systems compared with one baseline are
several chances of a false discovery; :func:`holm` corrects for them (Holm 1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit, prange, uint64
from numpy.typing import NDArray
from scipy import stats

from plackett.base.errors import DataError
from plackett.base.mixing import combine
from plackett.base.types import Values

_PERMUTATIONS = 100_000
_ROUNDING = 1e-12  # sums of the same numbers in another order may differ in the last bits


@dataclass(frozen=True)
class Comparison:
    """The difference of a system from a baseline over the lists that count for both."""

    n_lists: int
    difference: float
    """Mean of the differences."""
    low: float
    high: float
    """Ends of the 95 % interval of the mean difference."""
    t_test: float
    """Two-sided p-value of the paired t-test."""
    randomisation: float
    """Two-sided p-value of the randomisation test."""


def compare_paired(
    values: Values, baseline: Values, *, permutations: int = _PERMUTATIONS, seed: int = 0
) -> Comparison:
    """Compare per-list values of a system with those of a baseline.

    Lists where either value is NaN (dropped by the metric) do not count.
    """
    if values.shape != baseline.shape:
        raise DataError(
            f"paired values must be of the same lists, got {len(values)} and {len(baseline)}."
        )
    d = values - baseline
    d = d[~np.isnan(d)]
    if len(d) == 0:
        raise DataError("no list counts for both systems; there is nothing to compare.")
    mean = float(d.mean())
    half, t_test = _student(d)
    p = randomisation_test(d, permutations=permutations, seed=seed)
    return Comparison(len(d), mean, mean - half, mean + half, t_test, p)


def _student(differences: Values) -> tuple[float, float]:
    """Half the 95 % interval of the mean, and the two-sided p-value of its being zero."""
    n = len(differences)
    mean = float(differences.mean())
    error = float(differences.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    if error == 0.0:
        # No spread: the t-test is undefined, the randomisation test is not.
        return 0.0, 1.0 if mean == 0.0 or n < 2 else 0.0
    half = float(stats.t.ppf(0.975, n - 1)) * error
    return half, float(2.0 * stats.t.sf(abs(mean) / error, n - 1))


def randomisation_test(
    differences: Values, *, permutations: int = _PERMUTATIONS, seed: int = 0
) -> float:
    """Two-sided p-value of Fisher's randomisation test; the observed pattern counts as one more.

    >>> randomisation_test(np.zeros(5), permutations=99)
    1.0
    """
    d = np.ascontiguousarray(differences, dtype=np.float64)
    observed = abs(float(d.sum()))
    extreme = np.zeros(permutations, np.bool_)
    tolerance = _ROUNDING * float(np.abs(d).sum())
    _flip_signs(d, observed - tolerance, np.uint64(seed), extreme)
    return (int(extreme.sum()) + 1) / (permutations + 1)


@njit(cache=True, nogil=True, parallel=True)
def _flip_signs(differences, observed, seed, extreme):  # type: ignore[no-untyped-def]
    for p in prange(len(extreme)):
        state = combine(seed, uint64(p))
        bits = uint64(0)
        total = 0.0
        for i in range(len(differences)):
            if i % 64 == 0:
                bits = combine(state, uint64(i))
            total += differences[i] * (1.0 - 2.0 * float(bits & uint64(1)))
            bits = bits >> uint64(1)
        extreme[p] = abs(total) >= observed


def holm(p_values: Sequence[float]) -> NDArray[np.float64]:
    """Adjust p-values for their number by Holm's step-down method.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)
    factors = len(p) - np.arange(len(p))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return adjusted
