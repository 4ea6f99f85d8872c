"""Objectives by name, from one explicit tuple.

Objectives as plain data and back, for files that describe a model.

A dictionary holds the name and the parameters; reading one back looks the name up in the tuple of
objectives and runs nothing from it.
"""

from __future__ import annotations

from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from plackett.base.errors import DataError, UsageError
from plackett.objectives.approx import ApproxMRR, ApproxNDCG
from plackett.objectives.boltzrank import BoltzRank
from plackett.objectives.conditional import CONDITIONAL
from plackett.objectives.custom import Custom, digest
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
from plackett.objectives.stochastic import Stochastic
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


_STOCHASTIC = "stochastic"


def objective_to_dict(given: Objective) -> dict[str, Any]:
    """Name and parameters; of a user's own function the name, and a sum that tells it apart."""
    if isinstance(given, Custom):
        found = {"custom": given.name, "params": list(given.params), "code": digest(given.kernel)}
        return found if given.weighting is None else found | {"weighting": given.weighting}
    parameters = {f.name: getattr(given, f.name) for f in fields(given)}  # type: ignore[arg-type]
    if isinstance(given, Stochastic):
        parameters["objective"] = objective_to_dict(given.objective)
        return {"name": _STOCHASTIC, **parameters}
    return {"name": given.name, **parameters}


def objective_from_dict(data: Any) -> Objective | str:
    """The objective that :func:`objective_to_dict` described.

    A user's own comes back as the text ``custom:NAME``: a model made with it can be used, and to
    fit it again the function has to be given again.
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
