"""Search spaces: which settings of a recipe are worth tuning, and in which range.

Ranges contain the papers' settings and the recipes' defaults. Numbers of trees, epochs and rounds
are not among them: early stopping selects those within each fit.

Settings are named by paths: ``leaves`` is a parameter of the ranker, ``objective.sigma`` one of its
objective, and ``lightgbm.lambda_l2`` an entry of its dictionary ``lightgbm``. Two underscores refer to
a ranker inside a ranker: ``ranker__leaves``, ``ranker__objective.sigma``.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

from plackett.base.errors import UsageError, unknown_name
from plackett.models.ensembles import CatBoostRanker, XGBoostRanker
from plackett.models.linear import AdaRanker, CoordinateAscentRanker, LinearRanker
from plackett.models.neural import BoostedNeuralRanker, NeuralRanker
from plackett.models.ranker import Ranker
from plackett.models.recipes import RECIPES, recipe
from plackett.models.stumps import StumpRanker
from plackett.models.trees import TreeRanker
from plackett.models.trees.params import BUILT_IN
from plackett.objectives import Objective, Stochastic, objective as as_objective


@dataclass(frozen=True)
class Real:
    """Numbers from ``low`` to ``high``; with ``log``, uniform on a logarithmic scale."""

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
    """One of several unordered values."""

    options: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.options or len(set(map(format_value, self.options))) < len(self.options):
            raise UsageError(f"a choice needs different options, got {self.options!r}.")

    def __str__(self) -> str:
        return " | ".join(format_value(option) for option in self.options)


Dimension: TypeAlias = Real | Whole | Choice
SearchSpace: TypeAlias = Mapping[str, Dimension]
"""Dimensions by the name of the parameter; a dot refers to an entry of an objective or a dictionary."""


def format_value(value: Any) -> str:
    """A value as text; a sequence as in JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def _check_ends(low: float, high: float, log: bool) -> None:
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UsageError(f"a range must go from a number to a larger one, got {low} .. {high}.")
    if log and low <= 0:
        raise UsageError(f"a logarithmic range must start above 0, got {low} .. {high}.")


_TREES: dict[str, Dimension] = {
    "learning_rate": Real(0.01, 0.3, log=True),
    "leaves": Whole(4, 256, log=True),
    "min_documents": Whole(1, 200, log=True),
    "feature_fraction": Real(0.2, 1.0),
    "lightgbm.lambda_l2": Real(1e-3, 100.0, log=True),
}
# Not for LightGBM's built-in objectives, which do not support sampled lists, nor for RankLib's trees,
# which use all lists.
_LIST_SAMPLING: dict[str, Dimension] = {"list_fraction": Real(0.4, 1.0)}
_NETS: dict[str, Dimension] = {
    "learning_rate": Real(1e-5, 1e-2, log=True),
    "layers": Choice(((32,), (64, 32), (100, 50), (256, 128), (512, 256, 128))),
    "activation": Choice(("relu", "elu", "gelu")),
    "dropout": Real(0.0, 0.5),
    "weight_decay": Real(1e-7, 1e-2, log=True),
    "batch_lists": Choice((1, 4, 16, 64)),
}
_TRANSFORMS = Choice((("standard",), ("query-minmax",), ("quantile",)))

FAMILIES: Mapping[str, SearchSpace] = {
    "trees": _TREES | _LIST_SAMPLING,
    "nets": _NETS,
    "boosted nets": _NETS | {"learners": Whole(2, 8), "shrinkage": Real(0.1, 1.0, log=True)},
    "linear": {"C": Real(1e-7, 1e5, log=True), "transforms": _TRANSFORMS},
    "coordinate ascent": {"tolerance": Real(1e-4, 1e-2, log=True), "transforms": _TRANSFORMS},
    "adarank": {"directions": Choice(("both", "up")), "transforms": _TRANSFORMS},
    # Monotone transforms change nothing in stumps.
    "stumps": {"thresholds": Whole(4, 1023, log=True), "transforms": Choice(((), ("query-minmax",)))},
    "catboost": {
        "learning_rate": Real(0.01, 0.3, log=True),
        "settings.depth": Whole(3, 10),
        "settings.l2_leaf_reg": Real(0.1, 30.0, log=True),
        "settings.random_strength": Real(0.1, 10.0, log=True),
        "settings.bagging_temperature": Real(0.0, 2.0),
    },
    "xgboost": {
        "learning_rate": Real(0.01, 0.3, log=True),
        "settings.max_depth": Whole(3, 10),
        "settings.min_child_weight": Real(0.01, 100.0, log=True),
        "settings.reg_lambda": Real(1e-3, 100.0, log=True),
        "settings.subsample": Real(0.4, 1.0),
        "settings.colsample_bytree": Real(0.2, 1.0),
    },
}
"""The space that all recipes of a family share."""

_SAMPLER: dict[str, Dimension] = {"objective.walk": Choice(("auto", 10, 100))}
OBJECTIVES: Mapping[str, SearchSpace] = {
    "stochastic": {"objective.beta": Real(0.05, 2.0, log=True)},
    "lambdarank": {"objective.sigma": Real(0.25, 8.0, log=True)},
    "lambdaloss": {"objective.sigma": Real(0.25, 8.0, log=True)},
    "ranknet": {"objective.sigma": Real(0.25, 8.0, log=True)},
    "approxndcg": {"objective.eta": Real(1.0, 100.0, log=True)},
    "softrank": {"objective.sigma": Real(0.05, 5.0, log=True)},
    "neuralndcg": {"objective.tau": Real(0.1, 10.0, log=True)},
    "pirank": {"objective.tau": Real(0.1, 10.0, log=True)},
    "yetirank": {"objective.decay": Real(0.5, 1.0)},
    **{f"{loss}-{gain}": _SAMPLER for loss in ("expgain", "convexloss", "l2", "l3") for gain in ("map", "ndcg")},
    "umart": {"objective.sigma": Real(0.25, 8.0, log=True), "objective.window": Whole(1, 10)},
}
"""Parameters of objectives; for stochastic ones the noise replaces the steepness."""

_KINDS: tuple[tuple[type[Ranker], str], ...] = (
    (TreeRanker, "trees"),
    (BoostedNeuralRanker, "boosted nets"),
    (NeuralRanker, "nets"),
    (LinearRanker, "linear"),
    (CoordinateAscentRanker, "coordinate ascent"),
    (AdaRanker, "adarank"),
    (StumpRanker, "stumps"),
    (CatBoostRanker, "catboost"),
    (XGBoostRanker, "xgboost"),
)


def search_space(name: str, *, preset: str | None = None) -> dict[str, Dimension]:
    """The settings that ``plackett tune`` searches for a recipe.

    >>> print(search_space("lambdamart")["learning_rate"])
    0.01 .. 0.3, log
    """
    return search_space_of(recipe(name, preset=preset))


def search_space_of(ranker: Ranker) -> dict[str, Dimension]:
    """The search space for the kind and the objective of a ranker; empty for other kinds."""
    family = next((name for kind, name in _KINDS if isinstance(ranker, kind)), None)
    if family is None:
        return {}
    space = dict(FAMILIES[family])
    objective = ranker.get_params().get("objective")
    if isinstance(ranker, TreeRanker) and (objective in BUILT_IN or ranker.growth != "newton"):
        del space["list_fraction"]
    return {**space, **OBJECTIVES.get(_objective_name(objective), {})}


def family_of(name: str) -> str:
    """The family of a recipe: a key of :data:`FAMILIES`."""
    return next(family for kind, family in _KINDS if issubclass(RECIPES[name].kind, kind))


def _objective_name(objective: Any) -> str:
    if isinstance(objective, Stochastic):
        return "stochastic"
    return "" if objective is None or objective in BUILT_IN else as_objective(objective).name


def with_settings(ranker: Ranker, settings: Mapping[str, Any]) -> Ranker:
    """An unfitted copy of a ranker with some settings changed."""
    copy = ranker.clone()
    for path, value in settings.items():
        nested = _nested_ranker(copy, path)
        _, dot, _ = _split_path(path)
        if nested is not None:
            outer, inner, rest = nested
            copy.set_params(**{outer: with_settings(inner, {rest: value})})
        elif not dot:
            copy.set_params(**{path: value})
        else:
            change_nested(copy, path, value)
    return copy


def change_nested(ranker: Ranker, path: str, value: Any) -> None:
    """Change a parameter of the objective of a ranker, or an entry of a dictionary."""
    name, _, entry = _split_path(path)
    holder = _find_holder(ranker, name, entry)
    changed = holder | {entry: value} if isinstance(holder, dict) else change_objective(holder, entry, value)
    ranker.set_params(**{name: changed})


def get_setting(ranker: Ranker, path: str) -> Any:
    """The value of a setting; None for an absent entry of a dictionary."""
    nested = _nested_ranker(ranker, path)
    if nested is not None:
        return get_setting(nested[1], nested[2])
    name, dot, entry = _split_path(path)
    params = ranker.get_params()
    if name not in params:
        ranker.set_params(**{name: None})  # raises UsageError that names the parameters
    if not dot:
        return params[name]
    holder = _find_holder(ranker, name, entry)
    if isinstance(holder, dict):
        return holder.get(entry)
    while entry not in _parameters(holder):
        holder, entry = holder.objective, entry.removeprefix("objective.")
    return getattr(holder, entry)


def _split_path(path: str) -> tuple[str, str, str]:
    """``objective.beta`` and ``objective__beta`` as the parameter, a dot, and the entry."""
    head, separator, rest = path.partition("__")
    if separator and head in ("objective", "lightgbm"):
        return head, ".", rest.replace("__", ".")
    return path.partition(".")


def _parameters(objective: Objective) -> list[str]:
    return [field.name for field in fields(objective)]  # type: ignore[arg-type] # all are dataclasses


def change_objective(objective: Objective, entry: str, value: Any) -> Objective:
    """An objective with one parameter changed, of itself or of the objective inside it.

    >>> change_objective(Stochastic("lambdarank"), "sigma", 2.0).objective.sigma
    2.0
    """
    if entry in _parameters(objective):
        try:
            return replace(objective, **{entry: value})  # type: ignore[type-var]
        except TypeError as error:
            raise UsageError(f"{objective.name} cannot take {entry}={value!r} ({error}).") from error
    inner = change_objective(objective.objective, entry.removeprefix("objective."), value)  # type: ignore[attr-defined]
    return replace(objective, objective=inner)  # type: ignore[type-var]


def _nested_ranker(ranker: Ranker, path: str) -> tuple[str, Ranker, str] | None:
    """The parameter that holds an inner ranker, that ranker, and the rest of the path."""
    outer, separator, rest = path.partition("__")
    inner = ranker.get_params().get(outer)
    return (outer, inner, rest) if separator and isinstance(inner, Ranker) else None


def _find_holder(ranker: Ranker, name: str, entry: str) -> Any:
    """The objective or the dictionary that holds a setting."""
    holder = ranker.get_params().get(name)
    if name == "objective" and holder in BUILT_IN:
        raise UsageError(f"{holder} is LightGBM's; give its parameters by LightGBM's names: lightgbm.{entry}.")
    if name == "objective" and isinstance(holder, str):
        holder = as_objective(holder)
    if isinstance(holder, dict):
        return holder
    if not isinstance(holder, Objective):
        raise UsageError(
            f"{type(ranker).__name__} has no {name}.{entry}: a dot leads into an objective or a "
            "dictionary, for example objective.sigma or lightgbm.lambda_l2."
        )
    names = _parameters(holder)
    if isinstance(holder, Stochastic):
        names += [name for name in _parameters(holder.objective) if name not in names]
    if entry.removeprefix("objective.") not in names:
        raise unknown_name("parameter", entry, names, of=f"objective {holder.name}")
    return holder
