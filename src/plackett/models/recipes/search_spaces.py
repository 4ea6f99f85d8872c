"""Search spaces: what is worth tuning in each family of recipes, and how far.

Ranges hold the papers' settings and the recipes' defaults well inside. Numbers of trees, epochs
and rounds are not among them: validation lists choose those within each fit.

What a parameter may be in a search: a range of numbers, or a choice.

Each is a frozen value whose text says what it is, for tables and for :func:`repr` in documents.

Settings by name, where a dot leads into an objective or a dictionary.

``leaves`` is a parameter of the ranker, ``objective.sigma`` one of its objective, and
``lightgbm.lambda_l2`` an entry of its dictionary ``lightgbm``. Two underscores lead into a ranker
inside a ranker: ``ranker__leaves``, ``ranker__objective.sigma``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

from plackett.base.errors import UsageError
from plackett.models.linear import LinearRanker
from plackett.models.neural import BoostedNeuralRanker, NeuralRanker
from plackett.models.ranker import Ranker
from plackett.models.recipes import RECIPES, recipe
from plackett.models.stumps import StumpRanker
from plackett.models.trees import TreeRanker
from plackett.objectives import Objective, Stochastic
from plackett.objectives import objective as as_objective


@dataclass(frozen=True)
class Real:
    """Numbers from ``low`` to ``high``; with ``log`` each power of ten is as likely as another."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        _check_ends(self.low, self.high, self.log)

    def __str__(self) -> str:
        return f"{self.low:g} .. {self.high:g}{', log' if self.log else ''}"


@dataclass(frozen=True)
class Whole:
    """Whole numbers from ``low`` to ``high``, both included."""

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        if type(self.low) is not int or type(self.high) is not int:
            raise UsageError(f"ends must be whole numbers, got {self.low!r} and {self.high!r}.")
        _check_ends(self.low, self.high, self.log)

    def __str__(self) -> str:
        return f"{self.low} .. {self.high}, whole{', log' if self.log else ''}"


@dataclass(frozen=True)
class Choice:
    """One of several values, in no order."""

    options: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.options or len(set(map(format_value, self.options))) < len(self.options):
            raise UsageError(f"a choice needs different options, got {self.options!r}.")

    def __str__(self) -> str:
        return " | ".join(format_value(option) for option in self.options)


Dimension: TypeAlias = Real | Whole | Choice
Space: TypeAlias = Mapping[str, Dimension]
"""Dimensions by the name of the parameter; a dot leads into an objective or a dictionary."""


def format_value(value: Any) -> str:
    """A value as text; a sequence as in JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def _check_ends(low: float, high: float, log: bool) -> None:
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UsageError(f"a range goes from a number to a larger one, got {low} .. {high}.")
    if log and low <= 0:
        raise UsageError(f"a logarithmic range begins above 0, got {low} .. {high}.")


_TREES: dict[str, Dimension] = {
    "learning_rate": Real(0.01, 0.3, log=True),
    "leaves": Whole(4, 256, log=True),
    "min_documents": Whole(1, 200, log=True),
    "feature_fraction": Real(0.2, 1.0),
    "lightgbm.lambda_l2": Real(1e-3, 100.0, log=True),
}
# LightGBM's own objectives cannot be given a part of the lists (plackett.models.trees.params),
# and RankLib's way of growing trees takes all.
_OWN_LISTS: dict[str, Dimension] = {"list_fraction": Real(0.4, 1.0)}
_NETS: dict[str, Dimension] = {
    "learning_rate": Real(1e-5, 1e-2, log=True),
    "layers": Choice(((32,), (64, 32), (100, 50), (256, 128), (512, 256, 128))),
    "activation": Choice(("relu", "elu", "gelu")),
    "dropout": Real(0.0, 0.5),
    "weight_decay": Real(1e-7, 1e-2, log=True),
    "batch_lists": Choice((1, 4, 16, 64)),
}
_TRANSFORMS = Choice((("standard",), ("query-minmax",), ("quantile",)))

FAMILIES: Mapping[str, Space] = {
    "trees": _TREES | _OWN_LISTS,
    "nets": _NETS,
    "boosted nets": _NETS | {"learners": Whole(2, 8), "shrinkage": Real(0.1, 1.0, log=True)},
    "linear": {"C": Real(1e-7, 1e5, log=True), "transforms": _TRANSFORMS},
    # Monotone transforms change nothing in stumps.
    "stumps": {
        "thresholds": Whole(4, 1023, log=True),
        "transforms": Choice(((), ("query-minmax",))),
    },
}
"""The space that all recipes of a family share."""

OBJECTIVES: Mapping[str, Space] = {
    "stochastic": {"objective.beta": Real(0.05, 2.0, log=True)},
    "lambdarank": {"objective.sigma": Real(0.25, 8.0, log=True)},
    "lambdaloss": {"objective.sigma": Real(0.25, 8.0, log=True)},
    "ranknet": {"objective.sigma": Real(0.25, 8.0, log=True)},
    "approxndcg": {"objective.eta": Real(1.0, 100.0, log=True)},
    "umart": {"objective.sigma": Real(0.25, 8.0, log=True), "objective.window": Whole(1, 10)},
}
"""What the objective adds; the noise of stochastic ones stands for their steepness."""

_KINDS: tuple[tuple[type[Ranker], str], ...] = (
    (TreeRanker, "trees"),
    (BoostedNeuralRanker, "boosted nets"),
    (NeuralRanker, "nets"),
    (LinearRanker, "linear"),
    (StumpRanker, "stumps"),
)


def search_space(name: str, *, preset: str | None = None) -> dict[str, Dimension]:
    """What ``plackett tune`` searches for a recipe.

    >>> print(search_space("lambdamart")["learning_rate"])
    0.01 .. 0.3, log
    """
    return search_space_of(recipe(name, preset=preset))


def search_space_of(ranker: Ranker) -> dict[str, Dimension]:
    """The search space of a ranker by its kind and objective; empty for kinds without one."""
    family = next((name for kind, name in _KINDS if isinstance(ranker, kind)), None)
    if family is None:
        return {}
    space = dict(FAMILIES[family])
    given = ranker.get_params().get("objective")
    if isinstance(ranker, TreeRanker) and (_built_in(given) or ranker.growth != "newton"):
        del space["list_fraction"]
    return {**space, **OBJECTIVES.get(_kind_of(given), {})}


def family_of(name: str) -> str:
    """The family of a recipe: a key of :data:`FAMILIES`."""
    return next(family for kind, family in _KINDS if issubclass(RECIPES[name].kind, kind))


def _built_in(objective: Any) -> bool:
    return isinstance(objective, str) and objective.startswith("lightgbm-")


def _kind_of(given: Any) -> str:
    if isinstance(given, Stochastic):
        return "stochastic"
    if isinstance(given, Objective):
        return given.name
    return "" if given is None or _built_in(given) else as_objective(given).name


def with_settings(ranker: Ranker, settings: Mapping[str, Any]) -> Ranker:
    """A ranker like this one, not fitted, with some settings changed."""
    copy = ranker.clone()
    for name, value in settings.items():
        inside = _inside(copy, name)
        if inside is not None:
            outer, ranker_inside, rest = inside
            copy.set_params(**{outer: with_settings(ranker_inside, {rest: value})})
            continue
        head, dot, rest = name.partition(".")
        copy.set_params(**{head: _changed(copy, head, rest, value) if dot else value})
    return copy


def setting(ranker: Ranker, name: str) -> Any:
    """What a setting is now; None for an entry that a dictionary has not."""
    inside = _inside(ranker, name)
    if inside is not None:
        return setting(inside[1], inside[2])
    head, dot, rest = name.partition(".")
    known = ranker.get_params()
    if head not in known:
        ranker.set_params(**{head: None})  # refuses, and names what there is
    if not dot:
        return known[head]
    inner = _inner(ranker, head, rest)
    return inner.get(rest) if isinstance(inner, dict) else getattr(inner, rest)


def _inside(ranker: Ranker, name: str) -> tuple[str, Ranker, str] | None:
    """The parameter that holds a ranker, that ranker, and its setting; None: no such name."""
    outer, sign, rest = name.partition("__")
    found = ranker.get_params().get(outer)
    return (outer, found, rest) if sign and isinstance(found, Ranker) else None


def _changed(ranker: Ranker, head: str, rest: str, value: Any) -> Any:
    inner = _inner(ranker, head, rest)
    return inner | {rest: value} if isinstance(inner, dict) else replace(inner, **{rest: value})


def _inner(ranker: Ranker, head: str, rest: str) -> Any:
    inner = ranker.get_params().get(head)
    if head == "objective" and isinstance(inner, str):
        inner = as_objective(inner)
    if isinstance(inner, dict):
        return inner
    if not isinstance(inner, Objective):
        raise UsageError(
            f"{type(ranker).__name__} has no {head}.{rest}: a dot leads into an objective or a "
            "dictionary, for example objective.sigma or lightgbm.lambda_l2."
        )
    names = [field.name for field in fields(inner)]  # type: ignore[arg-type] # all are dataclasses
    if rest not in names:
        raise UsageError(
            f"the objective {inner.name} has no parameter {rest!r}; it has {', '.join(names)}."
        )
    return inner
