r"""Document weights: factors of what a document gains, such as one over its propensity.

Where an objective uses gains or a distribution made of labels, a weight is the same as another
label, so nothing else has to know about it:

===============  ============================  ====================================================
weighting        what is scaled                the label y of a document of weight w becomes
===============  ============================  ====================================================
``gain``         :math:`2^y - 1`               :math:`\log_2(1 + w(2^y - 1))`
``share``        y                             :math:`wy`
``exponential``  :math:`e^y - 1`               :math:`\ln(1 + w(e^y - 1))`
===============  ============================  ====================================================

A weight of 0 turns any document into one of label 0, in ListNet too, where label 0 has a share of
its own. Labels are float32, so a weighted gain is exact to about seven digits.

Objectives that use only the order of labels (``order``) receive the weights after the numbers
prepared for each list: every pair, or every pick of a ranking, is multiplied by the weight of its
better document, as in the propensity-weighted SVM-rank of Joachims, Swaminathan & Schnabel (2017).
Weights of 1 leave every bit of the result unchanged.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError
from plackett.base.kernels import compiled
from plackett.base.ragged import Labels, Offsets, offsets_from_sizes

Weighting: TypeAlias = Literal["gain", "share", "exponential", "order"]


def check_document_weights(weights: ArrayLike, n_docs: int) -> NDArray[np.float64] | None:
    """Return the weights as an array; None if all are 1, which is the same as no weights."""
    array = np.ascontiguousarray(weights, dtype=np.float64)
    if array.shape != (n_docs,) or not np.all((array >= 0.0) & (array < np.inf)):
        raise DataError(
            f"document_weights must be {n_docs} finite numbers that are not negative, one per "
            f"document, got {array.dtype} of shape {array.shape}."
        )
    return None if np.all(array == 1.0) else array


def weighted_labels(weighting: Weighting, labels: Labels, weights: NDArray[np.float64]) -> Labels:
    """Labels that have the same effect as the given ones with these weights."""
    y = labels.astype(np.float64)
    if weighting == "share":
        scaled = y * weights
    else:
        # 1 + w (b^y - 1) = b^y (w + (1 - w) b^-y), which does not overflow for any label.
        base = np.log(2.0) if weighting == "gain" else 1.0
        with np.errstate(divide="ignore"):
            scaled = y + np.log(weights + (1.0 - weights) * np.exp(-base * y)) / base
        scaled = np.maximum(scaled, 0.0)
    return np.where(weights == 1.0, labels, scaled.astype(np.float32))


def append_weights(
    values: NDArray[np.float64],
    value_offsets: Offsets,
    weights: NDArray[np.float64],
    offsets: Offsets,
) -> tuple[NDArray[np.float64], Offsets]:
    """The numbers prepared for each list, followed by the weights of its documents."""
    joined_offsets = offsets_from_sizes(np.diff(value_offsets) + np.diff(offsets))
    joined = np.empty(joined_offsets[-1])
    _fill_joined(values, value_offsets, weights, offsets, joined_offsets, joined)
    return joined, joined_offsets


@compiled
def _fill_joined(values, value_offsets, weights, offsets, joined_offsets, joined):  # type: ignore[no-untyped-def]
    for q in range(len(offsets) - 1):
        middle = joined_offsets[q + 1] - (offsets[q + 1] - offsets[q])
        joined[joined_offsets[q] : middle] = values[value_offsets[q] : value_offsets[q + 1]]
        joined[middle : joined_offsets[q + 1]] = weights[offsets[q] : offsets[q + 1]]


@compiled
def document_weights(prepared, n_docs, start):  # type: ignore[no-untyped-def]
    """Weights of a list's documents, which begin at ``start`` of its prepared numbers, or ones."""
    if len(prepared) == start + n_docs:
        return prepared[start:].copy()
    return np.ones(n_docs)
