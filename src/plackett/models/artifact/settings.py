"""Parameters of rankers as JSON and back, exactly.

JSON has no tuples and no objectives: a tuple becomes ``{"$tuple": [...]}``, an objective
``{"$objective": {...}}``, a ranker inside a ranker ``{"$ranker": {...}}``, a dictionary whose keys
are not all texts ``{"$pairs": [[key, value], ...]}``. A module of the user's own becomes its name
and a sum of its structure and first weights, ``{"$module": {...}}``, and does not come back from
there: whoever loads the model brings it along.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from plackett.base.errors import DataError, UsageError
from plackett.objectives.objective import Objective
from plackett.objectives.registry import objective_from_dict, objective_to_dict

if TYPE_CHECKING:
    from collections.abc import Callable

    from plackett.models.ranker import Ranker


_MAX_DEPTH = 8


def encode(value: Any, *, where: str = "a parameter") -> Any:
    """A parameter as JSON can hold it."""
    from plackett.models.ranker import Ranker

    if isinstance(value, Objective):
        return {"$objective": objective_to_dict(value)}
    if isinstance(value, Ranker):
        return {"$ranker": {"kind": type(value).__name__, "settings": encode_all(value)}}
    if isinstance(value, tuple):
        return {"$tuple": [encode(each, where=where) for each in value]}
    if isinstance(value, list):
        return [encode(each, where=where) for each in value]
    if isinstance(value, dict):
        pairs = [[encode(k, where=where), encode(v, where=where)] for k, v in value.items()]
        return dict(pairs) if all(isinstance(k, str) for k in value) else {"$pairs": pairs}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise UsageError(f"{where} is {value!r}, which cannot be written to a file.")


def encode_all(ranker: Ranker) -> dict[str, Any]:
    """All parameters of a ranker."""
    name = type(ranker).__name__
    own = own_module(ranker)
    plain = {key: value for key, value in ranker.get_params().items() if key != "module"}
    found = {k: encode(v, where=f"{name}'s parameter {k!r}") for k, v in plain.items()}
    if len(plain) < len(ranker.get_params()):
        found["module"] = None if own is None else _module(own)
    return found


def own_module(ranker: Ranker) -> Any:
    """The module of the user's own that a net is made of; None for all other rankers."""
    from plackett.models.neural.settings import NetSettings

    return ranker.module if isinstance(ranker, NetSettings) else None


def _module(own: Any) -> dict[str, Any]:
    from plackett.base.optional import need_torch

    need_torch()
    from plackett.models.neural.identity import module_entry

    return {"$module": module_entry(own)}


def identity_of(ranker: Ranker) -> dict[str, Any]:
    """The parameters that determine the fitted model: not threads, where they change nothing."""
    from plackett.models.ranker import Ranker

    found = encode_all(ranker)
    if not ranker.threads_matter:
        found.pop("threads", None)
    for name, value in ranker.get_params().items():
        if isinstance(value, Ranker):
            found[name] = {"kind": type(value).__name__, "settings": identity_of(value)}
    return found


def decode(value: Any, make: Callable[[Any], Ranker], depth: int = 0) -> Any:
    """What :func:`encode` was given; ``make`` builds a ranker out of kind and settings."""
    if depth > _MAX_DEPTH:
        raise DataError(f"settings are nested more than {_MAX_DEPTH} levels deep.")
    if isinstance(value, list):
        return [decode(each, make, depth + 1) for each in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"$tuple"} and isinstance(value["$tuple"], list):
        return tuple(decode(each, make, depth + 1) for each in value["$tuple"])
    if set(value) == {"$pairs"} and isinstance(value["$pairs"], list):
        return _pairs(value["$pairs"], make, depth)
    if set(value) == {"$objective"}:
        return objective_from_dict(value["$objective"])
    if set(value) == {"$ranker"}:
        return make(value["$ranker"])
    return {key: decode(each, make, depth + 1) for key, each in value.items()}


def _pairs(pairs: list[Any], make: Callable[[Any], Ranker], depth: int) -> dict[Any, Any]:
    if not all(isinstance(p, list) and len(p) == 2 and isinstance(p[0], (str, int)) for p in pairs):
        raise DataError("a dictionary in the settings must be pairs of a key and a value.")
    return {key: decode(each, make, depth + 1) for key, each in pairs}
