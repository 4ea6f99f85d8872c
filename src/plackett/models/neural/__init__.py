"""Neural rankers on PyTorch, for any objective."""

from plackett.models.neural.boosted import BoostedNeuralRanker
from plackett.models.neural.ranker import NeuralRanker

__all__ = ["BoostedNeuralRanker", "NeuralRanker"]
