"""Rankers: linear models, boosted trees, stumps and nets for any objective."""

from plackett.models.auto import AutoRanker
from plackett.models.crossfit import CrossFit
from plackett.models.ensembles import EnsembleRanker
from plackett.models.fit_context import FitStep, StopFit
from plackett.models.linear import LinearRanker
from plackett.models.load import KINDS, load
from plackett.models.neural import BoostedNeuralRanker, NeuralRanker
from plackett.models.ranker import Ranker
from plackett.models.recipes import RECIPES, recipe
from plackett.models.stumps import StumpRanker
from plackett.models.trees import TreeRanker

__all__ = [
    "KINDS",
    "RECIPES",
    "AutoRanker",
    "BoostedNeuralRanker",
    "CrossFit",
    "EnsembleRanker",
    "FitStep",
    "LinearRanker",
    "NeuralRanker",
    "Ranker",
    "StopFit",
    "StumpRanker",
    "TreeRanker",
    "load",
    "recipe",
]
