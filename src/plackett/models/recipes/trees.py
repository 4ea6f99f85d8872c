"""Recipes of tree models, with the settings of the papers' experiments.

Bruch et al. (2020) = A, Bruch (2021) = C, Zhu & Klabjan (2020) = D. A's and C's settings differ on
the same data, so a preset names the paper and the data.
"""

from __future__ import annotations

from typing import Any

from plackett.models.recipes.recipe import Recipe
from plackett.models.trees import TreeRanker
from plackett.objectives import XENDCG, LambdaLoss, LambdaRank, Stochastic, UMart

_A = {"trees": 1000, "learning_rate": 0.05, "leaves": 400, "patience": 200}
_C = {"trees": 500, "learning_rate": 0.02, "patience": 50}
_D = {"trees": 1000, "learning_rate": 0.05, "leaves": 64, "min_documents": 5, "patience": 200}

# Numbers that TreeRanker has no word for are LightGBM's, by its names.
_BY_DATA: dict[str, dict[str, Any]] = {
    "A-web30k": _A | {"min_documents": 50, "lightgbm": {"min_sum_hessian_in_leaf": 200.0}},
    "A-yahoo": _A | {"min_documents": 100, "lightgbm": {"min_sum_hessian_in_leaf": 10.0}},
    "C-web30k": _C
    | {"leaves": 400, "min_documents": 50, "lightgbm": {"min_sum_hessian_in_leaf": 0.0}},
    "C-yahoo": _C
    | {"leaves": 200, "min_documents": 100, "lightgbm": {"min_sum_hessian_in_leaf": 0.0}},
    "D-ohsumed": _D | {"lightgbm": {"min_sum_hessian_in_leaf": 5.0, "max_bin": 10_000}},
    "D-mq2007": _D | {"lightgbm": {"min_sum_hessian_in_leaf": 5.0, "max_bin": 10_000}},
    "D-mslr": _D | {"lightgbm": {"min_sum_hessian_in_leaf": 5.0, "max_bin": 10_000}},
}


def _presets(**objectives: Any) -> dict[str, dict[str, Any]]:
    """Presets of the papers in ``objectives``, each with the objective that paper used."""
    return {
        name: _PLAIN | settings | {"objective": objectives[name[0]]}
        for name, settings in _BY_DATA.items()
        if name[0] in objectives
    }


# Without a preset: small steps, trees by the size of the data, each on a part of lists and
# features, and a choice that does not fall for a single lucky tree.
_DEFAULT: dict[str, Any] = {
    "trees": 1000,
    "learning_rate": 0.05,
    "leaves": "auto",
    "min_documents": "auto",
    "list_fraction": 0.7,
    "feature_fraction": 0.5,
    "patience": 100,
    "smoothing": 11,
}
# What the papers' experiments did without.
_PLAIN: dict[str, Any] = {"list_fraction": 1.0, "feature_fraction": 1.0, "smoothing": 1}


def _recipe(objective: Any, presets: dict[str, dict[str, Any]] | None = None) -> Recipe:
    return Recipe(TreeRanker, _DEFAULT | {"objective": objective}, presets or {})


_LAMBDA_D = LambdaRank(sigma=2.0, score_norm=True, hess_factor=2.0)

_E_LAMBDA = Stochastic(LambdaRank(sigma=2.0), samples=8, beta=0.25)
_UMART_MQ = {"D-mq2007": _PLAIN | _BY_DATA["D-mq2007"] | {"objective": UMart(window=10)}}

TREES: dict[str, Recipe] = {
    "lambdamart": _recipe(
        LambdaRank(sigma=2.0),
        _presets(A=LambdaRank(sigma=2.0), C=LambdaRank(sigma=1.0), D=_LAMBDA_D),
    ),
    "e-lambdamart": _recipe(_E_LAMBDA, _presets(A=_E_LAMBDA)),
    "e-lambdaloss-mart": _recipe(Stochastic(LambdaLoss(), samples=8, beta=1.0)),
    "xendcg-mart": _recipe("xendcg", _presets(C="xendcg")),
    "e-xendcg-mart": _recipe(Stochastic(XENDCG(), samples=8, beta=0.25)),
    "listnet-mart": _recipe("listnet", _presets(C="listnet")),
    "umart": _recipe(UMart(), _presets(D=UMart(window=2)) | _UMART_MQ),
    # Lists are sampled inside LightGBM there, if at all.
    "lightgbm-lambdarank": Recipe(
        TreeRanker, _DEFAULT | {"list_fraction": 1.0, "objective": "lightgbm-lambdarank"}
    ),
    "lightgbm-xendcg": Recipe(
        TreeRanker, _DEFAULT | {"list_fraction": 1.0, "objective": "lightgbm-xendcg"}
    ),
    # RankLib's defaults: 1000 trees of 10 leaves, shrinkage 0.1, 256 thresholds, at least one
    # document in a leaf, stop after 100 rounds; pairs with a document in the top 10, slope 1.
    "lambdamart-ranklib": Recipe(
        TreeRanker,
        {
            "objective": LambdaRank(sigma=1.0, truncation=10),
            "trees": 1000,
            "learning_rate": 0.1,
            "leaves": 10,
            "min_documents": 1,
            "patience": 100,
            "growth": "squares",
            "lightgbm": {"max_bin": 256, "min_sum_hessian_in_leaf": 0.0},
        },
    ),
}
