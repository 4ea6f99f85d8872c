"""Linear models: a weight for each feature, for any objective."""

from plackett.models.linear.ranker import LinearRanker

__all__ = ["LinearRanker"]
