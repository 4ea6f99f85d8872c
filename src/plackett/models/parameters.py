"""Parameters that are what their annotations say, whether they come from a caller or a file."""

from __future__ import annotations

import types
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from plackett.base.errors import UsageError


def plain(value: Any) -> Any:
    """NumPy's numbers as Python's, which files and seeds can take, and sequences as tuples."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(map(plain, value)) if isinstance(value, list) else value


def nested(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Parameters of a ranker itself, and by name those of what is inside it.

    As in scikit-learn, two underscores lead inside:

    >>> nested({"folds": 3, "ranker__leaves": 31})
    ({'folds': 3}, {'ranker': {'leaves': 31}})
    """
    own: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for name, value in parameters.items():
        outer, sign, rest = name.partition("__")
        if sign:
            inner.setdefault(outer, {})[rest] = value
        else:
            own[name] = value
    return own, inner


def check_parameters(kind: type, parameters: dict[str, Any]) -> None:
    """Refuse a parameter of another type than its annotation names."""
    hints = _hints(kind)
    for name, value in parameters.items():
        if name in hints and not _fits(value, hints[name]):
            raise UsageError(
                f"{kind.__name__}'s {name} must be {_spoken(hints[name])}, got {value!r}."
            )


@lru_cache(maxsize=64)
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: Any, hint: Any) -> bool:
    if hint is Any:
        return True
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in get_args(hint))
    if origin is tuple:
        inner = [each for each in get_args(hint) if each is not Ellipsis]
        return isinstance(value, tuple) and all(_fits_any(each, inner) for each in value)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    expected = origin or hint
    return isinstance(value, expected) if isinstance(expected, type) else True


def _fits_any(value: Any, hints: list[Any]) -> bool:
    return not hints or any(_fits(value, hint) for hint in hints)


def _spoken(hint: Any) -> str:
    """An annotation in words."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_spoken(each) for each in get_args(hint))
    if origin is Literal:
        return " or ".join(repr(each) for each in get_args(hint))
    words = {int: "a whole number", float: "a number", str: "a text", bool: "True or False"}
    words |= {tuple: "a tuple", dict: "a dictionary", type(None): "None"}
    expected = origin or hint
    return words.get(expected) or str(getattr(expected, "__name__", expected))
