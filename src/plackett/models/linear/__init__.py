"""Linear models: a weight for each feature, for any objective."""

from plackett.models.linear.lbfgs import Convergence
from plackett.models.linear.path import Trial
from plackett.models.linear.ranker import GRID, LinearRanker

__all__ = ["GRID", "Convergence", "LinearRanker", "Trial"]
