r"""Reciprocal rank of the first relevant document; its mean over lists is MRR.

:math:`\mathrm{RR@}k = 1/r` if the first relevant document has rank :math:`r \le k`, else 0
(Voorhees 1999, "The TREC-8 question answering track report").

*Ties.* Of n tied documents r are relevant: none of the first j is relevant with probability
:math:`S_j = \binom{n-j}{r} / \binom nr`, which falls by the factor :math:`(n-j-r)/(n-j)` at each
step, and the first relevant one is document j+1 with probability :math:`S_j\, r/(n-j)`.
"""

from __future__ import annotations

import numpy as np

from plackett.base.kernels import list_function
from plackett.metrics.definition import RELEVANCE, SIGNATURE, Definition, threshold_only
from plackett.metrics.groups import count_relevant, group_end


@list_function(SIGNATURE)
def reciprocal_rank_list(ranked, ends, ideal, labels, cutoff, discounts, params):  # type: ignore[no-untyped-def] # noqa: ARG001
    """Reciprocal rank of one list."""
    if count_relevant(labels, params[0]) == 0:
        return np.nan
    depth = min(cutoff, len(ranked))
    start = 0
    while start < depth:
        stop = group_end(ends, start)
        hits = count_relevant(ranked[start:stop], params[0])
        if hits > 0:
            total, none_so_far = 0.0, 1.0
            for j in range(min(stop, depth) - start):
                left = stop - start - j
                total += none_so_far * hits / left / (start + j + 1)
                none_so_far *= max(left - hits, 0) / left
            return total
        start = stop
    return 0.0


MRR = Definition("mrr", reciprocal_rank_list, RELEVANCE, params=threshold_only)
