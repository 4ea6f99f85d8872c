"""Parameters of rankers: their types, and the names that other libraries have for them."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from plackett.base.errors import UsageError, rename_deprecated

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

ALIASES = {
    "random_state": "seed",
    "random_seed": "seed",
    "n_jobs": "threads",
    "num_threads": "threads",
    "num_thread": "threads",
    "nthread": "threads",
    "nthreads": "threads",
    "thread_count": "threads",
}
"""Aliases that every ranker accepts, and the parameters they stand for."""


class Parameterized:
    """Parameters by name, with scikit-learn's conventions; for dataclasses whose fields they are."""

    minimums: ClassVar[Mapping[str, int]] = {}
    """Minimum values of parameters, checked when the ranker is built."""
    aliases: ClassVar[Mapping[str, str]] = ALIASES
    """Names of parameters in other libraries, and the parameters of this ranker that they stand for."""
    recipe_name: str | None = None
    """The recipe that made it, if any."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - for scikit-learn
        """Parameters by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name, or by the names that other libraries have for them.

        ``objective__beta`` is a parameter of the objective, ``lightgbm__max_bin`` an entry of the
        dictionary ``lightgbm``.
        """
        nested = [name for name in parameters if name.startswith(("objective__", "lightgbm__"))]
        if nested:
            from plackett.models.recipes.search_spaces import change_nested

            self.set_params(**{k: v for k, v in parameters.items() if k not in nested})
            ranker: Any = self
            for name in nested:
                change_nested(ranker, name, parameters[name])
            return self
        known = self.get_params()
        parameters = self._translate(parameters, known)
        for name in parameters:
            if name not in known:
                raise unknown_parameter(type(self), name, known, self.aliases)
        parameters = {name: to_python(value) for name, value in parameters.items()}
        check_types(type(self), parameters)
        check_minimums(type(self), parameters)
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    @classmethod
    def _translate(
        cls,
        parameters: Mapping[str, Any],
        current: Mapping[str, Any] | None = None,  # noqa: ARG003 - for subclasses
    ) -> dict[str, Any]:
        """Convert parameters to the names of this ranker; ``current`` are its present values, if any."""
        return translate(rename_deprecated(parameters), cls.aliases)

    def clone(self) -> Self:
        """Return a ranker with the same parameters that is not fitted."""
        values = {name: dict(v) if isinstance(v, dict) else v for name, v in self.get_params().items()}
        copy = type(self)().set_params(**values)
        copy.recipe_name = self.recipe_name
        return copy

    def __sklearn_clone__(self) -> Self:
        return self.clone()


def accept_aliases(kind: type[T]) -> type[T]:
    """Let the constructor of a ranker, a dataclass, accept parameter names of other libraries."""
    ranker: Any = kind
    initialize = ranker.__init__
    known = [field.name for field in fields(ranker)]

    @wraps(initialize)
    def init(self: Any, *args: Any, **parameters: Any) -> None:
        translated = type(self)._translate(parameters)
        for name in translated:
            if name not in known and type(self) is kind:
                raise unknown_parameter(kind, name, known, ranker.aliases)
        initialize(self, *args, **translated)
        check_minimums(kind, vars(self))

    ranker.__init__ = init
    return kind


def translate(parameters: Mapping[str, Any], aliases: Mapping[str, str]) -> dict[str, Any]:
    """Convert parameters to the names of a ranker; aliases of seeds and threads keep their meaning elsewhere."""
    result: dict[str, Any] = {}
    for name, value in parameters.items():
        ours = aliases.get(name, name)
        if ours in result:
            other = next(key for key in parameters if aliases.get(key, key) == ours)
            raise UsageError(f"{other!r} and {name!r} are the same parameter; give one of them.")
        if ours != name and ours == "seed":
            if value is None:
                continue
            if isinstance(value, (np.random.RandomState, np.random.Generator)):
                draw = value.randint if isinstance(value, np.random.RandomState) else value.integers
                value = int(draw(2**31 - 1))
        elif ours != name and ours == "threads":
            value = None if value is None or value < 1 else value
        result[ours] = value
    return result


def unknown_parameter(kind: type, name: str, known: Iterable[str], also: Iterable[str] = ()) -> UsageError:
    """The error for a name that a ranker does not know; ``also`` are names to suggest only."""
    names = list(known)
    close = get_close_matches(name, [*names, *also], n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return UsageError(f"{kind.__name__} has no parameter {name!r}.{hint} It has {', '.join(names)}.")


def split_nested(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Separate parameters of a ranker from those of rankers inside it.

    As in scikit-learn, two underscores separate the inner ranker from its parameter:

    >>> split_nested({"folds": 3, "ranker__leaves": 31})
    ({'folds': 3}, {'ranker': {'leaves': 31}})
    """
    outer: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for name, value in parameters.items():
        head, separator, rest = name.partition("__")
        if separator:
            inner.setdefault(head, {})[rest] = value
        else:
            outer[name] = value
    return outer, inner


def to_python(value: Any) -> Any:
    """Convert NumPy numbers to Python numbers, as files and seeds require, and sequences to tuples."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(map(to_python, value)) if isinstance(value, list) else value


def check_types(kind: type, parameters: Mapping[str, Any]) -> None:
    """Raise UsageError for a parameter whose type differs from its annotation."""
    hints: dict[str, Any] = _hints(kind)
    for name, value in parameters.items():
        if name in hints and not _matches(value, hints[name]):
            expected = _describe_hint(hints[name])
            raise UsageError(f"{kind.__name__}'s {name} must be {expected}, got {value!r}{_remedy(name, value)}.")


def _remedy(name: str, value: Any) -> str:
    """What to pass instead of some common wrong values."""
    if isinstance(value, type):
        return f"; make an object of it: {name}={value.__name__}()"
    if name == "objective" and callable(value):
        return "; plackett.objectives.custom(function) makes an objective of a function of one list"
    if name == "ranker" and isinstance(value, str):
        return f"; a recipe is {name}=plackett.recipe({value!r})"
    if name == "lightgbm" and isinstance(value, str):
        return "; one of its entries is set with lightgbm__max_bin, on the command line with --set lightgbm.max_bin=63"
    return ""


def check_minimums(kind: Any, parameters: Mapping[str, Any]) -> None:
    """Raise UsageError for a number below the minimum that a ranker declares for it."""
    for name, least in kind.minimums.items():
        value = parameters.get(name, least)
        if isinstance(value, (int, float)) and value < least:
            raise UsageError(f"{name} must be at least {least}, got {value}.")


_hints = lru_cache(maxsize=64)(get_type_hints)


def _matches(value: Any, hint: Any) -> bool:
    if hint is Any:
        return True
    origin, options = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_matches(value, option) for option in options)
    if origin is Literal:
        return any(type(value) is type(option) and value == option for option in options)
    if origin is tuple:
        items = [option for option in options if option is not Ellipsis]
        return isinstance(value, tuple) and all(
            not items or any(_matches(item, option) for option in items) for item in value
        )
    if hint in (int, float):
        accepted = (int, float) if hint is float else int
        return isinstance(value, accepted) and not isinstance(value, bool)
    expected = origin or hint
    return isinstance(value, expected) if isinstance(expected, type) else True


def _describe_hint(hint: Any) -> str:
    """An annotation in words."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_describe_hint(option) for option in get_args(hint))
    if origin is Literal:
        return " or ".join(repr(option) for option in get_args(hint))
    words = {int: "a whole number", float: "a number", str: "a text", bool: "True or False"}
    words |= {tuple: "a tuple", dict: "a dictionary", type(None): "None"}
    expected = origin or hint
    return words.get(expected) or str(getattr(expected, "__name__", expected))
