"""Objectives: losses of one list with value, gradient and curvature.

Objectives can be looked up by name, and written as plain data to files that describe a model. The data
hold the name and the parameters. Reading them looks up the name in one explicit tuple of objectives
and executes nothing from the file.
"""

from dataclasses import fields
from typing import Any

from plackett.base.errors import DataError, UsageError, unknown_name
from plackett.objectives.approx import ApproxERR, ApproxMAP, ApproxMRR, ApproxNDCG, SoftRank
from plackett.objectives.conditional import (
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
from plackett.objectives.custom import Custom, custom, digest
from plackett.objectives.hinge import SVMMAP, PairHinge, RankSVM, most_violated
from plackett.objectives.lambdaloss import LambdaLoss
from plackett.objectives.lambdarank import LambdaGap, LambdaRank
from plackett.objectives.listmle import ListMLE, MDPRank, PListMLE
from plackett.objectives.objective import BoundObjective, Derivatives, Objective
from plackett.objectives.pairwise import PairSquared, RankBoost, RankNet
from plackett.objectives.pointwise import CalibratedSoftmax, Circle, Logistic, Ordinal, Squared
from plackett.objectives.relaxed import FastSoftRank, NeuralNDCG, PiRank, SoftSort
from plackett.objectives.sampled import BoltzRank, StochasticRank, YetiRank
from plackett.objectives.softmax import XENDCG, CrossEntropy, ListNet
from plackett.objectives.stochastic import Stochastic
from plackett.objectives.urank import UMart, URank

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
    "ApproxERR",
    "ApproxMAP",
    "ApproxMRR",
    "ApproxNDCG",
    "BoltzRank",
    "BoundObjective",
    "CalibratedSoftmax",
    "Circle",
    "ConvexLossAUC",
    "ConvexLossMAP",
    "ConvexLossNDCG",
    "CrossEntropy",
    "Derivatives",
    "ExpGainAUC",
    "ExpGainMAP",
    "ExpGainNDCG",
    "FastSoftRank",
    "LambdaGap",
    "LambdaLoss",
    "LambdaRank",
    "ListMLE",
    "ListNet",
    "Logistic",
    "MDPRank",
    "NeuralNDCG",
    "Objective",
    "Ordinal",
    "PListMLE",
    "PairHinge",
    "PairSquared",
    "PiRank",
    "RankBoost",
    "RankNet",
    "RankSVM",
    "SoftRank",
    "SoftSort",
    "Squared",
    "Stochastic",
    "StochasticRank",
    "UMart",
    "URank",
    "YetiRank",
    "custom",
    "most_violated",
    "objective",
]


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
    PairHinge,
    PairSquared,
    Squared,
    Logistic,
    Ordinal,
    CalibratedSoftmax,
    Circle,
    LambdaGap,
    ApproxMAP,
    ApproxERR,
    SoftSort,
    NeuralNDCG,
    PiRank,
    FastSoftRank,
    YetiRank,
    StochasticRank,
)
"""Every objective; the command line, the documentation and the tests use this tuple."""


def objective(name: str | Objective, **parameters: Any) -> Objective:
    """Build an objective from its name; an objective is returned unchanged.

    >>> objective("xendcg", order=1)
    XENDCG(order=1, epsilon=0.0, one_level='skip', seed=0)
    """
    if isinstance(name, Objective):
        if parameters:
            raise UsageError(f"{name!r} has its parameters already; got {sorted(parameters)} too.")
        return name
    known = {definition.name: definition for definition in OBJECTIVES}
    if name not in known:
        raise unknown_name("objective", name, known)
    names = [field.name for field in fields(known[name])]  # type: ignore[arg-type]
    for parameter in parameters:
        if parameter not in names:
            raise unknown_name("parameter", parameter, names, of=name)
    try:
        return known[name](**parameters)
    except TypeError as error:
        raise UsageError(f"objective {name!r}: {error}.") from error


_STOCHASTIC = "stochastic"


def objective_to_dict(loss: Objective) -> dict[str, Any]:
    """Name and parameters; for a custom objective its name and a hash of its code."""
    if isinstance(loss, Custom):
        data = {"custom": loss.name, "params": list(loss.params), "code": digest(loss.kernel)}
        return data if loss.weighting is None else data | {"weighting": loss.weighting}
    parameters = {f.name: getattr(loss, f.name) for f in fields(loss)}  # type: ignore[arg-type]
    if isinstance(loss, Stochastic):
        parameters["objective"] = objective_to_dict(loss.objective)
        return {"name": _STOCHASTIC, **parameters}
    return {"name": loss.name, **parameters}


def objective_from_dict(data: Any) -> Objective | str:
    """The objective that :func:`objective_to_dict` described.

    A custom objective becomes the string ``custom:NAME``: a model fitted with it can be used, but not
    fitted again without the function.
    """
    if not isinstance(data, dict) or not isinstance(data.get("name", ""), str):
        raise DataError(f"an objective is described by its name and parameters, got {data!r}.")
    if "custom" in data:
        return f"custom:{data['custom']}"
    parameters = {key: value for key, value in data.items() if key != "name"}
    try:
        if data.get("name") == _STOCHASTIC:
            parameters["objective"] = objective_from_dict(parameters.get("objective"))
            return Stochastic(**parameters)
        return objective(data.get("name", ""), **parameters)
    except (TypeError, ValueError, UsageError) as error:
        raise DataError(f"objective {data.get('name')!r}: {error}") from error
