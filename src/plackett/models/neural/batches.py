"""Batches of whole lists: which lists, in which order, with which features.

The order of an epoch is a function of seed, epoch and the keys of the lists, so it depends neither
on the order of the data nor on hidden state, and a fit taken up again goes on with the same
batches.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from plackett.base.kernels import compiled
from plackett.base.ragged import Features, Keys, Labels, Offsets, Rows
from plackett.base.random import combine
from plackett.data.disk_arrays import is_large, release
from plackett.models.neural.listwise import gathered

_RELEASED_AFTER = 4 << 20  # bytes: lists from all over a file bring many times as many along
_ORDER = 0x6F72646572  # keeps this order apart from the noise of objectives with the same seed


@dataclass(frozen=True)
class Batch:
    """Whole lists."""

    positions: Rows
    """Of the lists in the data."""
    documents: slice | Rows
    """Of these lists in the data."""
    offsets: Offsets
    """Of these lists among these documents."""


def batch_of(offsets: Offsets, positions: Rows) -> Batch:
    """The lists at these positions; neighbours in their order are one slice."""
    first, last = positions[0], positions[-1]
    if last - first == len(positions) - 1 and (len(positions) == 1 or _rising(positions)):
        low, high = int(offsets[first]), int(offsets[last + 1])
        return Batch(positions, slice(low, high), offsets[first : last + 2] - low)
    return Batch(positions, *gathered(offsets, positions))


def learnable(labels: Labels, offsets: Offsets) -> Rows:
    """Positions of the lists with at least two levels of labels; others have no gradient."""
    return np.flatnonzero(_differing(labels, offsets))


def epoch_order(positions: Rows, keys: Keys, *, seed: int, epoch: int) -> Rows:
    """The lists of an epoch, shuffled by seed, epoch and keys."""
    base = np.uint64(combine(np.uint64(seed % 2**64) ^ np.uint64(_ORDER), np.uint64(epoch)))
    words = _words(keys[positions], base)
    # Equal lists have equal keys: their places, which the canonical order fixes, decide.
    return positions[np.argsort(words, kind="stable")]


def cut(
    order: Rows, sizes: Rows, *, lists: int | None, documents: int | None
) -> list[tuple[int, int]]:
    """Where to cut the order into batches of at most so many lists and documents.

    A list longer than ``documents`` is a batch of its own.
    """
    if documents is None:
        assert lists is not None
        return [(a, min(a + lists, len(order))) for a in range(0, len(order), lists)]
    most = len(order) if lists is None else lists
    ends = np.cumsum(sizes[order])
    bounds, start, before = [], 0, 0
    while start < len(order):
        fits = int(np.searchsorted(ends, before + documents, side="right"))
        stop = min(max(fits, start + 1), start + most)
        bounds.append((start, stop))
        start, before = stop, int(ends[stop - 1])
    return bounds


class FeatureRows:
    """The features of a data set, handed out batch by batch on a device.

    Each batch is copied into memory of PyTorch's own: products of matrices may differ in their last
    bits with the alignment of memory, and only PyTorch's is the same each time.
    """

    def __init__(self, features: Features | csr_array, device: torch.device) -> None:
        self._sparse = features if isinstance(features, csr_array) else None
        self._dense = None if isinstance(features, csr_array) else _borrowed(features)
        self._device = device
        self._large = features if is_large(features) else None
        self._handed_out = 0

    def __getitem__(self, documents: slice | Rows) -> Tensor:
        batch = self._copy(documents)
        self._handed_out += batch.nbytes
        if self._large is not None and self._handed_out > _RELEASED_AFTER:
            release(self._large)
            self._handed_out = 0
        return batch

    def _copy(self, documents: slice | Rows) -> Tensor:
        if self._dense is None:
            assert self._sparse is not None
            return torch.from_numpy(self._sparse[documents].toarray()).to(self._device)
        if isinstance(documents, slice):
            return self._dense[documents].to(self._device, copy=True)
        return self._dense.index_select(0, torch.from_numpy(documents)).to(self._device)


def blocks(offsets: Offsets, documents: int) -> Iterator[Batch]:
    """All lists in order, in batches of about so many documents."""
    n_lists = len(offsets) - 1
    sizes = np.diff(offsets)
    for start, stop in cut(np.arange(n_lists), sizes, lists=None, documents=documents):
        yield batch_of(offsets, np.arange(start, stop))


def _borrowed(features: Features) -> Tensor:
    """A tensor over the array's own memory; nobody writes to it."""
    with warnings.catch_warnings():
        # PyTorch has no read-only tensors and warns of arrays that are.
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(features)


def _rising(positions: Rows) -> bool:
    return bool(np.all(np.diff(positions) == 1))


@compiled
def _words(keys, base):  # type: ignore[no-untyped-def]
    out = np.empty_like(keys)
    for q in range(len(keys)):
        out[q] = combine(base, keys[q])
    return out


@compiled
def _differing(labels, offsets):  # type: ignore[no-untyped-def]
    out = np.zeros(len(offsets) - 1, np.bool_)
    for q in range(len(out)):
        for i in range(offsets[q] + 1, offsets[q + 1]):
            out[q] |= labels[i] != labels[offsets[q]]
    return out
