r"""Area under the ROC curve: the share of pairs of documents that the scores put in order.

======================  ==========================================================================
``pairs``               counted
======================  ==========================================================================
``binary``              a relevant and an irrelevant document
``graded``              two documents with different labels (CatBoost's ``QueryAUC:type=Ranking``)
======================  ==========================================================================

A pair with equal scores counts one half under every rule of ties, for that is its expectation. A
document that was not retrieved comes below all others; two of them are tied.
"""

from __future__ import annotations

import numpy as np

from plackett.base.kernels import compiled, list_function
from plackett.metrics.definition import SIGNATURE, Definition
from plackett.metrics.settings import CHOICES, Settings

PAIRS = CHOICES["pairs"]
_BINARY = 0.0  # its position, for the list function


@compiled
def _level_of(ranked, binary, threshold):  # type: ignore[no-untyped-def]
    """Position of each label among the distinct labels (or relevance)."""
    level = np.empty(len(ranked), np.int64)
    if binary:
        for rank in range(len(ranked)):
            level[rank] = 1 if ranked[rank] > threshold else 0
        return level, 2
    values = np.unique(ranked)
    for rank in range(len(ranked)):
        level[rank] = np.searchsorted(values, ranked[rank])
    return level, len(values)


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


def _params(settings: Settings) -> tuple[float, ...]:
    return settings.threshold, float(PAIRS.index(settings.pairs))


AUC = Definition(
    "auc",
    auc_list,
    ("ties", "seed", "rounding", "empty", "threshold", "pairs"),
    params=_params,
    has_cutoff=False,
    uses_groups=True,
)
