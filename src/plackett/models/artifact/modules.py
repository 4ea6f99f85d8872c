"""The module that whoever loads a model brings along, for nets that are not made from settings.

A file describes such a module in words and never holds its code. Without the module, the
description is what the error tells the user.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from plackett.base.errors import DataError, UsageError
from plackett.models.artifact.settings import own_module

if TYPE_CHECKING:
    from plackett.models.ranker import Ranker

_SHOWN = 3  # tensors that an error names


class OwnModule:
    """A module, or None, for the model in a folder.

    Parameters
    ----------
    given
        What the caller brought: a module, a function that makes one, or None.
    folder, manifest
        The model.
    """

    def __init__(self, given: Any, folder: Path, manifest: dict[str, Any]) -> None:
        self._given = given
        self._folder = folder
        self._manifest = manifest
        self._is_taken = False

    def taken(self, described: Any) -> Any:
        """What takes the place of the setting ``module`` of a net."""
        if described is None:
            return None
        inside = described.get("$module") if isinstance(described, dict) else None
        if not isinstance(inside, dict) or not isinstance(inside.get("name"), str):
            raise DataError("a module of one's own cannot come out of a file.")
        if self._given is None:
            raise UsageError(self._needed(inside["name"]))
        self._is_taken = True
        return self._given

    def check_taken(self) -> None:
        """Refuse a module that the model has no use for."""
        if self._given is not None and not self._is_taken:
            raise UsageError(
                f"{self._folder} has no net that is a module of your own; load it without module=."
            )

    def _needed(self, name: str) -> str:
        return (
            f"{self._folder} holds the weights of {name[:80]!r}, a module of your own, and not its "
            f"code{self._state()}. Load it in Python with plackett.load({str(self._folder)!r}, "
            "module=...), giving that module or the function that makes it."
        )

    def _state(self) -> str:
        described = self._manifest.get("module")
        state = described.get("state") if isinstance(described, dict) else None
        if not isinstance(state, list) or not all(isinstance(each, dict) for each in state):
            return ""
        first = ", ".join(
            f"{str(each.get('name'))[:80]} ({str(each.get('type'))[:20]} of shape "
            f"{str(each.get('shape'))[:80]})"
            for each in state[:_SHOWN]
        )
        return f" ({len(state)} tensors: {first}{', ...' if len(state) > _SHOWN else ''})"


def module_inside(ranker: Ranker | None) -> Any:
    """The module of the user's own in a ranker, or in a ranker inside it; None if there is none."""
    from plackett.models.ranker import Ranker

    if ranker is None:
        return None
    inner = [value for value in ranker.get_params().values() if isinstance(value, Ranker)]
    found = [own_module(ranker), *(module_inside(each) for each in inner)]
    return next((each for each in found if each is not None), None)
