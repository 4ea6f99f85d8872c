r"""Weights of documents: factors of what a document gains, such as one over its propensity.

Where an objective goes by gains or by a distribution made of labels, weighing a document is the
same as giving it another label, and nothing else has to know:

===============  ============================  ====================================================
weighting        what is scaled                the label y of a document of weight w becomes
===============  ============================  ====================================================
``gain``         :math:`2^y - 1`               :math:`\log_2(1 + w(2^y - 1))`
``share``        y                             :math:`wy`
``exponential``  :math:`e^y - 1`               :math:`\ln(1 + w(e^y - 1))`
===============  ============================  ====================================================

A weight of 0 makes any document one of label 0, in ListNet too, where label 0 has a share of its
own. Labels are float32, so a weighted gain is exact to about seven digits.

Objectives that know only the order of labels (``order``) take the weights beside what is prepared
for each list: every pair, or every pick of a ranking, is multiplied by the weight of its better
document, as in the propensity-weighted SVM-rank of Joachims, Swaminathan & Schnabel (2017). A
weight of 1 changes no bit.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError
from plackett.base.kernels import compiled
from plackett.base.ragged import Labels, Offsets, from_sizes
from plackett.objectives.lists import Extra

Weighting: TypeAlias = Literal["gain", "share", "exponential", "order"]


def as_document_weights(weights: ArrayLike | None, n_docs: int) -> NDArray[np.float64] | None:
    """One weight per document, checked; None if all are 1, which is the same."""
    if weights is None:
        return None
    given = np.ascontiguousarray(weights, dtype=np.float64)
    if given.shape != (n_docs,) or not np.all((given >= 0.0) & (given < np.inf)):
        raise DataError(
            f"document_weights must be {n_docs} finite numbers that are not negative, one per "
            f"document, got {given.dtype} of shape {given.shape}."
        )
    return None if np.all(given == 1.0) else given


def weighted_labels(
    weighting: Weighting, labels: Labels, weights: NDArray[np.float64] | None
) -> Labels:
    """Labels that stand for the given ones with these weights."""
    if weights is None or weighting == "order":
        return labels
    y = labels.astype(np.float64)
    if weighting == "share":
        found = y * weights
    else:
        # 1 + w (b^y - 1) = b^y (w + (1 - w) b^-y), which overflows for no label.
        base = np.log(2.0) if weighting == "gain" else 1.0
        with np.errstate(divide="ignore"):
            found = y + np.log(weights + (1.0 - weights) * np.exp(-base * y)) / base
        found = np.maximum(found, 0.0)
    return np.where(weights == 1.0, labels, found.astype(np.float32))


def with_weights(extra: Extra, weights: NDArray[np.float64], offsets: Offsets) -> Extra:
    """What is prepared for each list, followed by the weights of its documents."""
    where = from_sizes(np.diff(extra.offsets) + np.diff(offsets))
    values = np.empty(where[-1])
    _fill_behind(*extra, weights, offsets, where, values)
    return Extra(values, where)


@compiled
def _fill_behind(values, starts, weights, offsets, where, out):  # type: ignore[no-untyped-def]
    for q in range(len(offsets) - 1):
        middle = where[q + 1] - (offsets[q + 1] - offsets[q])
        out[where[q] : middle] = values[starts[q] : starts[q + 1]]
        out[middle : where[q + 1]] = weights[offsets[q] : offsets[q + 1]]


@compiled
def document_weights(extra, n_docs, before):  # type: ignore[no-untyped-def]
    """The weights behind the ``before`` numbers prepared for a list of ``n_docs``; ones: none."""
    if len(extra) == before + n_docs:
        return extra[before:].copy()
    return np.ones(n_docs)
