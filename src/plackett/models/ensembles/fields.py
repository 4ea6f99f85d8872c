"""Strict parsing of numbers and fields of model files, whose types cannot be trusted."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError

_MAX_LENGTH = 400
"""Characters of the longest number: a large float64 with all its digits."""


def read_text(source: str | bytes | Path) -> str:
    """Return a text unchanged, decode bytes, and read a file."""
    if isinstance(source, Path):
        source = source.read_bytes()
    if isinstance(source, str):
        return source
    try:
        return source.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"the model is not text in UTF-8: {error.reason}.") from error


def parse_floats(text: str, what: str) -> NDArray[np.float64]:
    """Parse numbers separated by spaces."""
    return np.array([_parse(word, float, what) for word in text.split()], np.float64)


def parse_integers(text: str, what: str, dtype: Any) -> NDArray[Any]:
    """Parse whole numbers separated by spaces; raise if ``dtype`` cannot hold them."""
    values = [_parse(word, int, what) for word in text.split()]
    limits = np.iinfo(dtype)
    for number in (min(values, default=0), max(values, default=0)):
        if not limits.min <= number <= limits.max:
            raise DataError(f"{what}: {number} is not between {limits.min} and {limits.max}.")
    return np.array(values, dtype)


def _parse(word: str, kind: Any, what: str) -> Any:
    try:
        # Python also accepts underscores between digits; model files do not have them.
        if len(word) > _MAX_LENGTH or "_" in word:
            raise ValueError
        return kind(word)
    except ValueError:
        raise DataError(f"{what}: {word[:40]!r} is not a number.") from None


def get_field(mapping: Any, key: str, kind: Any) -> Any:
    """Return the entry ``key`` of a mapping; raise if it is missing or of another type."""
    if not isinstance(mapping, dict) or not isinstance(mapping.get(key), kind):
        raise DataError(f"the model has no {key!r}, or one of the wrong type.")
    return mapping[key]


def parse_integer(value: Any, what: str) -> int:
    """Parse a text that holds one whole number."""
    values = parse_integers(value, what, np.int32) if isinstance(value, str) else np.empty(0)
    if len(values) != 1:
        raise DataError(f"{what} must be one whole number.")
    return int(values[0])


def get_array(mapping: Any, key: str, dtype: Any, *, where: str) -> NDArray[Any]:
    """Return the array ``key`` of a mapping; raise if ``dtype`` cannot hold its numbers."""
    values = get_field(mapping, key, (list, np.ndarray))
    try:
        array = np.array(values) if len(values) else np.empty(0, dtype)
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
