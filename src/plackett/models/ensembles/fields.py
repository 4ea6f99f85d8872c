"""Fields of a decoded file, none of whose types can be relied on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.models.ensembles.words import integers


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
