"""Every kind of ranker, in one explicit tuple: files of models and tests go by it."""

from __future__ import annotations

from plackett.models.crossfit import CrossFit
from plackett.models.imported import EnsembleRanker
from plackett.models.linear import LinearRanker
from plackett.models.neural import BoostedNeuralRanker, NeuralRanker
from plackett.models.ranker import Ranker
from plackett.models.stumps import StumpRanker
from plackett.models.trees import TreeRanker

KINDS: tuple[type[Ranker], ...] = (
    LinearRanker,
    TreeRanker,
    StumpRanker,
    NeuralRanker,
    BoostedNeuralRanker,
    EnsembleRanker,
    CrossFit,
)
