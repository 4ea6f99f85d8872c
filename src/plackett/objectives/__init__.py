"""Objectives: losses of one list with value, gradient and curvature."""

from plackett.objectives.approx import ApproxMRR, ApproxNDCG
from plackett.objectives.boltzrank import BoltzRank
from plackett.objectives.conditional.objectives import (
    CONDITIONAL,
    L2AUC,
    L2MAP,
    L2NDCG,
    L3AUC,
    L3MAP,
    L3NDCG,
    MLE,
    ConvexLossAUC,
    ConvexLossMAP,
    ConvexLossNDCG,
    ExpGainAUC,
    ExpGainMAP,
    ExpGainNDCG,
)
from plackett.objectives.custom import custom
from plackett.objectives.lambdaloss import LambdaLoss
from plackett.objectives.lambdarank import LambdaRank
from plackett.objectives.listmle import ListMLE, PListMLE
from plackett.objectives.mdprank import MDPRank
from plackett.objectives.objective import BoundObjective, Derivatives, Objective
from plackett.objectives.rankboost import RankBoost
from plackett.objectives.ranknet import RankNet
from plackett.objectives.ranksvm import RankSVM
from plackett.objectives.registry import OBJECTIVES, objective
from plackett.objectives.softmax import XENDCG, CrossEntropy, ListNet
from plackett.objectives.softrank import SoftRank
from plackett.objectives.stochastic import Stochastic
from plackett.objectives.svmmap import SVMMAP, most_violated
from plackett.objectives.umart import UMart
from plackett.objectives.urank import URank

__all__ = [
    "CONDITIONAL",
    "L2AUC",
    "L2MAP",
    "L2NDCG",
    "L3AUC",
    "L3MAP",
    "L3NDCG",
    "MLE",
    "OBJECTIVES",
    "SVMMAP",
    "XENDCG",
    "ApproxMRR",
    "ApproxNDCG",
    "BoltzRank",
    "BoundObjective",
    "ConvexLossAUC",
    "ConvexLossMAP",
    "ConvexLossNDCG",
    "CrossEntropy",
    "Derivatives",
    "ExpGainAUC",
    "ExpGainMAP",
    "ExpGainNDCG",
    "LambdaLoss",
    "LambdaRank",
    "ListMLE",
    "ListNet",
    "MDPRank",
    "Objective",
    "PListMLE",
    "RankBoost",
    "RankNet",
    "RankSVM",
    "SoftRank",
    "Stochastic",
    "UMart",
    "URank",
    "custom",
    "most_violated",
    "objective",
]
