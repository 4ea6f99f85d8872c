r"""Metrics of binary relevance: precision, recall, success, MAP, MRR, AUC.

A document is relevant if its label is above the threshold.

**Precision** is the share of relevant documents among the first k,
:math:`\mathrm{P@}k = \frac1k \#\text{relevant among the first } k`. A list with n < k documents is
divided by k (``denominator=cutoff``) or by n (``list``); without a cut-off, by n.

**Recall** is the share of the list's relevant documents that are among the first k. Without a
cut-off it is below 1 only if relevant documents were not retrieved.

**Success** is 1 if one of the first k documents is relevant, else 0. Of n tied documents, r of them
relevant, the first j contain none with probability :math:`\binom{n-j}{r} / \binom nr`.

**Average precision**; its mean over lists is MAP.

.. math:: \mathrm{AP@}k = \frac1Z \sum_{r \le k} [\text{relevant at } r]\,
          \frac{\#\text{relevant down to } r}{r}

where Z is the number of relevant documents of the list (``denominator=relevant``, as in TREC), at
most k (``cutoff``), or only those among the first k (``found``).

*Ties.* A group of n documents, r of them relevant, that begins after ``start`` ranks with R
relevant documents above it contributes on average

.. math:: \frac rn \sum_{j=1}^{n} \frac{R + 1 + (j - 1)\frac{r - 1}{n - 1}}{\mathrm{start} + j}

(McSherry & Najork 2008, "Computing information retrieval performance measures efficiently in the
presence of tied scores", ECIR), where terms beyond the cut-off are left out.

**Reciprocal rank** of the first relevant document; its mean over lists is MRR.
:math:`\mathrm{RR@}k = 1/r` if the first relevant document has rank :math:`r \le k`, else 0
(Voorhees 1999, "The TREC-8 question answering track report").

*Ties.* Of n tied documents r are relevant: none of the first j is relevant with probability
:math:`S_j = \binom{n-j}{r} / \binom nr`, which falls by the factor :math:`(n-j-r)/(n-j)` at each
step, and the first relevant one is document j+1 with probability :math:`S_j\, r/(n-j)`.

**Area under the ROC curve**: the share of pairs of documents that the scores put in order.

======================  ==========================================================================
``pairs``               counted
======================  ==========================================================================
``binary``              a relevant and an irrelevant document
``graded``              two documents with different labels (CatBoost's ``QueryAUC:type=Ranking``)
======================  ==========================================================================

A pair with equal scores counts one half under every rule for ties, its expectation. A document
that was not retrieved comes below all others; two of them are tied.
"""

import numpy as np

from plackett.base.kernels import compiled, list_function
from plackett.metrics.definition import (
    BINARY,
    CHOICES,
    NO_CUTOFF,
    RELEVANCE,
    SIGNATURE,
    Definition,
    count_relevant,
    discounted_sum,
    group_end,
    threshold_and,
    threshold_only,
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
