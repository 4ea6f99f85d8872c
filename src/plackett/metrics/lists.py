"""Scored and labeled lists: checked once, so that the kernels of the metrics can rely on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import float32, float64, int64, void
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError
from plackett.base.kernels import FLOATS, LABELS, list_function
from plackett.base.ragged import Ids, Keys, Labels, Offsets, Scores, as_offsets
from plackett.base.threads import run_parallel

BLOCK = 1 << 14
"""Documents that one thread inspects at a time."""
LEVELS = 32
"""Whole labels below it are sorted by counting."""


@dataclass(frozen=True)
class ScoredLists:
    """Scores and labels of lists, checked."""

    scores: Scores
    labels: Labels
    offsets: Offsets
    document_ids: Ids | None
    keys: Keys | None
    countable: bool
    """Whether all labels are whole and below ``LEVELS``."""

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of documents of each list."""
        return np.diff(self.offsets)


def check_lists(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    *,
    document_ids: ArrayLike | None = None,
    keys: ArrayLike | None = None,
) -> ScoredLists:
    """Check and convert the arrays of a caller.

    Raises
    ------
    DataError
        If lengths differ, scores are NaN or plus infinity, or labels are negative or not finite.
    """
    s = _vector("scores", scores, np.float64)
    with np.errstate(over="ignore"):  # a label beyond float32 becomes infinite, an error below
        y = _vector("labels", labels, np.float32)
    if len(s) != len(y):
        raise DataError(
            f"there must be one score for each label, got {len(s)} scores for {len(y)} labels."
        )
    o = as_offsets(offsets, len(y))
    counts = np.empty((-(-len(s) // BLOCK), 3), np.int64)
    run_parallel(inspect.compiled, len(counts), s, y, counts)
    bad_scores, bad_labels, uncountable = counts.sum(axis=0)
    if bad_scores:
        document = int(np.flatnonzero(~(s < np.inf))[0])
        raise DataError(
            f"the score of {_place(document, o)} is {s[document]}; scores must be finite, or minus "
            "infinity for a document that was not retrieved."
        )
    if bad_labels:
        document = int(np.flatnonzero(~((y >= 0) & (y < np.inf)))[0])
        raise DataError(
            f"the label of {_place(document, o)} is {y[document]} in float32; labels must be "
            "finite and not negative."
        )
    ids, list_keys = _check_ids(document_ids, len(y)), _check_keys(keys, len(o) - 1)
    return ScoredLists(s, y, o, ids, list_keys, countable=uncountable == 0)


@list_function(void(int64, int64, FLOATS, LABELS, int64[:, ::1]))
def inspect(first, last, scores, labels, counts):  # type: ignore[no-untyped-def]
    """Count bad scores, bad labels, and labels that are not whole or not below ``LEVELS``."""
    for block in range(first, last):
        s = scores[block * BLOCK : (block + 1) * BLOCK]
        y = labels[block * BLOCK : (block + 1) * BLOCK]
        s_count, y_count, u_count = 0, 0, 0
        for i in range(len(s)):
            s_count += not (s[i] < float64(np.inf))
        for i in range(len(y)):
            y_count += not ((y[i] >= float32(0.0)) & (y[i] < float32(np.inf)))
            u_count += not ((y[i] == np.floor(y[i])) & (y[i] < float32(LEVELS)))
        counts[block, 0], counts[block, 1], counts[block, 2] = s_count, y_count, u_count


def _vector(name: str, values: ArrayLike, dtype: type[np.floating[Any]]) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.dtype.kind not in "fiub" and len(array)):
        raise DataError(
            f"{name} must be a one-dimensional array of numbers, got {array.dtype} of shape "
            f"{array.shape}."
        )
    return np.ascontiguousarray(array, dtype=dtype)


def _check_ids(document_ids: ArrayLike | None, n_docs: int) -> Ids | None:
    if document_ids is None:
        return None
    ids = np.asarray(document_ids)
    if ids.shape != (n_docs,):
        raise DataError(
            f"there must be one document id for each of the {n_docs} documents, got shape "
            f"{ids.shape}."
        )
    return ids


def _check_keys(keys: ArrayLike | None, n_lists: int) -> Keys | None:
    if keys is None:
        return None
    array = np.asarray(keys)
    if array.shape != (n_lists,) or (array.dtype.kind not in "iu" and n_lists):
        raise DataError(
            f"there must be one integer key for each of the {n_lists} lists, got {array.dtype} of "
            f"shape {array.shape}."
        )
    return np.ascontiguousarray(array, dtype=np.uint64)


def _place(document: int, offsets: Offsets) -> str:
    q = int(np.searchsorted(offsets, document, side="right")) - 1
    return f"document {document} (list {q})"
