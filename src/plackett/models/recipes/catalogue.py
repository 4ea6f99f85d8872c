"""Every recipe by name, from one explicit table per family."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from difflib import get_close_matches
from typing import Any

from plackett.base.errors import UsageError
from plackett.models.ranker import Ranker
from plackett.models.recipes.linear import LINEAR
from plackett.models.recipes.neural import NEURAL
from plackett.models.recipes.recipe import Recipe
from plackett.models.recipes.trees import TREES

RECIPES: dict[str, Recipe] = {**TREES, **NEURAL, **LINEAR}
"""Every recipe by name."""


def recipe(name: str, *, preset: str | None = None, **overrides: Any) -> Ranker:
    """Build a named system.

    Parameters
    ----------
    name
        One of :data:`RECIPES`.
    preset
        The settings of a paper's experiment, such as ``"A-web30k"``; by default settings that
        depend on nothing but the size of the data.
    overrides
        Parameters to change.

    Examples
    --------
    >>> recipe("xendcg-mart", trees=100).trees
    100
    """
    found = _find(name, RECIPES, f"recipe {name!r}")
    settings = {**found.settings}
    if preset is not None:
        settings |= _find(preset, found.presets, f"preset {preset!r} of {name!r}")
    # A copy, so that changing one ranker's settings changes no other's.
    ranker = found.kind().set_params(**{**deepcopy(settings), **overrides})
    ranker.recipe_name = name
    return ranker


def _find(name: str, table: Any, what: str) -> Any:
    if name in table:
        return table[name]
    raise UsageError(f"there is no {what}.{_hint(name, table)}")


def _hint(name: str, known: Iterable[str]) -> str:
    names = list(known)
    close = get_close_matches(name, names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{hint} There are: {', '.join(names) or 'none'}."
