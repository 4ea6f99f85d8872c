"""Write a data set in any of the formats that can be read back.

Parquet and Arrow files written row group by row group.

Progress of work in two passes as one.

One format into another.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.errors import DataError, DataWarning
from plackett.base.files import atomic_directory
from plackett.base.ragged import Features, Rows, list_of_document
from plackett.data.canonical import take_rows
from plackett.data.dataset import Dataset
from plackett.data.mapped import is_mapped, write_arrays
from plackett.data.reader import ReadOptions, existing_format, read_part, require_format

if TYPE_CHECKING:
    from plackett.data.letor import Progress


_BLOCK_BYTES = 64 << 20  # of features copied at a time


def write(dataset: Dataset, path: str | os.PathLike[str], *, sparse: bool = False) -> None:
    """Write a data set; the suffix of the path says how.

    ====================================  ==========================================================
    suffix                                format
    ====================================  ==========================================================
    .txt .dat .letor .svmlight .libsvm    LETOR text, in the caller's order of rows; also with .gz
                                          or .xz behind
    .parquet, .arrow .feather             ``label``, ``query_id``, ``document_id``, ``weight`` and
                                          ``document_weight`` if any, and one column per feature,
                                          in the caller's order
    .pkdata                               the memory-mapped form, in canonical order
    ====================================  ==========================================================

    The file is either whole or absent. What reading it gives back:

    - the memory-mapped form: the same data set in every field. ``missing="nan"`` must be passed
      again where features are missing, as for the other formats.
    - Parquet and Arrow: labels, features and their names, ids of queries and documents with their
      type, and weights, exactly. Rows of a part of a data set are counted anew from 0. A feature
      named like one of the other columns written (``label``, ``query_id`` ...) is refused.
    - LETOR text: labels, features and ids, exactly, and the order of the rows. Feature names are
      dropped without a word, weights with a :class:`~plackett.base.errors.DataWarning`. Document
      ids are read as strings, and query ids as integers if all of them look like integers.

    In all of them, sparse features come back dense.

    Parameters
    ----------
    dataset
        The data set.
    path
        The file, or the directory of the memory-mapped form; replaced if it exists.
    sparse
        Leave zeros out of LETOR text. The number of features is then not certain from the text.
    """
    target = Path(path)
    form = require_format(target)
    if form == "mapped":
        write_mapped(dataset, target)
        return
    _refuse_merging(dataset, target)
    if form == "letor":
        _write_letor(dataset, target, sparse=sparse)
    else:
        _write_columns(dataset, target)


def write_mapped(dataset: Dataset, target: Path) -> None:
    """Write the memory-mapped form."""
    refuse_foreign(target)
    arrays: dict[str, NDArray[Any] | None] = {
        "labels": dataset.labels,
        "offsets": dataset.offsets,
        "query_ids": dataset.query_ids,
        "keys": dataset.keys,
        "rows": dataset.rows,
        "document_ids": dataset.document_ids,
        "weights": dataset.weights,
        "document_weights": dataset.document_weights,
        "groups": dataset.groups,
    }
    with atomic_directory(target) as directory:
        write_arrays(
            directory,
            arrays,
            (_dense(dataset, rows) for rows in blocks(dataset.n_docs, dataset.n_features)),
            n_features=dataset.n_features,
            feature_names=dataset.feature_names,
        )


def blocks(n_docs: int, n_features: int, block_bytes: int = _BLOCK_BYTES) -> Iterator[slice]:
    """Slices of rows that are copied at a time."""
    step = max(1, block_bytes // max(1, 4 * n_features))
    return (slice(start, min(start + step, n_docs)) for start in range(0, n_docs, step))


def refuse_foreign(target: Path) -> None:
    """Refuse to replace what is not a memory-mapped data set."""
    if target.exists() and not is_mapped(target):
        raise DataError(
            "exists and is not a memory-mapped data set, so it is not replaced; choose another "
            "name or remove it.",
            path=str(target),
        )


def _dense(dataset: Dataset, rows: slice | Rows) -> Features:
    if isinstance(dataset.features, csr_array):
        return dataset.features[rows].toarray()
    if isinstance(rows, slice):
        return dataset.features[rows]
    return take_rows(dataset.features, rows)


def _refuse_merging(dataset: Dataset, target: Path) -> None:
    unique, counts = np.unique(dataset.query_ids, return_counts=True)
    if np.any(counts > 1):
        twice = unique[np.argmax(counts > 1)].item()
        raise DataError(
            f"{counts.max()} lists have the query id {twice!r}; in a file of rows they would be "
            "one list. Give them different ids, or use the memory-mapped form.",
            path=str(target),
        )


def _write_letor(dataset: Dataset, target: Path, *, sparse: bool) -> None:
    from plackett.data.letor import write_table

    for what, weights in (("lists", dataset.weights), ("documents", dataset.document_weights)):
        if weights is not None:
            warnings.warn(
                f"{target}: LETOR text has no place for the weights of {what}, which are not "
                "written.",
                DataWarning,
                stacklevel=3,
            )
    order = np.argsort(dataset.rows, kind="stable")
    per_row = list_of_document(dataset.offsets)[order]
    ids = dataset.document_ids
    write_table(
        target,
        _dense(dataset, order),
        dataset.labels[order],
        dataset.query_ids[per_row],
        document_ids=None if ids is None else ids[order],
        sparse=sparse,
    )


def _write_columns(dataset: Dataset, target: Path) -> None:
    from plackett.data.columnar.writer import RowBlocks, write_columns  # imports pyarrow

    order = np.argsort(dataset.rows, kind="stable")
    per_row = list_of_document(dataset.offsets)[order]
    ids, weights, each = dataset.document_ids, dataset.weights, dataset.document_weights
    write_columns(
        target,
        RowBlocks(
            labels=dataset.labels[order],
            query_ids=dataset.query_ids[per_row],
            document_ids=None if ids is None else ids[order],
            weights=None if weights is None else weights[per_row],
            document_weights=None if each is None else each[order],
            groups=None if dataset.groups is None else dataset.groups[per_row],
            feature_names=dataset.feature_names,
            n_features=dataset.n_features,
            features=lambda start, stop: _dense(dataset, order[start:stop]),
        ),
    )


class Halves:
    """The first pass goes to the middle, the second one from there to the end.

    Parameters
    ----------
    progress
        Called with the work done and the work in all, which is twice that of the first pass; None:
        nobody is told.
    """

    def __init__(self, progress: Callable[[int, int], object] | None) -> None:
        self.progress, self.total = progress, 1

    def first(self, done: int, total: int) -> None:
        """Tell of the first pass, in units of its own."""
        self.total = total
        if self.progress is not None:
            self.progress(done, 2 * total)

    def second(self, done: int, total: int) -> None:
        """Tell of the second pass, in units of its own."""
        if self.progress is not None:
            self.progress(self.total + self.total * done // total, 2 * self.total)


@dataclass(frozen=True)
class ConvertReport:
    """What a conversion did."""

    n_lists: int
    n_docs: int
    n_features: int
    streamed: bool
    """True if the features were never whole in memory."""


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    block_bytes: int = _BLOCK_BYTES,
    progress: Progress | None = None,
    **options: Any,
) -> ConvertReport:
    """Write a data set in another format; the result is that of reading it and writing it.

    LETOR text is streamed into the memory-mapped form and into Parquet and Arrow, these two into
    the memory-mapped form: the features are never whole in memory, and need room in a scratch file
    beside the target instead. Other pairs are read and written.

    Parameters
    ----------
    source, target
        What to read and what to write; the suffixes say which formats.
    block_bytes
        How much LETOR text is in memory at a time.
    progress
        Called now and then with the work done and the work in all: the bytes of the source count
        twice, once read and once written.
    **options
        Those of :func:`plackett.data.reader.read`.
    """
    origin, goal = Path(source), Path(target)
    chosen = ReadOptions(**options)
    form = require_format(goal)
    halves = Halves(progress)
    if form != "letor" and origin.is_file() and require_format(origin) == "letor":
        from plackett.data.letor.streaming import stream_to_columns, stream_to_mapped

        chosen.refuse_columns(origin, "LETOR text")
        stream = stream_to_mapped if form == "mapped" else stream_to_columns
        sizes = stream(
            origin,
            goal,
            chosen,
            block_bytes=block_bytes,
            reading=halves.first,
            writing=halves.second,
        )
        return ConvertReport(sizes.n_lists, sizes.n_docs, sizes.n_features, streamed=True)
    if form == "mapped" and origin.exists() and existing_format(origin) == "columns":
        return _columns_to_mapped(origin, goal, options, halves)
    part = read_part(origin, chosen, halves.first)
    dataset = part if isinstance(part, Dataset) else Dataset.from_table(part, strict=chosen.strict)
    write(dataset, goal)
    halves.second(1, 1)
    return ConvertReport(dataset.n_lists, dataset.n_docs, dataset.n_features, streamed=False)


def _columns_to_mapped(
    origin: Path, goal: Path, options: dict[str, Any], halves: Halves
) -> ConvertReport:
    from plackett.data.streaming import stream

    refuse_foreign(goal)
    goal.parent.mkdir(parents=True, exist_ok=True)
    spooled = stream(origin, scratch=goal.parent, progress=halves.first, **options)
    write(spooled, goal)
    halves.second(1, 1)
    return ConvertReport(spooled.n_lists, spooled.n_docs, spooled.n_features, streamed=True)
