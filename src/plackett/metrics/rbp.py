r"""Rank-biased precision: of a user who looks at one more document with probability p.

.. math:: \mathrm{RBP@}k = (1 - p) \sum_{r \le k} [\text{relevant at } r]\, p^{r-1}

(Moffat & Zobel 2008, "Rank-biased precision for measurement of retrieval effectiveness", ACM TOIS).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plackett.base.kernels import list_function
from plackett.metrics.definition import RELEVANCE, SIGNATURE, Definition, threshold_only
from plackett.metrics.groups import BINARY, count_relevant, discounted_sum
from plackett.metrics.settings import Settings


@list_function(SIGNATURE)
def rbp_list(ranked, ends, ideal, labels, cutoff, discounts, params):  # type: ignore[no-untyped-def] # noqa: ARG001
    """Rank-biased precision of one list."""
    if count_relevant(labels, params[0]) == 0:
        return np.nan
    return discounted_sum(ranked, ends, cutoff, discounts, BINARY, params[0])


def _attention(settings: Settings, n: int) -> NDArray[np.float64]:
    p = settings.persistence
    return (1.0 - p) * p ** np.arange(n, dtype=np.float64)


RBP = Definition(
    "rbp", rbp_list, (*RELEVANCE, "persistence"), params=threshold_only, discounts=_attention
)
