"""Listwise learning to rank.

A :class:`Dataset` holds the data, an objective is a loss of one list, a ranker is a model that
minimizes an objective, and a metric states its convention.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from plackett.data.clicks import read_clicks
    from plackett.experiments.compare import compare
    from plackett.experiments.papers import reproduce
    from plackett.experiments.tuning.tune import tune
    from plackett.models.ensembles import import_model
    from plackett.serving.export import export

_LAZY = {
    "compare": "plackett.experiments",
    "export": "plackett.serving.export",
    "import_model": "plackett.models.ensembles",
    "read_clicks": "plackett.data.clicks",
    "reproduce": "plackett.experiments.papers",
    "tune": "plackett.experiments",
}
"""Names that are imported when they are first used, and the packages that have them."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'plackett' has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


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
    "compare",
    "concat",
    "convert",
    "describe",
    "evaluate",
    "export",
    "import_model",
    "load",
    "metric",
    "objective",
    "objectives",
    "per_list",
    "read",
    "read_clicks",
    "read_folds",
    "recipe",
    "reproduce",
    "split",
    "stream",
    "synthetic",
    "tune",
    "write",
]
