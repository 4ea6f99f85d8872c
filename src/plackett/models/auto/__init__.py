"""Automatic ranking: the best ensemble of candidates that a budget of time allows."""

from plackett.models.auto.ranker import AutoRanker

__all__ = ["AutoRanker"]
