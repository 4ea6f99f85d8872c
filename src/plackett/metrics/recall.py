r"""Recall: the share of the list's relevant documents that is among the first k.

Without a cut-off it is below 1 only if relevant documents were not retrieved.
"""

from __future__ import annotations

import numpy as np

from plackett.base.kernels import list_function
from plackett.metrics.definition import RELEVANCE, SIGNATURE, Definition, threshold_only
from plackett.metrics.groups import BINARY, count_relevant, discounted_sum


@list_function(SIGNATURE)
def recall_list(ranked, ends, ideal, labels, cutoff, discounts, params):  # type: ignore[no-untyped-def] # noqa: ARG001
    """Recall of one list."""
    relevant = count_relevant(labels, params[0])
    if relevant == 0:
        return np.nan
    return discounted_sum(ranked, ends, cutoff, discounts, BINARY, params[0]) / relevant


RECALL = Definition("recall", recall_list, RELEVANCE, params=threshold_only)
