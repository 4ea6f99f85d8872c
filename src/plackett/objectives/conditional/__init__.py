"""Conditional models of rankings (Dubey et al. 2009): ranking state, sampler and objectives."""

from plackett.objectives.conditional.cube import log_z
from plackett.objectives.conditional.objectives import CONDITIONAL
from plackett.objectives.conditional.rankings import (
    RankingState,
    alpha,
    bit,
    bits_of,
    flip,
    flippable,
    gain_of,
    ideal_state,
    state_of,
    worst_state,
)
from plackett.objectives.conditional.sampler import SampledRankings, sample_rankings

__all__ = [
    "CONDITIONAL",
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
