r"""Metrics of graded relevance: NDCG, DCG, ERR; and rank-biased precision.

**Normalized discounted cumulative gain**

.. math:: \mathrm{NDCG@}k = \frac{\sum_{r \le k} G(y_r) D(r)}{\sum_{r \le k} G(y^*_r) D(r)}

where :math:`y_r` is the label at rank r, :math:`y^*` the labels in falling order, G the gain and D
the discount of :mod:`plackett.base.gains` (Järvelin & Kekäläinen 2002, "Cumulated gain-based
evaluation of IR techniques", ACM TOIS; gain :math:`2^y - 1` after Burges et al. 2005, "Learning to
rank using gradient descent").

**Discounted cumulative gain** is the numerator, :math:`\mathrm{DCG@}k = \sum_{r \le k} G(y_r)
D(r)`.

**Expected reciprocal rank** of the document that satisfies a user who reads from the top:

.. math:: \mathrm{ERR@}k = \sum_{r \le k} \frac1r R_r \prod_{i<r} (1 - R_i), \qquad
          R = \frac{2^y - 1}{2^g}

with g the top grade (Chapelle, Metzler, Zhang & Grinspan 2009, "Expected reciprocal rank for graded
relevance", CIKM). With ``gain=identity``, :math:`R = y / g`.

*Ties.* In a group of n tied documents write :math:`E_j` for the mean of :math:`\prod (1 - R)` over
all its subsets of size j. The probability that the user passes the first j of them is :math:`E_j`, so the
probability that exactly the next one satisfies is :math:`E_j - E_{j+1}`. Adding a document with
:math:`x = 1 - R` to m others gives

.. math:: E_j \leftarrow \frac{m+1-j}{m+1} E_j + \frac{j}{m+1}\, x E_{j-1},

a mean of non-negative numbers, which is numerically stable.

**Rank-biased precision** for a user who reads one more document with probability p

.. math:: \mathrm{RBP@}k = (1 - p) \sum_{r \le k} [\text{relevant at } r]\, p^{r-1}

(Moffat & Zobel 2008, "Rank-biased precision for measurement of retrieval effectiveness", ACM TOIS).
"""

import math
from typing import Any

import numpy as np

from plackett.base.gains import LARGEST_WHOLE, discounts, exp2_gain
from plackett.base.kernels import compiled, list_function
from plackett.metrics.definition import (
    BINARY,
    CHOICES,
    EXP2,
    IDENTITY,
    NO_CUTOFF,
    RELEVANCE,
    SIGNATURE,
    Definition,
    MetricSettings,
    count_relevant,
    discounted_sum,
    group_end,
    threshold_and,
    threshold_only,
)


@list_function(SIGNATURE)
def ndcg_list(ranked, ends, ideal, labels, cutoff, discounts, params):  # type: ignore[no-untyped-def] # noqa: ARG001
    """NDCG of one list; both sums carry the same power of two, so no label overflows."""
    if len(ideal) == 0 or ideal[0] <= 0.0:
        return np.nan
    top = np.float64(ideal[0])
    best = discounted_sum(ideal, ends[:0], cutoff, discounts, params[0], top)
    # Sums over groups add in another order, whose rounding may exceed the best value.
    return min(discounted_sum(ranked, ends, cutoff, discounts, params[0], top) / best, 1.0)


def gain_kind(settings: MetricSettings) -> tuple[float, ...]:
    """Kind of gain, the parameter of the list functions."""
    return (EXP2 if settings.gain == "exp2" else IDENTITY,)


_GAINS: dict[str, Any] = {
    "options": ("gain", "discount", "short", "ties", "seed", "rounding", "empty"),
    "params": gain_kind,
    "discounts": lambda settings, n: discounts(n, settings.discount),
    "uses_ideal": True,
}
NDCG = Definition("ndcg", "normalized discounted cumulative gain", ndcg_list, **_GAINS)


LARGEST_EXPONENT = 960.0
"""2^1023 is the last power of two in float64; this leaves room to add 2^63 documents."""


@list_function(SIGNATURE)
def dcg_list(ranked, ends, ideal, labels, cutoff, discounts, params):  # type: ignore[no-untyped-def] # noqa: ARG001
    """DCG of one list."""
    if len(ideal) == 0 or ideal[0] <= 0.0:
        return np.nan
    top = np.float64(ideal[0])
    total = discounted_sum(ranked, ends, cutoff, discounts, params[0], top)
    # Above the table the gains come divided by 2^top.
    return total * np.exp2(top) if params[0] == EXP2 and top > LARGEST_WHOLE else total


DCG = Definition(
    "dcg",
    "discounted cumulative gain",
    dcg_list,
    **_GAINS,
    largest_label=lambda settings: LARGEST_EXPONENT if settings.gain == "exp2" else math.inf,
)


@compiled
def _satisfaction(label, kind, grade, scale):  # type: ignore[no-untyped-def]
    """R of a label; ``scale`` is 2^-grade where that is needed."""
    if kind == IDENTITY:
        # A float32 label may be one rounding above a grade that is not a float32.
        return min(np.float64(label) / grade, 1.0)
    if grade > LARGEST_WHOLE:
        return np.exp2(label - grade) - np.exp2(-grade)
    return exp2_gain(np.float64(label), 0.0) * scale


@compiled
def _passing_means(group, count, kind, grade, scale):  # type: ignore[no-untyped-def]
    """E_0 to E_count of a group of tied documents."""
    means = np.zeros(count + 1)
    means[0] = 1.0
    for i in range(len(group)):
        size = i + 1
        passing = 1.0 - _satisfaction(group[i], kind, grade, scale)
        for j in range(min(size, count), 0, -1):
            means[j] = ((size - j) * means[j] + j * passing * means[j - 1]) / size
    return means


@list_function(SIGNATURE)
def err_list(ranked, ends, ideal, labels, cutoff, discounts, params):  # type: ignore[no-untyped-def] # noqa: ARG001
    """ERR of one list."""
    if len(ideal) == 0 or ideal[0] <= 0.0:
        return np.nan
    kind = params[0]
    grade = params[1] if params[1] > 0.0 else np.float64(ideal[0])
    scale = 1.0 / (1.0 + exp2_gain(min(grade, LARGEST_WHOLE), 0.0))
    depth = min(cutoff, len(ranked))
    total, reach, start = 0.0, 1.0, 0
    while start < depth and reach > 0.0:
        stop = group_end(ends, start)
        if stop == start + 1:
            satisfied = _satisfaction(ranked[start], kind, grade, scale)
            total += reach * satisfied / stop
            reach *= 1.0 - satisfied
        else:
            count = min(stop, depth) - start
            means = _passing_means(ranked[start:stop], count, kind, grade, scale)
            for j in range(count):
                total += reach * (means[j] - means[j + 1]) / (start + j + 1)
            reach *= means[count]
        start = stop
    return total


ERR = Definition(
    "err",
    "expected reciprocal rank",
    err_list,
    ("gain", "short", "ties", "seed", "rounding", "empty", "grade"),
    params=lambda settings: (*gain_kind(settings), 0.0 if isinstance(settings.grade, str) else settings.grade),
    uses_ideal=True,
    largest_label=lambda settings: math.inf if isinstance(settings.grade, str) else settings.grade,
)


@list_function(SIGNATURE)
def rbp_list(ranked, ends, ideal, labels, cutoff, discounts, params):  # type: ignore[no-untyped-def] # noqa: ARG001
    """Rank-biased precision of one list."""
    if count_relevant(labels, params[0]) == 0:
        return np.nan
    return discounted_sum(ranked, ends, cutoff, discounts, BINARY, params[0])


RBP = Definition(
    "rbp",
    "rank-biased precision",
    rbp_list,
    (*RELEVANCE, "persistence"),
    params=threshold_only,
    discounts=lambda s, n: (1.0 - s.persistence) * s.persistence ** np.arange(n, dtype=np.float64),
)


PRECISION_DENOMINATORS = ("cutoff", "list")
_CUTOFF, _RELEVANT = 0.0, 2.0  # denominators, for the list function


@list_function(SIGNATURE)
def relevant_share_list(ranked, ends, ideal, labels, cutoff, discounts, params):  # type: ignore[no-untyped-def] # noqa: ARG001
    """Precision or recall of one list."""
    relevant = count_relevant(labels, params[0])
    if relevant == 0:
        return np.nan
    hits = discounted_sum(ranked, ends, cutoff, discounts, BINARY, params[0])
    if params[1] == _RELEVANT:
        return hits / relevant
    whole = cutoff < NO_CUTOFF and params[1] == _CUTOFF
    return hits / (cutoff if whole else min(cutoff, len(labels)))


PRECISION = Definition(
    "precision",
    "share of relevant documents among the first k",
    relevant_share_list,
    (*RELEVANCE, "denominator"),
    params=threshold_and("denominator", PRECISION_DENOMINATORS),
    choices={"denominator": PRECISION_DENOMINATORS},
)


RECALL = Definition(
    "recall",
    "share of the relevant documents that are among the first k",
    relevant_share_list,
    RELEVANCE,
    params=lambda settings: (settings.threshold, _RELEVANT),
)


@compiled
def _first_relevant(ranked, ends, depth, threshold):  # type: ignore[no-untyped-def]
    """Begin, end and relevant documents of the first group that has any; 0 if none has."""
    start = 0
    while start < depth:
        stop = group_end(ends, start)
        hits = count_relevant(ranked[start:stop], threshold)
        if hits > 0:
            return start, stop, hits
        start = stop
    return 0, 0, 0


@list_function(SIGNATURE)
def success_list(ranked, ends, ideal, labels, cutoff, discounts, params):  # type: ignore[no-untyped-def] # noqa: ARG001
    """Success of one list."""
    if count_relevant(labels, params[0]) == 0:
        return np.nan
    depth = min(cutoff, len(ranked))
    start, stop, hits = _first_relevant(ranked, ends, depth, params[0])
    none_so_far = 1.0
    for left in range(stop - start, max(stop - depth, 0), -1):
        none_so_far *= max(left - hits, 0) / left
    return 1.0 - none_so_far


SUCCESS = Definition(
    "success", "1 if one of the first k documents is relevant", success_list, RELEVANCE, params=threshold_only
)


AP_DENOMINATORS = ("relevant", "cutoff", "found")
_AP_CUTOFF, _FOUND = 1.0, 2.0  # their positions, for the list function


@list_function(SIGNATURE)
def average_precision_list(ranked, ends, ideal, labels, cutoff, discounts, params):  # type: ignore[no-untyped-def] # noqa: ARG001
    """Average precision of one list."""
    threshold = params[0]
    relevant = count_relevant(labels, threshold)
    if relevant == 0:
        return np.nan
    depth = min(cutoff, len(ranked))
    total, relevant_above, start = 0.0, 0, 0
    while start < depth:
        stop = group_end(ends, start)
        size = stop - start
        hits = count_relevant(ranked[start:stop], threshold)
        if hits > 0:
            slope = (hits - 1) / (size - 1) if size > 1 else 0.0
            for j in range(min(stop, depth) - start):
                total += hits / size * (relevant_above + 1 + j * slope) / (start + j + 1)
        relevant_above += hits
        start = stop
    if params[1] == _FOUND:
        relevant = max(relevant_above, 1)
    elif params[1] == _AP_CUTOFF:
        relevant = min(relevant, cutoff)
    return total / relevant


MAP = Definition(
    "map",
    "average precision; its mean is MAP",
    average_precision_list,
    (*RELEVANCE, "denominator"),
    params=threshold_and("denominator", AP_DENOMINATORS),
    defaults={"denominator": "relevant"},
    choices={"denominator": AP_DENOMINATORS},
)


@list_function(SIGNATURE)
def reciprocal_rank_list(ranked, ends, ideal, labels, cutoff, discounts, params):  # type: ignore[no-untyped-def] # noqa: ARG001
    """Reciprocal rank of one list."""
    if count_relevant(labels, params[0]) == 0:
        return np.nan
    depth = min(cutoff, len(ranked))
    start, stop, hits = _first_relevant(ranked, ends, depth, params[0])
    total, none_so_far = 0.0, 1.0
    for j in range(min(stop, depth) - start):
        left = stop - start - j
        total += none_so_far * hits / left / (start + j + 1)
        none_so_far *= max(left - hits, 0) / left
    return total


MRR = Definition(
    "mrr",
    "reciprocal rank of the first relevant document; its mean is MRR",
    reciprocal_rank_list,
    RELEVANCE,
    params=threshold_only,
)


_BINARY = 0.0  # its position, for the list function


@compiled
def _level_of(ranked, binary, threshold):  # type: ignore[no-untyped-def]
    """Position of each label among the distinct labels (or relevance)."""
    if binary:
        return (ranked > threshold).astype(np.int64), 2
    values = np.unique(ranked)
    return np.searchsorted(values, ranked).astype(np.int64), len(values)


@compiled
def _pairs_in_order(level, ends, above, group):  # type: ignore[no-untyped-def]
    """Count pairs of different levels in order, ties as halves; ``above`` ends with all counts."""
    in_order, start = 0.0, 0
    while start < len(level):
        stop = ends[start]
        group[:] = 0
        for rank in range(start, stop):
            group[level[rank]] += 1
        higher, tied_below = 0, stop - start
        for i in range(len(group) - 1, -1, -1):
            tied_below -= group[i]
            in_order += group[i] * higher + 0.5 * (group[i] * tied_below)
            higher += above[i]
        above += group
        start = stop
    return in_order


@list_function(SIGNATURE)
def auc_list(ranked, ends, ideal, labels, cutoff, discounts, params):  # type: ignore[no-untyped-def] # noqa: ARG001
    """Area under the ROC curve of one list."""
    level, n_levels = _level_of(ranked, params[1] == _BINARY, params[0])
    count = np.zeros(n_levels, np.int64)
    in_order = _pairs_in_order(level, ends, count, np.empty(n_levels, np.int64))
    twice_pairs = len(ranked) * len(ranked)
    for i in range(n_levels):
        twice_pairs -= count[i] * count[i]
    return in_order / (0.5 * twice_pairs) if twice_pairs > 0 else np.nan


AUC = Definition(
    "auc",
    "share of pairs of documents in the right order",
    auc_list,
    ("ties", "seed", "rounding", "empty", "threshold", "pairs"),
    params=threshold_and("pairs", CHOICES["pairs"]),
    has_cutoff=False,
    uses_groups=True,
)
