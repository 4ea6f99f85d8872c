"""Numbers in the text of a model file, strictly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError

# Python's own int() and float() also take underscores between digits.
_FOREIGN = "_"
_LONGEST = 400
"""Characters of the longest number: 17 digits, or all of a large float64 written out."""


def text_of(source: str | bytes | Path) -> str:
    """The text itself, decoded, or that of a file."""
    if isinstance(source, Path):
        source = source.read_bytes()
    if isinstance(source, str):
        return source
    try:
        return source.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"the model is not text in UTF-8: {error.reason}.") from error


def floats(text: str, what: str) -> NDArray[np.float64]:
    """Numbers between spaces as float64."""
    return np.array([_number(word, float, what) for word in text.split()], np.float64)


def integers(text: str, what: str, dtype: Any) -> NDArray[Any]:
    """Whole numbers between spaces, refused if ``dtype`` cannot hold them."""
    found = [_number(word, int, what) for word in text.split()]
    limits = np.iinfo(dtype)
    for number in (min(found, default=0), max(found, default=0)):
        if not limits.min <= number <= limits.max:
            raise DataError(f"{what}: {number} is not between {limits.min} and {limits.max}.")
    return np.array(found, dtype)


def _number(word: str, kind: Any, what: str) -> Any:
    try:
        if len(word) > _LONGEST or _FOREIGN in word:
            raise ValueError
        return kind(word)
    except ValueError:
        raise DataError(f"{what}: {word[:40]!r} is not a number.") from None
