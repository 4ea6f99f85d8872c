r"""The canonical order of documents and lists: by content, independent of labels.

A data set keeps the caller's rows in their order. Training, noise and ties use the canonical order
instead, so that permuting rows or renaming queries changes neither a model nor a metric. The
documents of a list are sorted by their hashes, the lists by their keys (a list's key is the hash of
its documents' hashes). Documents with identical content keep the order of the rows.

The hash of a document is

.. math::

    h = \operatorname{mix}\Big(c + \sum_{j:\,x_j \ne 0}
        \operatorname{mix}(\text{bits}(x_j) + G\,(j + 1))\Big)

with :math:`\operatorname{mix}` of :mod:`plackett.base.random`, and c the hash of the document id if
there is one. Zeros add nothing, so a dense row and the same row in CSR form have the same hash;
-0.0 counts as 0.0, and every NaN as the same NaN.

Small data are hashed and sorted in NumPy: the hashes are the same, and no kernel has to be compiled.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numba import uint32, uint64
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from plackett.base.arithmetic import stable_order
from plackett.base.kernels import compiled
from plackett.base.ragged import Features, Ids, Keys, Offsets, Rows, offsets_from_sizes, take_lists
from plackett.base.random import GOLDEN, combine, combine_all, combine_arrays, mix, mix_array
from plackett.base.threads import run_parallel
from plackett.data.large_arrays import allocate, is_large, iter_blocks, release_pages

_NAN_BITS = 0x7FC00000
_SIGN_BIT = 0x80000000
_LEAST_ROWS, _LEAST_LISTS = 2000, 100  # minimum numbers per thread
_BLOCK_IDS = 4096  # ids processed at a time, so that they stay in the cache
_FEW_LISTS = 8
SMALL = 1_000_000  # number of values that NumPy processes in a few hundredths of a second


def hash_documents(features: Features | csr_array, document_ids: Ids | None = None) -> NDArray[np.uint64]:
    """Hash each row of features, and its document id if given."""
    n_docs = int(features.shape[0])
    seeds = np.zeros(n_docs, np.uint64) if document_ids is None else hash_ids(document_ids)
    out = np.empty(n_docs, np.uint64)
    if isinstance(features, csr_array):
        places = features.indices.astype(np.int64), features.indptr.astype(np.int64)
        bits = np.ascontiguousarray(features.data).view(np.uint32)
        run_parallel(_hash_sparse, n_docs, bits, *places, seeds, out, least=_LEAST_ROWS)
        return out
    bits = np.ascontiguousarray(features).view(np.uint32)
    if bits.size <= SMALL:  # the same computation as in _hash_dense, in NumPy
        bits = np.where(bits & np.uint32(0x7FFFFFFF) > 0x7F800000, np.uint32(_NAN_BITS), bits)
        columns: Keys = np.arange(1, bits.shape[1] + 1, dtype=np.uint64) * np.uint64(GOLDEN)
        terms = mix_array(bits.astype(np.uint64) + columns)
        terms[(bits == 0) | (bits == _SIGN_BIT)] = 0
        return mix_array(seeds + terms.sum(axis=1, dtype=np.uint64))
    for rows in iter_blocks(bits):
        run_parallel(_hash_dense, len(out[rows]), bits[rows], seeds[rows], out[rows], least=_LEAST_ROWS)
    return out


def hash_ids(ids: Ids) -> NDArray[np.uint64]:
    """Hash integers or strings; 7 and "7" have the same hash, as they are the same in a file."""
    text = np.asarray(ids).astype(np.str_)
    out = np.ones(len(text), np.uint64)
    width = text.dtype.itemsize // 4
    codes = np.ascontiguousarray(text).view(np.uint32).reshape(len(text), width)
    for start in range(0, len(out), _BLOCK_IDS):
        hashes = out[start : start + _BLOCK_IDS]
        for column in codes[start : start + _BLOCK_IDS].T:
            # Shorter strings are padded with zeros, which must not change the hash.
            np.copyto(hashes, combine_arrays(hashes, column.astype(np.uint64)), where=column != 0)
    return out


@compiled
def _term(bits, column):  # type: ignore[no-untyped-def]
    if bits & uint32(0x7FFFFFFF) > uint32(0x7F800000):
        bits = uint32(_NAN_BITS)
    if bits == uint32(0) or bits == uint32(_SIGN_BIT):
        return uint64(0)
    return mix(uint64(bits) + uint64(column + 1) * uint64(GOLDEN))


@compiled
def _hash_dense(first, last, bits, seeds, out):  # type: ignore[no-untyped-def]
    for row in range(first, last):
        total = seeds[row]
        for column in range(bits.shape[1]):
            total += _term(bits[row, column], column)
        out[row] = mix(total)


@compiled
def _hash_sparse(first, last, bits, columns, starts, seeds, out):  # type: ignore[no-untyped-def]
    for row in range(first, last):
        total = seeds[row]
        for at in range(starts[row], starts[row + 1]):
            total += _term(bits[at], columns[at])
        out[row] = mix(total)


@dataclass(frozen=True, eq=False)
class CanonicalOrder:
    """The canonical order of the documents and lists of a data set."""

    rows: Rows
    """For each document in canonical order, its row in the data set."""
    lists: Rows
    """For each list in canonical order, its number in order of first appearance."""
    offsets: Offsets
    keys: Keys
    """One per list in canonical order: the hash of its contents, which seeds its random numbers."""

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], list_of_row: Rows, n_lists: int) -> CanonicalOrder:
        """Sort rows by the hashes of their documents, and lists by their keys."""
        sizes = np.bincount(list_of_row, minlength=n_lists)
        starts = offsets_from_sizes(sizes)
        if len(hashes) <= SMALL // 20:
            grouped = np.lexsort((hashes, list_of_row))
            keys = _small_keys(hashes[grouped], starts)
        else:
            grouped = np.argsort(list_of_row, kind="stable")
            keys = np.empty(n_lists, np.uint64)
            run_parallel(_sort_lists, n_lists, hashes, starts, grouped, keys, least=_LEAST_LISTS)
        lists = np.argsort(keys, kind="stable")
        documents, offsets = take_lists(starts, lists)
        return cls(grouped[documents], lists, offsets, keys[lists])

    @classmethod
    def identity(cls, offsets: Offsets, keys: Keys) -> CanonicalOrder:
        """The order of rows that are in canonical order already."""
        order = cls(np.arange(offsets[-1]), np.arange(len(keys)), offsets, keys)
        order.__dict__["is_identity"] = True  # known without reading the rows
        return order

    @cached_property
    def is_identity(self) -> bool:
        """Whether the rows are in canonical order already."""
        return bool(np.array_equal(self.rows, np.arange(len(self.rows))))

    @cached_property
    def places(self) -> Rows:
        """For each row, its position in canonical order."""
        return _invert(self.rows)

    def sort(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of rows, put in canonical order."""
        return values if self.is_identity else values[self.rows]

    def restore(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values in canonical order, put in the order of the rows."""
        return values if self.is_identity else values[self.places]

    def restore_lists(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of lists in canonical order, put in order of first appearance."""
        return values if self.is_identity else values[_invert(self.lists)]

    def restrict(self, keep: NDArray[np.bool_]) -> CanonicalOrder:
        """The order of the data that remain when only the lists with ``keep`` true are kept."""
        chosen = np.flatnonzero(keep[self.lists])
        documents = np.repeat(keep[self.lists], np.diff(self.offsets))
        rows, lists = self.rows[documents], self.lists[chosen]
        offsets = offsets_from_sizes(np.diff(self.offsets)[chosen])
        row_left = np.zeros(len(self.rows), np.bool_)
        row_left[rows] = True
        numbers = (np.cumsum(row_left) - 1)[rows], (np.cumsum(keep) - 1)[lists]
        return CanonicalOrder(*numbers, offsets, self.keys[chosen])


def _small_keys(hashes: NDArray[np.uint64], starts: Offsets) -> NDArray[np.uint64]:
    """Keys of lists from the hashes of their documents, without compiled code.

    NumPy goes document by document through all lists at once, which is slow for a few long lists.
    """
    sizes = np.diff(starts)
    if len(sizes) <= _FEW_LISTS:
        return np.array([combine_all(hashes[a:b]) for a, b in itertools.pairwise(starts)], np.uint64)
    keys = np.zeros(len(sizes), np.uint64)
    for place in range(int(sizes.max(initial=0))):
        left = np.flatnonzero(sizes > place)
        keys[left] = combine_arrays(keys[left], hashes[starts[left] + place])
    return keys


def _invert(order: Rows) -> Rows:
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places


@dataclass(frozen=True, eq=False)
class PermutedRows:
    """A matrix whose rows are read in another order; slices and selections are copies."""

    matrix: Features
    rows: Rows

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return len(self.rows), self.matrix.shape[1]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Rows | slice) -> Features:
        return take_rows(self.matrix, self.rows[index])


@overload
def take_rows(features: Features, rows: Rows | slice) -> Features: ...
@overload
def take_rows(features: csr_array, rows: Rows | slice) -> csr_array: ...
def take_rows(features: Features | csr_array, rows: Rows | slice) -> Features | csr_array:
    """Rows of a matrix: a view for a slice of a dense one, else a copy, made on all threads."""
    if isinstance(features, (csr_array, PermutedRows)) or isinstance(rows, slice):
        return features[rows]
    if len(rows) * features.shape[1] <= SMALL and not is_large(features):
        return np.ascontiguousarray(features[rows])
    out = allocate(features, (len(rows), features.shape[1]))
    for block in iter_blocks(out):
        part = rows[block]
        run_parallel(_copy_rows, len(part), features, part, out[block], least=_LEAST_ROWS)
        release_pages(features)
    return out


def dense_rows(features: Features | csr_array, rows: Rows | slice) -> Features:
    """Rows of a matrix as a dense array."""
    if isinstance(features, csr_array):
        return features[rows].toarray()
    return take_rows(features, rows)


def dense_columns(features: Features | csr_array) -> Iterator[NDArray[np.float32]]:
    """The features one after the other, as dense arrays."""
    if not isinstance(features, csr_array):
        for j in range(features.shape[1]):
            yield np.ascontiguousarray(features[:, j])
        return
    sparse = csc_array(features)
    for j in range(sparse.shape[1]):
        column = np.zeros(sparse.shape[0], sparse.dtype)
        low, high = sparse.indptr[j], sparse.indptr[j + 1]
        column[sparse.indices[low:high]] = sparse.data[low:high]
        yield column


def has_nan(features: Any) -> bool:
    """Whether a value of the features is missing."""
    if isinstance(features, PermutedRows):
        features = features.matrix
    values = features if isinstance(features, np.ndarray) else features.data
    # A sum is NaN if and only if a value is NaN; this needs no mask as large as the features.
    return any(np.isnan(np.sum(values[rows], dtype=np.float64)) for rows in iter_blocks(values))


@compiled
def _sort_lists(first, last, hashes, starts, grouped, keys):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        rows = grouped[starts[q] : starts[q + 1]].copy()
        order = stable_order(hashes[rows], False)
        state = uint64(0)
        for place in range(len(rows)):
            row = rows[order[place]]
            grouped[starts[q] + place] = row
            state = combine(state, hashes[row])
        keys[q] = state


@compiled
def _copy_rows(first, last, features, rows, out):  # type: ignore[no-untyped-def]
    for i in range(first, last):
        for column in range(out.shape[1]):
            out[i, column] = features[rows[i], column]


def take(values: NDArray[Any] | None, positions: Rows | slice) -> NDArray[Any] | None:
    """The values at these positions, or None for an array that is absent."""
    return None if values is None else values[positions]
