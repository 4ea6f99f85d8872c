"""Rankers: linear models, boosted trees, stumps and nets for any objective."""

from plackett.models.auto import AutoRanker
from plackett.models.crossfit import CrossFit
from plackett.models.ensembles import EnsembleRanker
from plackett.models.fit_context import FitContext, FitStep, MetricSpec, Progress, StopFit, no_progress
from plackett.models.linear import BaseLinearRanker, LinearRanker
from plackett.models.load import KINDS, load
from plackett.models.neural import BoostedNeuralRanker, NeuralRanker
from plackett.models.neural.ranker import BaseNeuralRanker
from plackett.models.ranker import Ranker
from plackett.models.recipes import RECIPES, recipe
from plackett.models.stumps import StumpRanker
from plackett.models.trees import TreeRanker

__all__ = [
    "KINDS",
    "RECIPES",
    "AutoRanker",
    "BaseLinearRanker",
    "BaseNeuralRanker",
    "BoostedNeuralRanker",
    "CrossFit",
    "EnsembleRanker",
    "FitContext",
    "FitStep",
    "LinearRanker",
    "MetricSpec",
    "NeuralRanker",
    "Progress",
    "Ranker",
    "StopFit",
    "StumpRanker",
    "TreeRanker",
    "load",
    "no_progress",
    "recipe",
]
