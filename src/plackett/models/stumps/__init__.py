"""RankBoost: weighted thresholds on single features."""

from plackett.models.stumps.ranker import StumpRanker

__all__ = ["StumpRanker"]
