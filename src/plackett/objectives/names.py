"""Objectives by name, from one explicit tuple."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from plackett.base.errors import UsageError
from plackett.objectives.approx import ApproxMRR, ApproxNDCG
from plackett.objectives.boltzrank import BoltzRank
from plackett.objectives.conditional import CONDITIONAL
from plackett.objectives.lambdaloss import LambdaLoss
from plackett.objectives.lambdarank import LambdaRank
from plackett.objectives.listmle import ListMLE, PListMLE
from plackett.objectives.mdprank import MDPRank
from plackett.objectives.objective import Objective
from plackett.objectives.rankboost import RankBoost
from plackett.objectives.ranknet import RankNet
from plackett.objectives.ranksvm import RankSVM
from plackett.objectives.softmax import XENDCG, CrossEntropy, ListNet
from plackett.objectives.softrank import SoftRank
from plackett.objectives.svmmap import SVMMAP
from plackett.objectives.umart import UMart
from plackett.objectives.urank import URank

OBJECTIVES: tuple[type[Objective], ...] = (
    CrossEntropy,
    ListNet,
    XENDCG,
    ApproxNDCG,
    ApproxMRR,
    SoftRank,
    LambdaRank,
    LambdaLoss,
    RankNet,
    ListMLE,
    PListMLE,
    MDPRank,
    URank,
    UMart,
    *CONDITIONAL,
    RankSVM,
    RankBoost,
    SVMMAP,
    BoltzRank,
)
"""Every objective; the command line, the documentation and the tests go by this tuple."""


def objective(name: str | Objective, **parameters: Any) -> Objective:
    """Build an objective from its name; an objective is returned as it is.

    >>> objective("xendcg", order=1)
    XENDCG(order=1, epsilon=0.0, seed=0)
    """
    if isinstance(name, Objective):
        if parameters:
            raise UsageError(f"{name!r} has its parameters already; got {sorted(parameters)} too.")
        return name
    known = {each.name: each for each in OBJECTIVES}
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise UsageError(f"there is no objective {name!r}.{hint} There are: {', '.join(known)}.")
    try:
        return known[name](**parameters)
    except TypeError as error:
        raise UsageError(f"objective {name!r}: {error}.") from error
