"""Numbers in the text of a model file, strictly.

Fields of a decoded file, none of whose types can be relied on.
"""

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


def at(mapping: Any, key: str, kind: Any) -> Any:
    """The entry ``key`` of a mapping, of a given type."""
    if not isinstance(mapping, dict) or not isinstance(mapping.get(key), kind):
        raise DataError(f"the model has no {key!r}, or one of the wrong type.")
    return mapping[key]


def whole(value: Any, what: str) -> int:
    """A whole number that stands in a text."""
    found = integers(value, what, np.int32) if isinstance(value, str) else np.empty(0)
    if len(found) != 1:
        raise DataError(f"{what} must be one whole number.")
    return int(found[0])


def numbers(mapping: Any, key: str, dtype: Any, *, where: str) -> NDArray[Any]:
    """The array ``key`` of a mapping, refused if ``dtype`` cannot hold its numbers."""
    found = at(mapping, key, (list, np.ndarray))
    try:
        array = np.array(found) if len(found) else np.empty(0, dtype)
    except (ValueError, OverflowError) as error:
        raise DataError(f"{where}: {key} is not a list of numbers.") from error
    wanted = np.dtype(dtype)
    kinds = "biuf" if wanted.kind == "f" else "biu"
    if array.ndim != 1 or array.dtype.kind not in kinds:
        raise DataError(f"{where}: {key} is not a list of numbers of the right kind.")
    if wanted.kind != "f" and array.dtype.kind != "b" and len(array):
        limits = np.iinfo(wanted)
        if array.min() < limits.min or array.max() > limits.max:
            raise DataError(f"{where}: {key} must be between {limits.min} and {limits.max}.")
    with np.errstate(over="ignore"):
        return array.astype(wanted)
