"""Write a data set in any of the formats that can be read back."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.errors import DataError, DataWarning
from plackett.base.files import atomic_directory
from plackett.base.ragged import Features, Rows, list_of_document
from plackett.data.canonical import take_rows
from plackett.data.dataset import Dataset
from plackett.data.formats import format_of
from plackett.data.manifest import is_mapped
from plackett.data.mapped import write_arrays

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
    form = format_of(target)
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
    from plackett.data.column_writing import RowBlocks, write_columns

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
