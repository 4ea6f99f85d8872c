"""Recipes of linear and classical models."""

from __future__ import annotations

from plackett.models.linear import LinearRanker
from plackett.models.recipes.recipe import Recipe

LINEAR: dict[str, Recipe] = {
    "listnet-linear": Recipe(LinearRanker, {"objective": "listnet"}),
    "logrank-mle": Recipe(LinearRanker, {"objective": "mle"}),
}
