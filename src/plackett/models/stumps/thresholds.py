"""Candidate thresholds of each feature, and where each document lies among them.

A feature with few distinct values is cut between any two of them; one with many at evenly spread
quantiles. A document's code is the number of thresholds below its value, so it lies above the k-th
threshold (from 0) if and only if its code is more than k. A missing value lies above none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from plackett.base.ragged import Features


@dataclass(frozen=True)
class Codes:
    """Documents coded by thresholds."""

    thresholds: tuple[NDArray[np.float32], ...]
    """For each feature, ascending; none for a constant one."""
    codes: NDArray[np.uint16]
    """features x documents."""


def code(features: Features | csr_array, most: int) -> Codes:
    """Choose at most so many thresholds of each feature, and code the documents."""
    n, d = features.shape
    codes = np.empty((d, n), dtype=np.uint16)
    thresholds = []
    for j, column in enumerate(columns(features)):
        found = _thresholds(column, most)
        codes[j] = np.searchsorted(found, column, side="left")
        codes[j, np.isnan(column)] = 0
        thresholds.append(found)
    return Codes(tuple(thresholds), codes)


def columns(features: Features | csr_array) -> Iterator[NDArray[np.float32]]:
    """The features one after the other, as dense arrays."""
    if isinstance(features, csr_array):
        sparse = csc_array(features)
        for j in range(sparse.shape[1]):
            yield _dense(sparse, j)
    else:
        for j in range(features.shape[1]):
            yield np.ascontiguousarray(features[:, j])


def _dense(sparse: csc_array, j: int) -> NDArray[np.float32]:
    column = np.zeros(sparse.shape[0], dtype=np.float32)
    low, high = sparse.indptr[j], sparse.indptr[j + 1]
    column[sparse.indices[low:high]] = sparse.data[low:high]
    return column


def _thresholds(column: NDArray[np.float32], most: int) -> NDArray[np.float32]:
    values = np.unique(column[~np.isnan(column)])
    if len(values) < 2:
        return np.empty(0, dtype=np.float32)
    if len(values) > most + 1:
        # Cuts between neighbours in rank: quantiles of the documents, not of the distinct values.
        ordered = np.sort(column[~np.isnan(column)])
        at = np.linspace(0, len(ordered) - 1, most + 2)[1:-1].astype(np.int64)
        lower = np.unique(ordered[at])
        place = np.searchsorted(values, lower)
        place = place[place < len(values) - 1]
    else:
        place = np.arange(len(values) - 1)
    low, high = values[place], values[place + 1]
    middle = (0.5 * (low.astype(np.float64) + high)).astype(np.float32)
    # Between neighbouring floats there is no middle; and "above" must not include the lower one.
    return np.where((middle >= low) & (middle < high), middle, low)
