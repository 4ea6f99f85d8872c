"""Ragged arrays: the documents of all lists in one array, with offsets where each list begins.

Also the types of the arrays that are passed between layers.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError

Features: TypeAlias = NDArray[np.float32]
"""One row per document, one column per feature; C-contiguous."""

Labels: TypeAlias = NDArray[np.float32]
"""One non-negative real number per document."""

Scores: TypeAlias = NDArray[np.float64]
"""One real number per document; higher is better."""

Offsets: TypeAlias = NDArray[np.int64]
"""List q holds the documents offsets[q] to offsets[q + 1]; n_lists + 1 values from 0 to n_docs."""

Keys: TypeAlias = NDArray[np.uint64]
"""One hash of its contents per list."""

Values: TypeAlias = NDArray[np.float64]
"""One number per list."""

Ids: TypeAlias = NDArray[Any]
"""Integers or strings that identify queries or documents."""

Rows: TypeAlias = NDArray[np.int64]
"""Positions of rows, documents or lists."""


def as_offsets(offsets: ArrayLike, n_docs: int) -> Offsets:
    """Check offsets where they enter the library; kernels rely on them.

    >>> as_offsets([0, 2, 5], n_docs=5)
    array([0, 2, 5])
    """
    array = np.asarray(offsets)
    if array.ndim != 1 or len(array) == 0 or array.dtype.kind not in "iu":
        raise DataError(
            f"offsets must be a one-dimensional array of integers, got {array.dtype} of shape {array.shape}."
        )
    result = np.ascontiguousarray(array, dtype=np.int64)
    if result[0] != 0 or result[-1] != n_docs:
        raise DataError(
            f"offsets must rise from 0 to n_docs={n_docs}, got offsets[0]={result[0]} and offsets[-1]={result[-1]}."
        )
    falls = result[1:] < result[:-1]
    if falls.any():
        at = int(falls.argmax())
        raise DataError(
            f"offsets must not fall, got offsets[{at}]={result[at]} and offsets[{at + 1}]={result[at + 1]}."
        )
    return result


def offsets_from_sizes(sizes: ArrayLike) -> Offsets:
    """Offsets of lists with these sizes.

    >>> offsets_from_sizes([2, 3])
    array([0, 2, 5])
    """
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)


def list_blocks(offsets: Offsets, documents: int) -> Iterator[tuple[int, int]]:
    """Split lists into blocks of at most this many documents; yield first and last + 1 list.

    A longer list forms a block by itself.

    >>> list(list_blocks(np.array([0, 2, 4, 9, 10]), 4))
    [(0, 2), (2, 3), (3, 4)]
    """
    start = 0
    while start < len(offsets) - 1:
        fits = int(np.searchsorted(offsets, offsets[start] + documents, side="right")) - 1
        stop = max(fits, start + 1)
        yield start, stop
        start = stop


def take_lists(offsets: Offsets, positions: Rows) -> tuple[Rows, Offsets]:
    """Documents of the lists at ``positions``, in this order, and the offsets they form.

    >>> take_lists(np.array([0, 2, 5, 6]), np.array([2, 0]))
    (array([5, 0, 1]), array([0, 1, 3]))
    """
    sizes = offsets[positions + 1] - offsets[positions]
    taken = np.zeros(len(positions) + 1, np.int64)
    np.cumsum(sizes, out=taken[1:])
    documents = np.arange(taken[-1]) + np.repeat(offsets[positions] - taken[:-1], sizes)
    return documents, taken


CHUNKS = 64
"""Number of parts into which the work of threads is divided."""


def even_chunks(costs: NDArray[np.int64], count: int = CHUNKS) -> Offsets:
    """Bounds of at most ``count`` runs of lists that cost about the same, for threads.

    >>> even_chunks(np.array([4, 1, 1, 2]), 2)
    array([0, 1, 4])
    """
    total = offsets_from_sizes(costs)
    bounds = np.searchsorted(total, np.linspace(0, total[-1], count + 1)[1:-1])
    return np.unique(np.concatenate([[0], bounds, [len(costs)]])).astype(np.int64)


def list_of_document(offsets: Offsets) -> Offsets:
    """For each document, the position of its list.

    >>> list_of_document(np.array([0, 2, 5]))
    array([0, 0, 1, 1, 1])
    """
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def factorize(ids: Ids) -> tuple[Ids, Rows, bool]:
    """Number ids by first appearance.

    Returns
    -------
    names
        The distinct ids in order of first appearance.
    codes
        For each row, the number of its id.
    contiguous
        False if some id occurs again after another one.
    """
    if len(ids) == 0:
        return ids, np.empty(0, np.int64), True
    starts = run_starts(ids)
    heads = ids[starts]  # one per run: usually far fewer than rows
    unique, first, inverse = np.unique(heads, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    codes = np.repeat(number[inverse], np.diff(np.append(starts, len(ids))))
    return unique[order], codes, len(unique) == len(heads)


def run_starts(ids: Ids) -> Rows:
    """Where each run of equal neighbors begins; ``ids`` is not empty."""
    return np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
