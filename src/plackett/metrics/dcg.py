r"""Discounted cumulative gain, :math:`\mathrm{DCG@}k = \sum_{r \le k} G(y_r) D(r)`.

Järvelin & Kekäläinen 2002, "Cumulated gain-based evaluation of IR techniques", ACM TOIS.
"""

from __future__ import annotations

import math

import numpy as np

from plackett.base.kernels import list_function
from plackett.metrics.definition import SIGNATURE, Definition
from plackett.metrics.groups import EXP2, LARGEST_WHOLE, discounted_sum
from plackett.metrics.ndcg import gain_kind, rank_discounts
from plackett.metrics.settings import Settings

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


def largest_label(settings: Settings) -> float:
    """Labels above it overflow."""
    return LARGEST_EXPONENT if settings.gain == "exp2" else math.inf


DCG = Definition(
    "dcg",
    dcg_list,
    ("gain", "discount", "short", "ties", "seed", "rounding", "empty"),
    params=gain_kind,
    discounts=rank_discounts,
    uses_ideal=True,
    largest_label=largest_label,
)
