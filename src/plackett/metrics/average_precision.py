r"""Average precision; its mean over lists is MAP.

.. math:: \mathrm{AP@}k = \frac1Z \sum_{r \le k} [\text{relevant at } r]\,
          \frac{\#\text{relevant down to } r}{r}

where Z is the number of relevant documents of the list (``denominator=relevant``, as in TREC), at
most k (``cutoff``), or only those among the first k (``found``).

*Ties.* A group of n documents, r of them relevant, that begins after ``start`` ranks with R
relevant documents above it contributes on average

.. math:: \frac rn \sum_{j=1}^{n} \frac{R + 1 + (j - 1)\frac{r - 1}{n - 1}}{\mathrm{start} + j}

(McSherry & Najork 2008, "Computing information retrieval performance measures efficiently in the
presence of tied scores", ECIR), where terms beyond the cut-off are left out.
"""

from __future__ import annotations

import numpy as np

from plackett.base.kernels import list_function
from plackett.metrics.definition import RELEVANCE, SIGNATURE, Definition
from plackett.metrics.groups import count_relevant, group_end
from plackett.metrics.settings import Settings

DENOMINATORS = ("relevant", "cutoff", "found")
_CUTOFF, _FOUND = 1.0, 2.0  # their positions, for the list function


@list_function(SIGNATURE)
def average_precision_list(ranked, ends, ideal, labels, cutoff, discounts, params):  # type: ignore[no-untyped-def] # noqa: ARG001
    """Average precision of one list."""
    threshold = params[0]
    relevant = count_relevant(labels, threshold)
    if relevant == 0:
        return np.nan
    depth = min(cutoff, len(ranked))
    total, found, start = 0.0, 0, 0
    while start < depth:
        stop = group_end(ends, start)
        size = stop - start
        hits = count_relevant(ranked[start:stop], threshold)
        if hits > 0:
            slope = (hits - 1) / (size - 1) if size > 1 else 0.0
            for j in range(min(stop, depth) - start):
                total += hits / size * (found + 1 + j * slope) / (start + j + 1)
        found += hits
        start = stop
    if params[1] == _FOUND:
        relevant = max(found, 1)
    elif params[1] == _CUTOFF:
        relevant = min(relevant, cutoff)
    return total / relevant


def _params(settings: Settings) -> tuple[float, ...]:
    return settings.threshold, float(DENOMINATORS.index(settings.denominator))


MAP = Definition(
    "map",
    average_precision_list,
    (*RELEVANCE, "denominator"),
    params=_params,
    defaults={"denominator": "relevant"},
    choices={"denominator": DENOMINATORS},
)
