"""Boosted regression trees on LightGBM, for any objective."""

from plackett.models.trees.ranker import TreeRanker

__all__ = ["TreeRanker"]
