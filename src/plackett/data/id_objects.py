"""Ids that come as Python objects or text, checked: NumPy alone would merge different ones.

It makes ``[1, "1"]`` two equal strings, and drops NUL at the end of a string.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.ragged import Ids


def from_objects(column: NDArray[Any], what: str) -> NDArray[Any]:
    """Ids of an array of Python objects: all integers, all strings or all bytes of UTF-8."""
    if len(column) and all(isinstance(value, bytes) for value in column):
        column = _decoded(column, what)
    if all(isinstance(value, str) for value in column):
        for row, value in enumerate(column):
            if "\0" in value:  # at the end of a string, NumPy would drop it
                raise _bad_text(row, value, what)
        return column.astype(np.str_)
    if all(
        isinstance(value, (int, np.integer)) and not isinstance(value, bool) for value in column
    ):
        try:
            return column.astype(np.int64)
        except OverflowError as error:
            raise DataError(f"{what} must fit in 64 bits: {error}.") from error
    kinds = sorted({type(value).__name__ for value in column})
    raise DataError(f"{what} must be all integers or all strings, got {', '.join(kinds)}.")


def _decoded(column: NDArray[Any], what: str) -> NDArray[Any]:
    try:
        return np.array([value.decode("utf-8") for value in column], dtype=object)
    except UnicodeDecodeError as error:
        raise DataError(f"{what} must be text in UTF-8, got {error.object!r}.") from error


def checked_text(column: NDArray[np.str_], what: str) -> Ids:
    """Refuse what a file could not hold: NUL, and halves of surrogate pairs."""
    column = np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("="))
    if column.size and column.dtype.itemsize:
        points = column.view(np.uint32).reshape(len(column), -1)
        bad = ((points >= 0xD800) & (points <= 0xDFFF)).any(axis=1)
        bad |= ((points[:, :-1] == 0) & (points[:, 1:] != 0)).any(axis=1)
        if bad.any():
            row = int(np.argmax(bad))
            raise _bad_text(row, str(column[row]), what)
    return column


def _bad_text(row: int, value: str, what: str) -> DataError:
    return DataError(
        f"{what} must be text without NUL and lone surrogates, got {value!r} in row {row} "
        "(counted from 0)."
    )
