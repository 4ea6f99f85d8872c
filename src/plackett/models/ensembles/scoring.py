"""Score documents with an ensemble: which compiled loop, and on how many threads.

Most documents take the bit-sliced path. Going from root to leaf, one document and one tree after
another, is faster for a few documents, and the only way for what the fast path does not support:
float64 features that float32 cannot represent, and trees with more leaves than it can number.

The threads are Python's: the loops release the global interpreter lock, share only what they read,
and write separate parts of the scores. No thread pool stays alive, so calls from several threads
or after a fork are safe.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from plackett.base.errors import DataError, FeatureMismatch, UsageError
from plackett.base.kernels import compiled
from plackett.base.ragged import Scores
from plackett.models.ensembles.bitsliced import DOCUMENTS, not_in_set, read_value, score_blocks

if TYPE_CHECKING:
    from plackett.models.ensembles.ensemble import Ensemble


NODE = np.dtype(
    [
        ("threshold", np.float64),
        ("feature", np.int32),
        ("category_set", np.int32),
        ("nan_becomes", np.float32),
        ("zero_becomes", np.float32),
        ("left", np.int32),
        ("right", np.int32),
    ]
)
"""An inner node in 32 bytes, so that a step down a tree reads one cache line."""


class Nodes(NamedTuple):
    """Inner nodes and leaves in the order of the ensemble."""

    node_offsets: NDArray[np.int64]
    """Offsets of each tree's inner nodes."""
    leaf_offsets: NDArray[np.int64]
    """Offsets of each tree's leaves."""
    inner: NDArray[np.void]
    """Inner nodes, of type :data:`NODE`."""
    nan_left: NDArray[np.bool_]
    """Of each inner node: with a set of categories, whether NaN goes left."""
    values: NDArray[np.floating]
    """Leaf values; their precision is that of the sum."""


@compiled
def _goes_right(row, at, nodes, questions):  # type: ignore[no-untyped-def]
    node = nodes.inner[at]
    x = read_value(row[node.feature], node.nan_becomes, node.zero_becomes, questions.tiny)
    number = node.category_set
    if number < 0:
        return not x <= node.threshold
    start, stop = questions.set_offsets[number], questions.set_offsets[number + 1]
    return not_in_set(x, nodes.nan_left[at], questions.sets, start, stop, questions.lowest)


@compiled
def traverse(features, nodes, questions, scores):  # type: ignore[no-untyped-def]
    """Add the scores of all trees to the scores of documents."""
    for tree in range(len(nodes.node_offsets) - 1):
        first = nodes.node_offsets[tree]
        root = 0 if nodes.node_offsets[tree + 1] > first else -1
        for i in range(len(features)):
            node = root
            while node >= 0:
                at = first + node
                right = _goes_right(features[i], at, nodes, questions)
                node = nodes.inner[at].right if right else nodes.inner[at].left
            scores[i] += nodes.values[nodes.leaf_offsets[tree] + ~node]


NARROW, WIDE = (0,) * 2, (0,) * 8
"""Lanes of a mask, for one list and for many documents."""
FEW = 3
"""Up to this number of documents, :func:`traverse` is faster."""
MIN_PER_THREAD = 1024
"""The smallest number of documents for which starting a thread pays."""
_SPARSE_ROWS = 8192  # rows of a sparse matrix that are made dense at a time


def score(ensemble: Ensemble, features: Any, *, n_threads: int | None) -> Scores:
    """Score documents; see :meth:`plackett.models.ensembles.Ensemble.predict`."""
    if n_threads is not None and n_threads < 1:
        raise UsageError(f"n_threads must be at least 1, got {n_threads}.")
    if scipy.sparse.issparse(features):
        return _score_sparse(ensemble, features, n_threads)
    array = _as_array(ensemble, features)
    scores = np.full(len(array), ensemble.base_score, ensemble.layout.nodes.values.dtype)
    n_parts = min(_count_threads(n_threads, len(array)), max(len(array) // MIN_PER_THREAD, 1))
    if n_parts == 1:
        _score_part(ensemble, array, scores)
    else:
        _score_parts(ensemble, array, scores, n_parts)
    return scores.astype(np.float64, copy=False)


def _count_threads(n_threads: int | None, n_docs: int) -> int:
    if n_threads is None:
        return numba.get_num_threads() if n_docs >= 2 * MIN_PER_THREAD else 1
    return n_threads


def _check_shape(ensemble: Ensemble, shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise DataError(f"features must have 2 dimensions, documents x features, got {shape}.")
    if shape[1] != ensemble.n_features:
        raise FeatureMismatch(
            f"the ensemble scores documents with {ensemble.n_features} features, got {shape[1]}."
        )


def _as_array(ensemble: Ensemble, features: Any) -> NDArray[np.floating]:
    """Contiguous rows of float32, or of float64 where float32 would change a decision."""
    array = np.asarray(features)
    _check_shape(ensemble, array.shape)
    if array.dtype == np.float64:
        with np.errstate(over="ignore", under="ignore"):
            narrow = array.astype(np.float32)
        if ensemble.library != "lightgbm" or np.array_equal(narrow, array, equal_nan=True):
            array = narrow
    elif array.dtype != np.float32:
        try:
            array = array.astype(np.float32)
        except (TypeError, ValueError) as error:
            raise DataError(f"features must be numbers, got an array of {array.dtype}.") from error
    array = np.require(array, requirements=["C", "A"]).view()
    array.flags.writeable = False  # so that writable and read-only arrays share one compiled loop
    return array


def _score_parts(
    ensemble: Ensemble, array: NDArray[np.floating], scores: NDArray[np.floating], n_parts: int
) -> None:
    block = DOCUMENTS * len(WIDE)
    n_blocks = -(-len(array) // block)
    bounds = [min(n_blocks * i // n_parts * block, len(array)) for i in range(n_parts + 1)]
    with ThreadPoolExecutor(n_parts) as pool:
        parts = [
            pool.submit(_score_part, ensemble, array[a:b], scores[a:b]) for a, b in pairwise(bounds)
        ]
        for part in parts:
            part.result()


_LARGE = 8  # wide blocks


def _score_part(
    ensemble: Ensemble, array: NDArray[np.floating], scores: NDArray[np.floating]
) -> None:
    """Score documents on this thread."""
    layout = ensemble.layout
    if len(array) <= FEW or layout.trees is None or array.dtype != np.float32:
        traverse(array, layout.nodes, layout.questions, scores)
        return
    narrow, wide = DOCUMENTS * len(NARROW), DOCUMENTS * len(WIDE)
    rest = len(array) % wide
    # In a large part the time for one wide block more is small, and one loop less is compiled.
    ends_narrow = rest <= 2 * narrow and len(array) < _LARGE * wide
    n = len(array) - rest if ends_narrow else len(array)
    if n:
        score_blocks(WIDE, array[:n], layout.questions, layout.trees, scores[:n])
    if n < len(array):
        score_blocks(NARROW, array[n:], layout.questions, layout.trees, scores[n:])


def _score_sparse(ensemble: Ensemble, features: Any, n_threads: int | None) -> Scores:
    matrix = scipy.sparse.csr_array(features)
    _check_shape(ensemble, matrix.shape)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    scores = np.empty(matrix.shape[0])
    absent = np.nan if ensemble.library == "xgboost" else 0.0
    dtype = np.float64 if matrix.dtype == np.float64 else np.float32
    for start in range(0, matrix.shape[0], _SPARSE_ROWS):
        stop = min(start + _SPARSE_ROWS, matrix.shape[0])
        a, b = matrix.indptr[start], matrix.indptr[stop]
        rows = np.repeat(np.arange(stop - start), np.diff(matrix.indptr[start : stop + 1]))
        dense = np.full((stop - start, matrix.shape[1]), absent, dtype)
        dense[rows, matrix.indices[a:b]] = matrix.data[a:b]
        scores[start:stop] = score(ensemble, dense, n_threads=n_threads)
    return scores
