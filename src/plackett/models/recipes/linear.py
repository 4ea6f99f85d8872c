"""Recipes of linear and classical models: those of Dubey et al. (2009) and what they compare with.

All choose C among the same values on the validation lists. The conditional models and SVM-MAP see
labels as relevant (above 0) or not; RankSVM, RankBoost, ListNet and BoltzRank see all levels.
"""

from __future__ import annotations

from plackett.models.linear import GRID, LinearRanker
from plackett.models.recipes.recipe import Recipe
from plackett.models.stumps import StumpRanker

_LOGRANK = {"expgain": "expgain", "convex": "convexloss", "l3": "l3"}
_GAINS = ("auc", "map", "ndcg")


def _linear(objective: str) -> Recipe:
    return Recipe(LinearRanker, {"objective": objective, "C": GRID})


LINEAR: dict[str, Recipe] = {
    "listnet-linear": _linear("listnet"),
    "logrank-mle": _linear("mle"),
    **{
        f"logrank-{short}-{gain}": _linear(f"{name}-{gain}")
        for short, name in _LOGRANK.items()
        for gain in _GAINS
    },
    "ranksvm": _linear("ranksvm"),
    "rankboost": Recipe(StumpRanker, {}),
    "svmmap": _linear("svmmap"),
    "boltzrank": _linear("boltzrank"),
}
