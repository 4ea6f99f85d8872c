r"""Precision: the share of relevant documents among the first k.

:math:`\mathrm{P@}k = \frac1k \#\text{relevant among the first } k`. A list with n < k documents is
divided by k (``denominator=cutoff``) or by n (``list``); without a cut-off, by n.
"""

from __future__ import annotations

import numpy as np

from plackett.base.kernels import list_function
from plackett.metrics.definition import NO_CUTOFF, RELEVANCE, SIGNATURE, Definition
from plackett.metrics.groups import BINARY, count_relevant, discounted_sum
from plackett.metrics.settings import Settings

DENOMINATORS = ("cutoff", "list")
_CUTOFF = 0.0  # its position, for the list function


@list_function(SIGNATURE)
def precision_list(ranked, ends, ideal, labels, cutoff, discounts, params):  # type: ignore[no-untyped-def] # noqa: ARG001
    """Precision of one list."""
    if count_relevant(labels, params[0]) == 0:
        return np.nan
    hits = discounted_sum(ranked, ends, cutoff, discounts, BINARY, params[0])
    whole = cutoff < NO_CUTOFF and params[1] == _CUTOFF
    return hits / (cutoff if whole else min(cutoff, len(labels)))


def _params(settings: Settings) -> tuple[float, ...]:
    return settings.threshold, float(DENOMINATORS.index(settings.denominator))


PRECISION = Definition(
    "precision",
    precision_list,
    (*RELEVANCE, "denominator"),
    params=_params,
    choices={"denominator": DENOMINATORS},
)
