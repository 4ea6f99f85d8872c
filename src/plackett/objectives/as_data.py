"""Objectives as plain data and back, for files that describe a model.

A dictionary holds the name and the parameters; reading one back looks the name up in the tuple of
objectives and runs nothing from it.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from plackett.base.errors import DataError, UsageError
from plackett.objectives.custom import Custom, digest
from plackett.objectives.names import objective
from plackett.objectives.objective import Objective
from plackett.objectives.stochastic import Stochastic

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
