"""Rankers: linear models and boosted trees for any objective."""

from plackett.models.linear import LinearRanker
from plackett.models.ranker import Ranker
from plackett.models.recipes import RECIPES, recipe
from plackett.models.trees import TreeRanker

__all__ = ["RECIPES", "LinearRanker", "Ranker", "TreeRanker", "recipe"]
