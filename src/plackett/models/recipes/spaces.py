"""Search spaces: what is worth tuning in each family of recipes, and how far.

Ranges hold the papers' settings and the recipes' defaults well inside. Numbers of trees, epochs
and rounds are not among them: validation lists choose those within each fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plackett.models.linear import LinearRanker
from plackett.models.neural import BoostedNeuralRanker, NeuralRanker
from plackett.models.ranker import Ranker
from plackett.models.recipes.catalogue import RECIPES, recipe
from plackett.models.recipes.dimensions import Choice, Dimension, Real, Space, Whole
from plackett.models.stumps import StumpRanker
from plackett.models.trees import TreeRanker
from plackett.objectives import Objective, Stochastic
from plackett.objectives import objective as as_objective

_TREES: dict[str, Dimension] = {
    "learning_rate": Real(0.01, 0.3, log=True),
    "leaves": Whole(4, 256, log=True),
    "min_documents": Whole(1, 200, log=True),
    "feature_fraction": Real(0.2, 1.0),
    "lightgbm.lambda_l2": Real(1e-3, 100.0, log=True),
}
# LightGBM's own objectives cannot be given a part of the lists (plackett.models.trees.settings),
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
    return space_of(recipe(name, preset=preset))


def space_of(ranker: Ranker) -> dict[str, Dimension]:
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
