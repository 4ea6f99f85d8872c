"""Listwise learning to rank.

A :class:`Dataset` holds the data, an objective is a loss of one list, a ranker is a model that
minimizes an objective, and a metric measures a ranking by an explicit convention.
"""

import importlib as _importlib
import typing as _typing

from plackett._version import __version__
from plackett.base.errors import ConvergenceWarning, DataError, DataWarning, FeatureMismatch, PlackettError, UsageError

if _typing.TYPE_CHECKING:
    from plackett import objectives
    from plackett.data.clicks import read_clicks
    from plackett.data.dataset import Dataset
    from plackett.data.description import describe
    from plackett.data.folds import Fold, concat, read_folds, split
    from plackett.data.reader import read
    from plackett.data.streaming import stream
    from plackett.data.synthetic import synthetic
    from plackett.data.writer import convert, write
    from plackett.experiments.compare import compare
    from plackett.experiments.papers import reproduce
    from plackett.experiments.tuning.tune import tune
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
    from plackett.models.ensembles import import_model
    from plackett.objectives import Stochastic, objective
    from plackett.serving.export import export

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

# Modules are imported when one of their names is first used: NumPy, SciPy and Numba take a while.
_NAMES = {
    "data.clicks": "read_clicks",
    "data.dataset": "Dataset",
    "data.description": "describe",
    "data.folds": "Fold concat read_folds split",
    "data.reader": "read",
    "data.streaming": "stream",
    "data.synthetic": "synthetic",
    "data.writer": "convert write",
    "experiments": "compare tune",
    "experiments.papers": "reproduce",
    "metrics": "Metric evaluate metric per_list",
    "models": "AutoRanker BoostedNeuralRanker CrossFit LinearRanker NeuralRanker StumpRanker TreeRanker load recipe",
    "models.ensembles": "import_model",
    "objectives": "Stochastic objective",
    "serving.export": "export",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
_PACKAGES = ("base", "cli", "data", "distributed", "experiments", "metrics", "models", "serving")

if not _typing.TYPE_CHECKING:

    def __getattr__(name: str) -> _typing.Any:
        if name in _PACKAGES or name == "objectives":
            return _importlib.import_module(f"{__name__}.{name}")
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(_importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
        return value


def __dir__() -> list[str]:
    return __all__
