r"""Significance tests for paired values of two systems on the same lists.

All tests use the differences :math:`d_q` of a metric between two systems on the same lists (or of
their means in the same trials). Comparing several systems with one baseline gives several chances of
a false discovery, so p-values are corrected for the number of systems.

Randomization test (Fisher; Smucker, Allan & Carterette 2007). Under the null hypothesis each difference is as likely to
have the other sign, so the p-value is the share of sign patterns whose sum is at least as far from zero as the observed
one. It assumes no distribution. Random bits choose the signs, 64 lists at a time. The signed sums of eight differences
are tabulated for the 256 patterns of a byte, so a word of 64 signs costs eight additions. Permutations are processed in
blocks, one word of lists after the other, which keeps the eight tables and the sums of the block in the first-level
cache. The bits are a hash of (seed, permutation, word): any number of threads gives the same p-value.

Student's t-test. With n differences of mean :math:`\bar d` and standard deviation s,
:math:`\bar d / (s/\sqrt n)` has Student's distribution with n - 1 degrees of freedom if the
differences are independent and normal. Over random splits of one data set they are not independent,
since training sets overlap: the variance is then larger by the factor
:math:`1 + n\,n_{test}/n_{train}` (Nadeau & Bengio 2003).
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy  # its stats is imported when it is used
from numba import prange, uint64
from numpy.typing import NDArray

from plackett.base.errors import DataError, warn_renamed
from plackett.base.kernels import compiled, parallel
from plackett.base.ragged import Values
from plackett.base.random import combine

_RESAMPLES = 10_000
_HALF = 32  # bits


def bootstrap_intervals(
    values: NDArray[np.float64], *, level: float = 0.95, resamples: int = _RESAMPLES, seed: int = 0
) -> NDArray[np.float64]:
    """Percentile intervals of the means of several systems over the same lists (Efron 1979).

    All systems use the same resamples, so intervals of differences are paired.

    Parameters
    ----------
    values
        One row per list, one column per system (or difference of systems). Rows with NaN, which
        the metric drops, do not count.
    level
        Share of the resampled means inside the interval.
    resamples
        Number of resamples.
    seed
        Random seed; the number of threads does not matter.

    Returns
    -------
    intervals
        For each column, low and high end.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2:
        raise DataError(f"values need a row per list and a column per system, got {table.shape}.")
    counted = np.ascontiguousarray(table[~np.isnan(table).any(axis=1)])
    if len(counted) == 0:
        raise DataError("no list counts for all systems; there is nothing to resample.")
    means = np.zeros((resamples, counted.shape[1]))
    _resample(counted, np.uint64(seed), means)
    ends = ((1 - level) / 2, (1 + level) / 2)
    return np.quantile(means, ends, axis=0).T


@parallel
def _resample(values, seed, means):  # type: ignore[no-untyped-def]
    n, columns = values.shape
    for b in prange(len(means)):
        state = combine(seed, uint64(b))
        total = means[b]
        for i in range(n):
            # The upper half of a random word times n, without the upper half: uniform below n up
            # to n / 2**32, which no interval of so many resamples can show.
            word = combine(state, uint64(i)) >> uint64(_HALF)
            row = values[(word * uint64(n)) >> uint64(_HALF)]
            for j in range(columns):
                total[j] += row[j]
        for j in range(columns):
            total[j] /= n


def cohens_d(differences: Values) -> float:
    r"""Cohen's d of paired differences: :math:`\bar d / s`, 0 where all of them are equal.

    Usually .2 is called small, .5 medium and .8 large (Cohen 1988).

    >>> round(cohens_d(np.array([1.0, 2.0, 3.0])), 3)
    2.0
    """
    spread = float(np.std(differences, ddof=1)) if len(differences) > 1 else 0.0
    return float(np.mean(differences)) / spread if spread > 0.0 else 0.0


PERMUTATIONS = 100_000
_ROUNDING = 1e-12  # sums of the same numbers in another order may differ in the last bits
_BLOCK = 1024
"""Permutations whose sums (8 kB) share the first-level cache with the tables of a word (16 kB)."""
_WORD, _BYTE, _PATTERNS = 64, 8, 256


def randomization_test(differences: Values, *, permutations: int = PERMUTATIONS, seed: int = 0) -> float:
    """Two-sided p-value of Fisher's randomization test; the observed pattern counts as one more.

    >>> randomization_test(np.zeros(5), permutations=99)
    1.0
    """
    d = np.ascontiguousarray(differences, dtype=np.float64)
    observed = abs(float(d.sum())) - _ROUNDING * float(np.abs(d).sum())
    sums = np.zeros(permutations)
    _signed_sums(_tables(d), np.uint64(seed), sums)
    return (int(np.sum(np.abs(sums) >= observed)) + 1) / (permutations + 1)


def randomisation_test(differences: Values, *, permutations: int = PERMUTATIONS, seed: int = 0) -> float:
    """The old spelling of :func:`randomization_test`."""
    warn_renamed("randomisation_test", "randomization_test")
    return randomization_test(differences, permutations=permutations, seed=seed)


def _tables(differences: Values) -> NDArray[np.float64]:
    """For every eight differences, their sum under each of the 256 patterns; bit set: minus."""
    words = -(-len(differences) // _WORD)
    padded = np.zeros(words * _WORD)
    padded[: len(differences)] = differences
    tables = np.zeros((words * _BYTE, _PATTERNS))
    _fill(padded, tables)
    return tables


@compiled
def _fill(differences, tables):  # type: ignore[no-untyped-def]
    for t in range(len(tables)):
        table = tables[t]
        for k in range(_BYTE):
            table[0] += differences[_BYTE * t + k]
        # The other patterns differ from a smaller one by one sign.
        for k in range(_BYTE):
            for pattern in range(1 << k, 2 << k):
                table[pattern] = table[pattern - (1 << k)] - 2.0 * differences[_BYTE * t + k]


@compiled
def _block_sums(tables, states, sums):  # type: ignore[no-untyped-def]
    for w in range(len(tables) // _BYTE):
        table = tables[_BYTE * w : _BYTE * (w + 1)]
        word = uint64(_WORD * w)
        for p in range(len(sums)):
            bits = combine(states[p], word)
            total = 0.0
            for k in range(_BYTE):
                total += table[k, (bits >> uint64(8 * k)) & uint64(255)]
            sums[p] += total


@parallel
def _signed_sums(tables, seed, sums):  # type: ignore[no-untyped-def]
    states = np.empty(len(sums), np.uint64)
    for b in prange((len(sums) + _BLOCK - 1) // _BLOCK):
        low, high = b * _BLOCK, min((b + 1) * _BLOCK, len(sums))
        for p in range(low, high):
            states[p] = combine(seed, uint64(p))
        _block_sums(tables, states[low:high], sums[low:high])


def mean_interval(values: Values) -> tuple[float, float]:
    r"""Ends of the 95 % interval :math:`\bar v \pm t_{n-1}\, s/\sqrt n` of a mean.

    >>> import numpy as np
    >>> low, high = mean_interval(np.array([1.0, 2.0, 3.0]))
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    """
    mean, error = _mean_and_error(values)
    if error == 0.0:
        return mean, mean
    half = float(scipy.stats.t.ppf(0.975, len(values) - 1)) * error
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
    """Mean and its standard error, which is 0 for a single value."""
    n = len(values)
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(n)) if n > 1 else 0.0


def _p_value(mean: float, error: float, n: int) -> float:
    if error == 0.0:
        # No spread: the t-test is undefined, the randomization test is not.
        return 1.0 if mean == 0.0 or n < 2 else 0.0
    return float(2.0 * scipy.stats.t.sf(abs(mean) / error, n - 1))


_EXACT_UP_TO = 50  # differences; beyond, the normal approximation is good to three digits


def wilcoxon_test(differences: Values) -> float:
    """Two-sided p-value of the signed-rank test; zero differences are dropped (Wilcoxon 1945).

    Exact for few differences without ties, else by the normal approximation corrected for ties.

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
    return float(scipy.stats.wilcoxon(d, method="exact" if few else "approx").pvalue)


@dataclass(frozen=True)
class Comparison:
    """The difference between a system and a baseline over the lists that count for both."""

    n_lists: int
    difference: float
    """Mean of the differences."""
    low: float
    high: float
    """Ends of the 95 % interval of the mean difference."""
    t_test: float
    """Two-sided p-value of the paired t-test."""
    randomization: float
    """Two-sided p-value of the randomization test."""
    wilcoxon: float
    """Two-sided p-value of Wilcoxon's signed-rank test."""
    effect: float
    """Cohen's d: the mean difference in units of the differences' standard deviation."""
    wins: int
    losses: int
    """Lists on which the system is better or worse; the others are ties."""

    @property
    def randomisation(self) -> float:
        """The old spelling of :attr:`randomization`."""
        warn_renamed("randomisation", "randomization")
        return self.randomization

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON; programs may still read the old spelling ``randomisation``."""
        return asdict(self) | {"randomisation": self.randomization}


def compare_paired(values: Values, baseline: Values, *, permutations: int = PERMUTATIONS, seed: int = 0) -> Comparison:
    """Compare per-list values of a system with those of a baseline.

    Lists where either value is NaN (dropped by the metric) do not count.
    """
    d = paired_differences(values, baseline)
    low, high = mean_interval(d)
    return Comparison(
        n_lists=len(d),
        difference=float(d.mean()),
        low=low,
        high=high,
        t_test=t_test(d),
        randomization=randomization_test(d, permutations=permutations, seed=seed),
        wilcoxon=wilcoxon_test(d),
        effect=cohens_d(d),
        wins=int(np.sum(d > 0)),
        losses=int(np.sum(d < 0)),
    )


def paired_differences(values: Values, baseline: Values) -> Values:
    """Differences between two systems on the lists that count for both, where neither value is NaN."""
    if values.shape != baseline.shape:
        raise DataError(f"paired values must be of the same lists, got {len(values)} and {len(baseline)}.")
    d = values - baseline
    d = d[~np.isnan(d)]
    if len(d) == 0:
        raise DataError("no list counts for both systems; there is nothing to compare.")
    return d


def decide(differences: Sequence[tuple[float, float]], alpha: float) -> bool | None:
    """Whether one system is better than another everywhere, from differences and their p-values.

    False if it is significantly worse somewhere; None if neither is the case.
    """
    if all(mean > 0 and p < alpha for mean, p in differences):
        return True
    return False if any(mean < 0 and p < alpha for mean, p in differences) else None


def holm(p_values: Sequence[float]) -> NDArray[np.float64]:
    """Adjust p-values by Holm's step-down method (1979).

    If those below alpha are rejected, the probability of any false discovery is at most alpha.

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

    If those below alpha are rejected, on average at most a share alpha of them is false. This guarantee is
    weaker than Holm's, and the usual choice for screening many systems.

    >>> benjamini_hochberg([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.04, 0.04]
    """
    p = np.asarray(p_values, dtype=np.float64)
    if np.isnan(p).any():  # from a metric with infinite values; SciPy does not accept it
        return np.full(len(p), np.nan)
    return np.asarray(scipy.stats.false_discovery_control(p))
