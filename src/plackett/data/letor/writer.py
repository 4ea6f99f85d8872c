"""Writing LETOR/SVMlight text that :func:`.read_table` reads back to the same table."""

from __future__ import annotations

import gzip
import lzma
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numba import get_num_threads, uint64
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.files import atomic_file
from plackett.base.kernels import compiled
from plackett.base.ragged import Features, Labels
from plackett.data.letor.names import as_names
from plackett.data.letor.spelling import LONGEST_NUMBER, write_number, write_whole

_BUFFER_BYTES = 8 << 20
_LONGEST_INDEX = 20
_SPACE, _NEWLINE, _COLON = 32, 10, 58
_QID = np.frombuffer(b" qid:", dtype=np.uint8)
_DOCID = np.frombuffer(b" #docid = ", dtype=np.uint8)


class _Rows(NamedTuple):
    features: Features
    labels: Labels
    queries: NDArray[np.uint8]
    documents: NDArray[np.uint8]

    def part(self, start: int, stop: int) -> _Rows:
        at = slice(start, stop)
        return _Rows(self.features[at], self.labels[at], self.queries[at], self.documents[at])


def write_table(
    path: str | os.PathLike[str],
    features: ArrayLike,
    labels: ArrayLike,
    query_ids: ArrayLike,
    document_ids: ArrayLike | None = None,
    *,
    sparse: bool = False,
) -> None:
    """Write rows as text, compressed if the name ends in ``.gz`` or ``.xz``.

    Each number is the shortest decimal that reads back as the same float32. The file appears
    whole or not at all.

    Parameters
    ----------
    path
        File to write; one that is there is replaced.
    features, labels, query_ids, document_ids
        One row per document; ids are integers or strings without blanks.
    sparse
        Leave zeros out. A file so written does not say how wide it is, and cannot hold NaN: a
        reader that allows missing values takes what is left out for missing.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table(f"{folder}/a.txt", [[0.5, 0], [3, 1e-7]], [1, 0], [7, 7], ["d1", "d2"])
    ...     _ = print(Path(f"{folder}/a.txt").read_text(), end="")
    1 qid:7 1:0.5 2:0 #docid = d1
    0 qid:7 1:3 2:1e-7 #docid = d2
    """
    rows = _checked(features, labels, query_ids, document_ids, sparse)
    with atomic_file(path) as temporary, _open(temporary, Path(path).suffix.lower()) as file:
        for text in _texts(rows, sparse):
            file.write(text.data)


@contextmanager
def _open(path: Path, suffix: str) -> Iterator[BinaryIO]:
    with open(path, "wb") as raw:
        if suffix == ".gz":
            # Neither name nor time goes into the file: the same rows give the same bytes.
            with gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as file:
                yield file  # type: ignore[misc]
        elif suffix == ".xz":
            with lzma.open(raw, "wb") as file:
                yield file  # type: ignore[misc]
        else:
            yield raw


def _checked(
    features: ArrayLike,
    labels: ArrayLike,
    query_ids: ArrayLike,
    document_ids: ArrayLike | None,
    sparse: bool,
) -> _Rows:
    x = np.ascontiguousarray(features, dtype=np.float32)
    y = np.ascontiguousarray(labels, dtype=np.float32)
    if x.ndim != 2 or x.shape[1] == 0 or y.shape != (len(x),) or len(x) == 0:
        raise DataError(f"features of shape {x.shape} do not go with labels of shape {y.shape}")
    if np.isinf(x).any():
        row, column = (int(i[0]) for i in np.nonzero(np.isinf(x)))
        raise DataError(f"feature {column + 1} of row {row} is infinite; values must be finite")
    if not (np.isfinite(y) & (y >= 0)).all():
        row = int(np.flatnonzero(~(np.isfinite(y) & (y >= 0)))[0])
        raise DataError(f"label {y[row]} in row {row}; labels are finite numbers from 0 up")
    if sparse and np.isnan(x).any():
        raise UsageError("sparse=True cannot write NaN; write all values with sparse=False.")
    queries = as_names(query_ids, len(x), "query id")
    none = np.zeros((len(x), 1), dtype=np.uint8)
    documents = none if document_ids is None else as_names(document_ids, len(x), "document id")
    return _Rows(x, np.abs(y), queries, documents)


def _texts(rows: _Rows, sparse: bool) -> Iterator[NDArray[np.uint8]]:
    """Texts of successive rows, made by all threads, in order."""
    width = rows.features.shape[1]
    room = (width + 1) * (LONGEST_NUMBER + _LONGEST_INDEX) + len(_QID) + len(_DOCID)
    room += rows.queries.shape[1] + rows.documents.shape[1]
    step = max(_BUFFER_BYTES // room, 1)
    threads = get_num_threads()
    waiting: deque[Future[NDArray[np.uint8]]] = deque()
    with ThreadPoolExecutor(threads) as executor:
        for start in range(0, len(rows.labels), step):
            waiting.append(_submit(executor, rows.part(start, start + step), room, sparse))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _submit(executor: Executor, rows: _Rows, room: int, sparse: bool) -> Future[NDArray[np.uint8]]:
    def text() -> NDArray[np.uint8]:
        out = np.empty(room * len(rows.labels), dtype=np.uint8)
        return out[: _write_rows(out, tuple(rows), sparse)]

    return executor.submit(text)


@compiled
def _copy(out, at, name):  # type: ignore[no-untyped-def]
    """Copy a name up to its first zero."""
    for byte in name:
        if byte == 0:
            break
        out[at] = byte
        at += 1
    return at


@compiled
def _write_rows(out, rows, sparse):  # type: ignore[no-untyped-def]
    """Write rows into ``out``; gives the number of bytes."""
    features, labels, queries, documents = rows
    at = 0
    for i in range(len(labels)):
        at = _copy(out, write_number(out, at, labels[i]), _QID)
        at = _copy(out, at, queries[i])
        row = features[i]
        for column in range(len(row)):
            if sparse and row[column] == 0.0 and not np.signbit(row[column]):
                continue
            out[at] = _SPACE
            at = write_whole(out, at + 1, uint64(column + 1))
            out[at] = _COLON
            at = write_number(out, at + 1, row[column])
        if documents[i, 0] != 0:
            at = _copy(out, _copy(out, at, _DOCID), documents[i])
        out[at] = _NEWLINE
        at += 1
    return at
