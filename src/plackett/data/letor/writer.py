r"""Write LETOR/SVMlight text that :func:`.read_table` reads back to the same table.

Each float32 is written as the shortest decimal that reads back as the same float32. For n = 6, 7, 8, 9 digits the
n-digit decimal nearest to the number is converted back with the reader's rounding
(:func:`~plackett.base.decimals.nearest_float32`) until it gives the number again; nine digits always suffice. No two
decimals of six digits have the same float32 (FLT_DIG in C), so a shorter decimal is the one of six digits without its
trailing zeros. Below 2**-126 this does not hold, and n starts at 1.
"""

import gzip
import lzma
import os
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numba import float32, float64, get_num_threads, int64, uint8, uint64
from numpy.typing import ArrayLike, NDArray

from plackett.base.decimals import bits_of, nearest_float32
from plackett.base.errors import DataError, UsageError
from plackett.base.files import atomic_file
from plackett.base.kernels import compiled
from plackett.base.ragged import Features, Labels

_FORBIDDEN = {"query id": re.compile(r"[\x00-\x20\x7f#]"), "document id": re.compile(r"[\x00-\x20]")}

LONGEST_NUMBER = 24
"""Largest number of bytes of a number: a sign, nine digits, zeros around them or an exponent."""

_DIGITS, _SURE_DIGITS = 9, 6
_NORMAL = float(np.finfo(np.float32).tiny)
_FIRST_POWER = -64
_POWERS = np.array([float(f"1e{e}") for e in range(_FIRST_POWER, 65)])
_WHOLE = float(1 << 24)  # whole numbers up to here are float32
_PLAIN_LEAST, _PLAIN_MOST = -5, 12  # exponents of ten between which no "e" is written
_MINUS, _POINT, _ZERO, _E = 45, 46, 48, 101
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

    Each number is the shortest decimal that reads back as the same float32. A write that fails leaves no partial file.

    Parameters
    ----------
    path
        File to write; replaced if it exists.
    features, labels, query_ids, document_ids
        One row per document; ids are integers or strings without blanks.
    sparse
        Omit zeros. Such a file does not determine the number of features, and cannot contain NaN:
        a reader that allows missing values reads omitted features as missing.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table(f"{folder}/a.txt", [[0.5, 0], [3, 1e-7]], [1, 0], [7, 7], ["d1", "d2"])
    ...     _ = print(Path(f"{folder}/a.txt").read_text(), end="")
    1 qid:7 1:0.5 2:0 #docid = d1
    0 qid:7 1:3 2:1e-7 #docid = d2
    """
    rows = _check_rows(features, labels, query_ids, document_ids, sparse)
    with atomic_file(path) as temporary, _open(temporary, Path(path).suffix.lower()) as file:
        for text in _format_rows(rows, sparse):
            file.write(text.data)


@contextmanager
def _open(path: Path, suffix: str) -> Iterator[BinaryIO]:
    with open(path, "wb") as raw:
        if suffix == ".gz":
            # No name and no time in the header: the same rows give the same bytes.
            with gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as file:
                yield file  # type: ignore[misc]
        elif suffix == ".xz":
            with lzma.open(raw, "wb") as file:
                yield file  # type: ignore[misc]
        else:
            yield raw


def _check_rows(
    features: ArrayLike, labels: ArrayLike, query_ids: ArrayLike, document_ids: ArrayLike | None, sparse: bool
) -> _Rows:
    x = np.ascontiguousarray(features, dtype=np.float32)
    y = np.ascontiguousarray(labels, dtype=np.float32)
    if x.ndim != 2 or x.shape[1] == 0 or y.shape != (len(x),) or len(x) == 0:
        raise DataError(f"features of shape {x.shape} do not match labels of shape {y.shape}")
    if np.isinf(x).any():
        row, column = (int(i[0]) for i in np.nonzero(np.isinf(x)))
        raise DataError(f"feature {column + 1} of row {row} is infinite; values must be finite")
    if not (np.isfinite(y) & (y >= 0)).all():
        row = int(np.flatnonzero(~(np.isfinite(y) & (y >= 0)))[0])
        raise DataError(f"label {y[row]} in row {row}; labels are finite numbers from 0 up")
    if sparse and np.isnan(x).any():
        raise UsageError("sparse=True cannot write NaN; write all values with sparse=False.")
    queries = ids_to_bytes(query_ids, len(x), "query id")
    none = np.zeros((len(x), 1), dtype=np.uint8)
    documents = none if document_ids is None else ids_to_bytes(document_ids, len(x), "document id")
    return _Rows(x, np.abs(y), queries, documents)


def _format_rows(rows: _Rows, sparse: bool) -> Iterator[NDArray[np.uint8]]:
    """Yield the text of the rows in order, formatted by all threads."""
    width = rows.features.shape[1]
    row_bytes = (width + 1) * (LONGEST_NUMBER + _LONGEST_INDEX) + len(_QID) + len(_DOCID)
    row_bytes += rows.queries.shape[1] + rows.documents.shape[1]
    step = max(_BUFFER_BYTES // row_bytes, 1)
    threads = get_num_threads()
    waiting: deque[Future[NDArray[np.uint8]]] = deque()

    def format_part(start: int) -> NDArray[np.uint8]:
        part = tuple(array[start : start + step] for array in rows)
        out = np.empty(row_bytes * len(part[1]), dtype=np.uint8)
        return out[: _write_rows(out, part, sparse)]

    with ThreadPoolExecutor(threads) as executor:
        for start in range(0, len(rows.labels), step):
            waiting.append(executor.submit(format_part, start))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def ids_to_bytes(ids: ArrayLike, rows: int, what: str) -> NDArray[np.uint8]:
    """One row of UTF-8 bytes per id, followed by zeros; error messages call the id ``what``."""
    names = np.asarray(ids)
    if names.shape != (rows,):
        raise DataError(f"{what}s of shape {names.shape} for {rows} rows")
    if names.dtype.kind in "iu":
        encoded = names.astype("S20")
    else:
        distinct, inverse = np.unique(names.astype(str), return_inverse=True)
        for name in distinct.tolist():
            if _FORBIDDEN[what].search(name) or (name == "" and what == "query id"):
                raise DataError(f"{what} {name!r} cannot be written: it is empty or holds a blank")
        encoded = np.char.encode(distinct, "utf-8")[inverse]
    width = max(encoded.dtype.itemsize, 1)
    return np.ascontiguousarray(encoded).view(np.uint8).reshape(rows, width)


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
    """Write rows into ``out``; returns the number of bytes."""
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


@compiled
def write_whole(out, at, value):  # type: ignore[no-untyped-def]
    """Write a non-negative integer at ``at``; returns the end."""
    size, rest = 1, value // uint64(10)
    while rest > 0:
        size, rest = size + 1, rest // uint64(10)
    for i in range(at + size - 1, at - 1, -1):
        out[i] = uint8(value % uint64(10)) + uint8(_ZERO)
        value = value // uint64(10)
    return at + size


@compiled
def shortest(number):  # type: ignore[no-untyped-def]
    """Mantissa and exponent of the shortest decimal that reads back as a positive float32."""
    top = int64(np.floor(np.log10(float64(number))))
    # Below a power of two float32 numbers are closer than above it, so the next decimal above may
    # read back where the nearest does not.
    power_of_two = bits_of(float64(number)) & uint64((1 << 52) - 1) == 0
    for count in range(_SURE_DIGITS - 1 if number >= _NORMAL else 0, _DIGITS):
        exponent = top - count
        scaled = float64(number) * _POWERS[-exponent - _FIRST_POWER]
        mantissa = uint64(np.rint(scaled))
        if power_of_two and nearest_float32(mantissa, exponent)[0] != number:
            mantissa = uint64(np.floor(scaled)) + uint64(1)
        value, known = nearest_float32(mantissa, exponent)
        if known and value == number:
            return mantissa, exponent
    return uint64(0), int64(0)


@compiled
def _write_decimal(out, at, mantissa, exponent):  # type: ignore[no-untyped-def]
    """Write m * 10**e, in plain notation or with an exponent, depending on its size."""
    while mantissa % uint64(10) == 0:
        mantissa, exponent = mantissa // uint64(10), exponent + 1
    end = write_whole(out, at, mantissa)
    top = exponent + end - at - 1
    if exponent >= 0 and top < _PLAIN_MOST:
        out[end : end + exponent] = _ZERO
        return end + exponent
    if _PLAIN_LEAST < top < 0:
        shift = 1 - top
        for i in range(end - 1, at - 1, -1):
            out[i + shift] = out[i]
        out[at : at + shift] = _ZERO
        out[at + 1] = _POINT
        return end + shift
    point = at + 1 + (top if _PLAIN_LEAST < top < _PLAIN_MOST else 0)
    if point < end:
        for i in range(end, point, -1):
            out[i] = out[i - 1]
        out[point] = _POINT
        end += 1
    if _PLAIN_LEAST < top < _PLAIN_MOST:
        return end
    out[end], out[end + 1] = _E, _MINUS  # the minus stays if the exponent is negative
    return write_whole(out, end + 1 + (top < 0), uint64(abs(top)))


@compiled
def write_number(out, at, number):  # type: ignore[no-untyped-def]
    """Write a float32 that is not infinite at ``at``; returns the end."""
    if np.isnan(number):
        out[at], out[at + 1], out[at + 2] = 110, 97, 110
        return at + 3
    if np.signbit(number):
        out[at] = _MINUS
        at += 1
        number = float32(-number)
    if number <= _WHOLE and number == np.floor(number):
        return write_whole(out, at, uint64(number))
    mantissa, exponent = shortest(number)
    return _write_decimal(out, at, mantissa, exponent)
