r"""Student's t: intervals of a mean, the paired test, and its correction for overlapping splits.

With n differences of mean :math:`\bar d` and standard deviation s, :math:`\bar d / (s/\sqrt n)` has
Student's distribution with n - 1 degrees of freedom if the differences are independent and normal.
Over random splits of one data set they are not independent, since training sets overlap: the
variance is then larger by the factor :math:`1 + n\,n_{test}/n_{train}` (Nadeau & Bengio 2003).
"""

from __future__ import annotations

import math

from scipy import stats

from plackett.base.ragged import Values

_LEVEL = 0.95


def mean_interval(values: Values, *, level: float = _LEVEL) -> tuple[float, float]:
    r"""Ends of the interval :math:`\bar v \pm t_{n-1}\, s/\sqrt n` of a mean.

    >>> import numpy as np
    >>> low, high = mean_interval(np.array([1.0, 2.0, 3.0]))
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    """
    mean, error = _mean_and_error(values)
    if error == 0.0:
        return mean, mean
    half = float(stats.t.ppf((1 + level) / 2, len(values) - 1)) * error
    return mean - half, mean + half


def t_test(differences: Values) -> float:
    """Two-sided p-value of the paired t-test."""
    mean, error = _mean_and_error(differences)
    return _p_value(mean, error, len(differences))


def resampled_t_test(differences: Values, *, test_share: float, train_share: float) -> float:
    """Two-sided p-value over random splits of one data set, corrected for their overlap.

    Parameters
    ----------
    differences
        One per split.
    test_share, train_share
        Shares of the lists in the test and training parts.
    """
    mean, error = _mean_and_error(differences)
    n = len(differences)
    return _p_value(mean, error * math.sqrt(1.0 + n * test_share / train_share), n)


def _mean_and_error(values: Values) -> tuple[float, float]:
    """Mean, and its standard error; 0 for a single value, of which nothing is known."""
    n = len(values)
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(n)) if n > 1 else 0.0


def _p_value(mean: float, error: float, n: int) -> float:
    if error == 0.0:
        # No spread: the t-test is undefined, the randomisation test is not.
        return 1.0 if mean == 0.0 or n < 2 else 0.0
    return float(2.0 * stats.t.sf(abs(mean) / error, n - 1))
