"""Linear models: a weight for each feature, for any objective."""

from plackett.models.linear.convergence import Convergence
from plackett.models.linear.direct import AdaRanker, CoordinateAscentRanker
from plackett.models.linear.path import SolverRun
from plackett.models.linear.ranker import GRID, BaseLinearRanker, LinearRanker

__all__ = [
    "GRID",
    "AdaRanker",
    "BaseLinearRanker",
    "Convergence",
    "CoordinateAscentRanker",
    "LinearRanker",
    "SolverRun",
]
