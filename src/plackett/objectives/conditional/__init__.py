"""Conditional models of rankings (Dubey et al. 2009): objectives, ranking state and sampler."""

from plackett.objectives.conditional.cube import log_z
from plackett.objectives.conditional.gains import gain_of
from plackett.objectives.conditional.models import (
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
from plackett.objectives.conditional.ranking_state import (
    RankingState,
    alpha,
    bit,
    bits_of,
    flip,
    flippable,
    ideal_state,
    state_of,
    worst_state,
)
from plackett.objectives.conditional.sampler import SampledRankings, sample_rankings

__all__ = [
    "CONDITIONAL",
    "L2AUC",
    "L2MAP",
    "L2NDCG",
    "L3AUC",
    "L3MAP",
    "L3NDCG",
    "MLE",
    "ConvexLossAUC",
    "ConvexLossMAP",
    "ConvexLossNDCG",
    "ExpGainAUC",
    "ExpGainMAP",
    "ExpGainNDCG",
    "RankingState",
    "SampledRankings",
    "alpha",
    "bit",
    "bits_of",
    "flip",
    "flippable",
    "gain_of",
    "ideal_state",
    "log_z",
    "sample_rankings",
    "state_of",
    "worst_state",
]
