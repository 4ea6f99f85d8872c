"""Ids as the writer puts them into a line: bytes without blanks."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError

_FORBIDDEN = {
    "query id": re.compile(r"[\x00-\x20\x7f#]"),
    "document id": re.compile(r"[\x00-\x20]"),
}


def as_names(ids: ArrayLike, rows: int, what: str) -> NDArray[np.uint8]:
    """One row of UTF-8 bytes per id, zeros behind them."""
    names = np.asarray(ids)
    if names.shape != (rows,):
        raise DataError(f"{what}s of shape {names.shape} do not go with {rows} rows")
    plain = names.dtype.kind in "iu"
    encoded = names.astype("S20") if plain else _encode(names.astype(str), what)
    width = max(encoded.dtype.itemsize, 1)
    return np.ascontiguousarray(encoded).view(np.uint8).reshape(rows, width)


def _encode(names: NDArray[np.str_], what: str) -> NDArray[np.bytes_]:
    distinct, inverse = np.unique(names, return_inverse=True)
    for name in distinct.tolist():
        if _FORBIDDEN[what].search(name) or (name == "" and what == "query id"):
            raise DataError(f"{what} {name!r} cannot be written: it is empty or holds a blank")
    return np.char.encode(distinct, "utf-8")[inverse]
