"""Parameters of rankers as JSON and back, without loss.

JSON has no tuples and no objectives. A tuple becomes ``{"$tuple": [...]}``, an objective
``{"$objective": {...}}``, a ranker inside a ranker ``{"$ranker": {...}}``, a dictionary with keys
that are not strings ``{"$pairs": [[key, value], ...]}``.

A user-supplied module becomes its name and a hash of its structure and first weights,
``{"$module": {...}}``. A file never holds its code: whoever loads the model supplies the module
(:class:`ModuleSource`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plackett.base.errors import DataError, UsageError, require
from plackett.objectives import objective_from_dict, objective_to_dict
from plackett.objectives.objective import Objective

if TYPE_CHECKING:
    from plackett.models.ranker import Ranker


_MAX_DEPTH = 8
_NAMED_TENSORS = 3  # in an error message


def encode(value: Any, *, where: str = "a parameter") -> Any:
    """A parameter as data that JSON can hold."""
    from plackett.models.ranker import Ranker

    if isinstance(value, Objective):
        return {"$objective": objective_to_dict(value)}
    if isinstance(value, Ranker):
        return {"$ranker": {"kind": type(value).__name__, "settings": encode_params(value)}}
    if isinstance(value, tuple):
        return {"$tuple": [encode(item, where=where) for item in value]}
    if isinstance(value, list):
        return [encode(item, where=where) for item in value]
    if isinstance(value, dict):
        pairs = [[encode(k, where=where), encode(v, where=where)] for k, v in value.items()]
        return dict(pairs) if all(isinstance(k, str) for k in value) else {"$pairs": pairs}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise UsageError(f"{where} is {value!r}, which cannot be written to a file.")


def encode_params(ranker: Ranker) -> dict[str, Any]:
    """All parameters of a ranker."""
    where = f"{type(ranker).__name__}'s parameter"
    params = ranker.get_params()
    encoded = {k: encode(v, where=f"{where} {k!r}") for k, v in params.items() if k != "module"}
    if "module" in params:
        encoded["module"] = _encode_module(user_module(ranker))
    return encoded


def _encode_module(module: Any) -> dict[str, Any] | None:
    if module is None:
        return None
    require("torch", "safetensors")
    from plackett.models.neural.user_module import describe_module

    return {"$module": describe_module(module)}


def identity_of(ranker: Ranker) -> dict[str, Any]:
    """The parameters that determine the fitted model: not threads, if they change nothing."""
    from plackett.models.ranker import Ranker

    identity = encode_params(ranker)
    if not ranker.threads_matter:
        identity.pop("threads", None)
    for name in ranker.not_identity:
        identity.pop(name, None)
    for name, value in ranker.get_params().items():
        if isinstance(value, Ranker):
            identity[name] = {"kind": type(value).__name__, "settings": identity_of(value)}
    return identity


def decode(value: Any, make_ranker: Callable[[Any], Ranker], depth: int = 0) -> Any:
    """The inverse of :func:`encode`; ``make_ranker`` builds a ranker from kind and settings."""
    if depth > _MAX_DEPTH:
        raise DataError(f"settings are nested more than {_MAX_DEPTH} levels deep.")
    if isinstance(value, list):
        return [decode(item, make_ranker, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"$tuple"} and isinstance(value["$tuple"], list):
        return tuple(decode(item, make_ranker, depth + 1) for item in value["$tuple"])
    if set(value) == {"$pairs"} and isinstance(value["$pairs"], list):
        pairs = value["$pairs"]
        if not all(
            isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], (str, int))
            for pair in pairs
        ):
            raise DataError("a dictionary in the settings must be pairs of a key and a value.")
        return {key: decode(item, make_ranker, depth + 1) for key, item in pairs}
    if set(value) == {"$objective"}:
        return objective_from_dict(value["$objective"])
    if set(value) == {"$ranker"}:
        return make_ranker(value["$ranker"])
    return {key: decode(item, make_ranker, depth + 1) for key, item in value.items()}


def user_module(ranker: Ranker) -> Any:
    """The user-supplied module of a net; None for all other rankers."""
    from plackett.models.neural.ranker import BaseNeuralRanker

    return ranker.module if isinstance(ranker, BaseNeuralRanker) else None


def find_user_module(ranker: Ranker | None) -> Any:
    """The user-supplied module of a ranker or of a ranker inside it; None if there is none."""
    from plackett.models.ranker import Ranker

    if ranker is None:
        return None
    inner = [value for value in ranker.get_params().values() if isinstance(value, Ranker)]
    modules = [user_module(ranker), *(find_user_module(value) for value in inner)]
    return next((module for module in modules if module is not None), None)


class ModuleSource:
    """The module that the caller of ``load`` supplies, if any, for the model in a folder.

    Parameters
    ----------
    module
        A module, a function that makes one, or None.
    folder, manifest
        The model.
    """

    def __init__(self, module: Any, folder: Path, manifest: dict[str, Any]) -> None:
        self._module = module
        self._folder = folder
        self._manifest = manifest
        self._is_used = False

    def decode(self, description: Any) -> Any:
        """The module for the setting ``module`` of a net; UsageError if none was supplied."""
        if description is None:
            return None
        content = description.get("$module") if isinstance(description, dict) else None
        if not isinstance(content, dict) or not isinstance(content.get("name"), str):
            raise DataError("a user-supplied module cannot be read from a file.")
        if self._module is None:
            raise UsageError(
                f"{self._folder} holds the weights of {content['name'][:80]!r}, a user-supplied "
                f"module, but not its code{self._describe_state()}. Load it in Python with "
                f"plackett.load({str(self._folder)!r}, module=...), giving that module or the "
                "function that makes it."
            )
        self._is_used = True
        return self._module

    def check_used(self) -> None:
        """Raise UsageError for a module that the model does not need."""
        if self._module is not None and not self._is_used:
            raise UsageError(
                f"{self._folder} has no net with a user-supplied module; load it without module=."
            )

    def _describe_state(self) -> str:
        module = self._manifest.get("module")
        state = module.get("state") if isinstance(module, dict) else None
        if not isinstance(state, list) or not all(isinstance(tensor, dict) for tensor in state):
            return ""
        first = ", ".join(
            f"{str(tensor.get('name'))[:80]} ({str(tensor.get('type'))[:20]} of shape "
            f"{str(tensor.get('shape'))[:80]})"
            for tensor in state[:_NAMED_TENSORS]
        )
        return f" ({len(state)} tensors: {first}{', ...' if len(state) > _NAMED_TENSORS else ''})"
