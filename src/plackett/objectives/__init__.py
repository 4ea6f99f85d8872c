"""Losses of one list: value, gradient, curvature."""

from plackett.objectives.derivatives import Derivatives
from plackett.objectives.names import OBJECTIVES, objective
from plackett.objectives.objective import Objective
from plackett.objectives.softmax import XENDCG, CrossEntropy, ListNet

__all__ = [
    "OBJECTIVES",
    "XENDCG",
    "CrossEntropy",
    "Derivatives",
    "ListNet",
    "Objective",
    "objective",
]
