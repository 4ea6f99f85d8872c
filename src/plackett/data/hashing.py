r"""Hashes of documents' contents, blind to labels and to the order of rows.

The hash of a document is

.. math::

    h = \operatorname{mix}\Big(c + \sum_{j:\,x_j \ne 0}
        \operatorname{mix}(\text{bits}(x_j) + G\,(j + 1))\Big)

with :math:`\operatorname{mix}` of :mod:`plackett.base.random`, and c the hash of the document id if
there is one. Zeros add nothing, so a dense row and the same row in CSR form have the same hash;
-0.0 counts as 0.0, and every NaN as the same NaN.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange, uint32, uint64
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.kernels import compiled
from plackett.base.ragged import Features, Ids
from plackett.base.random import GOLDEN, combine, mix
from plackett.data.on_disk import walk

_NAN_BITS = 0x7FC00000
_SIGN_BIT = 0x80000000


def hash_documents(
    features: Features | csr_array, document_ids: Ids | None = None
) -> NDArray[np.uint64]:
    """Hash each row of features, and its document id if given."""
    n_docs = int(features.shape[0])
    seeds = np.zeros(n_docs, np.uint64) if document_ids is None else hash_ids(document_ids)
    out = np.empty(n_docs, np.uint64)
    if isinstance(features, csr_array):
        columns = features.indices.astype(np.int64)
        bits = np.ascontiguousarray(features.data).view(np.uint32)
        _hash_sparse(bits, columns, features.indptr.astype(np.int64), seeds, out)
    else:
        bits = np.ascontiguousarray(features).view(np.uint32)
        for rows in walk(bits):
            _hash_dense(bits[rows], seeds[rows], out[rows])
    return out


def hash_ids(ids: Ids) -> NDArray[np.uint64]:
    """Hash integers or strings; 7 and "7" have the same hash: a file does not tell them apart."""
    text = np.asarray(ids).astype(np.str_)
    out = np.empty(len(text), np.uint64)
    width = text.dtype.itemsize // 4
    codes = np.ascontiguousarray(text).view(np.uint32).reshape(len(text), width)
    _hash_text(codes, out)
    return out


@compiled
def _term(bits, column):  # type: ignore[no-untyped-def]
    if bits & uint32(0x7FFFFFFF) > uint32(0x7F800000):
        bits = uint32(_NAN_BITS)
    if bits == uint32(0) or bits == uint32(_SIGN_BIT):
        return uint64(0)
    return mix(uint64(bits) + uint64(column + 1) * uint64(GOLDEN))


@njit(cache=True, nogil=True, parallel=True)
def _hash_dense(bits, seeds, out):  # type: ignore[no-untyped-def]
    for row in prange(bits.shape[0]):
        total = seeds[row]
        for column in range(bits.shape[1]):
            total += _term(bits[row, column], column)
        out[row] = mix(total)


@njit(cache=True, nogil=True, parallel=True)
def _hash_sparse(bits, columns, starts, seeds, out):  # type: ignore[no-untyped-def]
    for row in prange(len(starts) - 1):
        total = seeds[row]
        for at in range(starts[row], starts[row + 1]):
            total += _term(bits[at], columns[at])
        out[row] = mix(total)


@njit(cache=True, nogil=True, parallel=True)
def _hash_text(codes, out):  # type: ignore[no-untyped-def]
    for row in prange(codes.shape[0]):
        state = uint64(1)
        for at in range(codes.shape[1]):
            # Shorter strings are padded with zeros, which must not change the hash.
            if codes[row, at] != uint32(0):
                state = combine(state, uint64(codes[row, at]))
        out[row] = state
