"""Automatic ranking: the best ensemble of candidates within a time budget."""

from plackett.models.auto.ranker import AutoRanker

__all__ = ["AutoRanker"]
