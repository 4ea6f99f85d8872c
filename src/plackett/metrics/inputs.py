"""What comes in is checked once, here; the kernels behind trust it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import float32, float64, int64, prange
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError
from plackett.base.kernels import FLOATS, LABELS, parallel_function
from plackett.base.ragged import Ids, Keys, Labels, Offsets, Scores, as_offsets

BLOCK = 1 << 14
"""Documents that are looked at in one go."""
LEVELS = 32
"""Whole labels below it are few enough to be counted."""


@dataclass(frozen=True)
class Lists:
    """Scored and labelled lists, checked."""

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


def as_lists(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    *,
    document_ids: ArrayLike | None = None,
    keys: ArrayLike | None = None,
) -> Lists:
    """Check and convert what a caller gave.

    Raises
    ------
    DataError
        If lengths differ, scores are NaN or plus infinity, or labels are negative or not finite.
    """
    s = _vector("scores", scores, np.float64)
    with np.errstate(over="ignore"):  # a label beyond float32 becomes infinite and is refused
        y = _vector("labels", labels, np.float32)
    if len(s) != len(y):
        raise DataError(
            f"there must be one score for each label, got {len(s)} scores for {len(y)} labels."
        )
    bounds = as_offsets(offsets, len(y))
    bad_scores, bad_labels, uncountable = inspect.compiled(s, y)
    if bad_scores:
        _refuse_scores(s, bounds)
    if bad_labels:
        _refuse_labels(y, bounds)
    ids, list_keys = _ids(document_ids, len(y)), _keys(keys, len(bounds) - 1)
    return Lists(s, y, bounds, ids, list_keys, countable=uncountable == 0)


@parallel_function((int64, int64, int64), FLOATS, LABELS)
def inspect(scores, labels):  # type: ignore[no-untyped-def]
    """Count bad scores, bad labels, and labels that are not whole or not below ``LEVELS``."""
    bad_scores, bad_labels, uncountable = 0, 0, 0
    for block in prange((len(scores) + BLOCK - 1) // BLOCK):
        s = scores[block * BLOCK : (block + 1) * BLOCK]
        y = labels[block * BLOCK : (block + 1) * BLOCK]
        s_count, y_count, u_count = 0, 0, 0
        for i in range(len(s)):
            s_count += not (s[i] < float64(np.inf))
        for i in range(len(y)):
            y_count += not ((y[i] >= float32(0.0)) & (y[i] < float32(np.inf)))
            u_count += not ((y[i] == np.floor(y[i])) & (y[i] < float32(LEVELS)))
        bad_scores += s_count
        bad_labels += y_count
        uncountable += u_count
    return bad_scores, bad_labels, uncountable


def _vector(name: str, given: ArrayLike, dtype: type[np.floating]) -> NDArray:  # type: ignore[type-arg]
    array = np.asarray(given)
    if array.ndim != 1 or (array.dtype.kind not in "fiub" and len(array)):
        raise DataError(
            f"{name} must be a one-dimensional array of numbers, got {array.dtype} of shape "
            f"{array.shape}."
        )
    return np.ascontiguousarray(array, dtype=dtype)


def _ids(given: ArrayLike | None, n_docs: int) -> Ids | None:
    if given is None:
        return None
    ids = np.asarray(given)
    if ids.shape != (n_docs,):
        raise DataError(
            f"there must be one document id for each of the {n_docs} documents, got shape "
            f"{ids.shape}."
        )
    return ids


def _keys(given: ArrayLike | None, n_lists: int) -> Keys | None:
    if given is None:
        return None
    keys = np.asarray(given)
    if keys.shape != (n_lists,) or (keys.dtype.kind not in "iu" and n_lists):
        raise DataError(
            f"there must be one integer key for each of the {n_lists} lists, got {keys.dtype} of "
            f"shape {keys.shape}."
        )
    return np.ascontiguousarray(keys, dtype=np.uint64)


def _place(at: int, offsets: Offsets) -> str:
    return f"document {at} (list {int(np.searchsorted(offsets, at, side='right')) - 1})"


def _refuse_scores(scores: Scores, offsets: Offsets) -> None:
    at = int(np.flatnonzero(~(scores < np.inf))[0])
    raise DataError(
        f"the score of {_place(at, offsets)} is {scores[at]}; scores must be finite, or minus "
        "infinity for a document that was not retrieved."
    )


def _refuse_labels(labels: Labels, offsets: Offsets) -> None:
    at = int(np.flatnonzero(~((labels >= 0) & (labels < np.inf)))[0])
    raise DataError(
        f"the label of {_place(at, offsets)} is {labels[at]} in float32; labels must be finite and "
        "not negative."
    )
