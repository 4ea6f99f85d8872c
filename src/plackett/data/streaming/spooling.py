"""Parquet and Arrow files as a data set whose features are in a scratch file on disk.

The files are read twice. The first pass keeps what is small (labels, ids, hashes of documents),
from which the canonical order follows; the second puts each row of features where it belongs. Rows
of a list may be anywhere: in neighbouring files or far apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.ragged import Features, Ids, Rows
from plackett.data.arrays import Missing, as_groups, as_weights, first_appearance
from plackett.data.canonical import Arrangement, arrange_hashes
from plackett.data.columns import Columns
from plackett.data.dataset import Dataset, report_scattered
from plackett.data.halves import Halves
from plackett.data.hashing import hash_documents
from plackett.data.on_disk import BLOCK_BYTES, release, scratch_array
from plackett.data.shards import naming
from plackett.data.streaming.tables import Progress, tables, unchanged
from plackett.data.table import Table

_PER_ROW = ("labels", "document_ids", "weights", "document_weights", "groups")


def spool(
    columns: Columns,
    *,
    missing: Missing,
    strict: bool,
    folder: Path,
    progress: Progress | None = None,
) -> Dataset:
    """The data set that reading the files gives, with its features in a scratch file.

    Parameters
    ----------
    columns
        The files.
    missing, strict
        As for :func:`plackett.read`.
    folder
        Where the scratch file goes; it needs room for the features as float32.
    progress
        Called with the bytes done and the bytes in all: each file counts twice.
    """
    halves = Halves(progress)
    small = _Small()
    with unchanged(columns):  # other values in the second pass would be those of other documents
        for table in tables(columns, missing, halves.first):
            small.add(table)
        with naming(Path(columns.name)):
            lists = small.lists(columns.name, strict=strict)
        plan = arrange_hashes(small.joined("hashes"), lists.codes, len(lists.names))
        features = _in_order(columns, plan.rows, missing, folder, halves.second)
    return _dataset(small, lists, plan, features)


@dataclass(frozen=True)
class _Lists:
    """The lists in order of first appearance."""

    names: Ids
    codes: Rows
    """The list of each row."""
    weights: NDArray[np.float64] | None
    groups: Rows | None


@dataclass
class _Small:
    """All of the rows but their features."""

    pieces: dict[str, list[NDArray[Any]]] = field(default_factory=dict)
    feature_names: tuple[str, ...] | None = None

    def add(self, table: Table) -> None:
        self.feature_names = table.feature_names
        for name in _PER_ROW:
            self._keep(name, getattr(table, name))
        self._keep("hashes", hash_documents(table.features, table.document_ids))
        # Ids are kept once per run of equal ones: as text they would be the largest of all.
        ids = table.query_ids
        starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
        self._keep("heads", ids[starts])
        self._keep("lengths", np.diff(np.append(starts, len(ids))))

    def _keep(self, name: str, piece: NDArray[Any] | None) -> None:
        if piece is not None:
            self.pieces.setdefault(name, []).append(piece)

    def joined(self, name: str) -> NDArray[Any]:
        return np.concatenate(self.pieces.pop(name))

    def optional(self, name: str) -> NDArray[Any] | None:
        return self.joined(name) if name in self.pieces else None

    def lists(self, source: str, *, strict: bool) -> _Lists:
        if not self.pieces:
            raise DataError("there are no documents.")
        names, runs, contiguous = first_appearance(self.joined("heads"))
        codes = np.repeat(runs, self.joined("lengths"))
        if not contiguous:
            _report(source, names, codes, strict=strict)
        weights, groups = self.optional("weights"), self.optional("groups")
        return _Lists(
            names,
            codes,
            None if weights is None else as_weights(weights, names, codes),
            None if groups is None else as_groups(groups, names, codes),
        )


def _report(source: str, names: Ids, codes: Rows, *, strict: bool) -> None:
    if strict:
        row = int(np.argmax(np.diff(codes) < 0)) + 1
        raise DataError(
            f"row {row} (counted from 0): query id {names[codes[row]].item()!r} comes back after "
            "rows of other queries; sort the rows by query, or read them without strict."
        )
    report_scattered(source, strict=False)


def _in_order(
    columns: Columns, rows: Rows, missing: Missing, folder: Path, progress: Progress
) -> Features:
    """The features in canonical order: row ``rows[i]`` of the files is document i."""
    places = np.empty(len(rows), np.int64)
    places[rows] = np.arange(len(rows))
    out = scratch_array(folder, (len(rows), columns.width), np.float32)
    at = written = 0
    for table in tables(columns, missing, progress):
        block = np.ascontiguousarray(table.features)
        _scatter(block, places[at : at + len(block)], out)
        at, written = at + len(block), written + block.nbytes
        if written > BLOCK_BYTES:
            release(out)
            written = 0
    release(out)
    return out


def _dataset(small: _Small, lists: _Lists, plan: Arrangement, features: Features) -> Dataset:
    ids, each = small.optional("document_ids"), small.optional("document_weights")
    return Dataset(
        features=features,
        labels=small.joined("labels")[plan.rows],
        offsets=plan.offsets,
        query_ids=lists.names[plan.lists],
        keys=plan.keys,
        rows=plan.rows,
        document_ids=None if ids is None else ids[plan.rows],
        weights=None if lists.weights is None else lists.weights[plan.lists],
        document_weights=None if each is None else each[plan.rows],
        feature_names=small.feature_names,
        groups=None if lists.groups is None else lists.groups[plan.lists],
    )


@njit(cache=True, nogil=True, parallel=True)
def _scatter(block, places, out):  # type: ignore[no-untyped-def]
    for i in prange(len(block)):
        out[places[i], :] = block[i, :]
