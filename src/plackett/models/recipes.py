"""Named systems: an objective, a kind of model and settings."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from plackett.base.errors import UsageError
from plackett.models.linear import LinearRanker
from plackett.models.ranker import Ranker
from plackett.models.trees import TreeRanker
from plackett.objectives import XENDCG, LambdaRank, Stochastic

RECIPES: dict[str, tuple[type[Ranker], dict[str, Any]]] = {
    "listnet-linear": (LinearRanker, {"objective": "listnet"}),
    "logrank-mle": (LinearRanker, {"objective": "mle"}),
    "lambdamart": (TreeRanker, {"objective": LambdaRank(sigma=2.0)}),
    "e-lambdamart": (
        TreeRanker,
        {"objective": Stochastic(LambdaRank(sigma=2.0), samples=8, beta=0.25)},
    ),
    "xendcg-mart": (TreeRanker, {"objective": "xendcg"}),
    "e-xendcg-mart": (TreeRanker, {"objective": Stochastic(XENDCG(), samples=8, beta=0.25)}),
    "listnet-mart": (TreeRanker, {"objective": "listnet"}),
    "umart": (TreeRanker, {"objective": "umart"}),
    "lightgbm-lambdarank": (TreeRanker, {"objective": "lightgbm-lambdarank"}),
    "lightgbm-xendcg": (TreeRanker, {"objective": "lightgbm-xendcg"}),
}
"""Every recipe by name: the class and the parameters that make it."""


def recipe(name: str, **overrides: Any) -> Ranker:
    """Build a named system; ``overrides`` change its parameters.

    >>> recipe("xendcg-mart", trees=100).trees
    100
    """
    if name not in RECIPES:
        close = get_close_matches(name, RECIPES, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise UsageError(f"there is no recipe {name!r}.{hint} There are: {', '.join(RECIPES)}.")
    kind, settings = RECIPES[name]
    return kind().set_params(**{**settings, **overrides})
