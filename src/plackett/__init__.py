"""Listwise learning to rank.

A :class:`Dataset` holds the data, an objective is a loss of one list, a ranker is a model that
minimizes an objective, and a metric states its convention.
"""

from plackett import objectives
from plackett._version import __version__
from plackett.base.errors import (
    ConvergenceWarning,
    DataError,
    DataWarning,
    FeatureMismatch,
    PlackettError,
    UsageError,
)
from plackett.data.dataset import Dataset
from plackett.data.description import describe
from plackett.data.folds import Fold, concat, read_folds, split
from plackett.data.reader import read
from plackett.data.streaming import stream
from plackett.data.synthetic import synthetic
from plackett.data.writer import convert, write
from plackett.metrics import Metric, evaluate, metric, per_list
from plackett.models import (
    AutoRanker,
    BoostedNeuralRanker,
    CrossFit,
    LinearRanker,
    NeuralRanker,
    StumpRanker,
    TreeRanker,
    load,
    recipe,
)
from plackett.objectives import Stochastic, objective

__all__ = [
    "AutoRanker",
    "BoostedNeuralRanker",
    "ConvergenceWarning",
    "CrossFit",
    "DataError",
    "DataWarning",
    "Dataset",
    "FeatureMismatch",
    "Fold",
    "LinearRanker",
    "Metric",
    "NeuralRanker",
    "PlackettError",
    "Stochastic",
    "StumpRanker",
    "TreeRanker",
    "UsageError",
    "__version__",
    "concat",
    "convert",
    "describe",
    "evaluate",
    "load",
    "metric",
    "objective",
    "objectives",
    "per_list",
    "read",
    "read_folds",
    "recipe",
    "split",
    "stream",
    "synthetic",
    "write",
]
