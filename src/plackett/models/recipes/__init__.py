"""Named systems: an objective, a kind of model and settings."""

from plackett.models.recipes.catalogue import RECIPES, recipe
from plackett.models.recipes.recipe import Recipe

__all__ = ["RECIPES", "Recipe", "recipe"]
