"""Neural rankers on PyTorch, for any objective."""

from plackett.models.neural.ranker import BoostedNeuralRanker, NeuralRanker

__all__ = ["BoostedNeuralRanker", "NeuralRanker"]
