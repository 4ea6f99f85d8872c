"""Recipes of neural models."""

from __future__ import annotations

from plackett.models.recipes.recipe import Recipe

NEURAL: dict[str, Recipe] = {}
