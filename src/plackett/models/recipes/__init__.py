"""Named systems: an objective, a kind of model and settings, with the papers' presets."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from plackett.base.errors import DataError, unknown_name
from plackett.data import Dataset, describe
from plackett.models.ensembles import CatBoostRanker, XGBoostRanker
from plackett.models.linear import GRID, AdaRanker, CoordinateAscentRanker, LinearRanker
from plackett.models.neural import BoostedNeuralRanker, NeuralRanker
from plackett.models.ranker import Ranker
from plackett.models.stumps import StumpRanker
from plackett.models.trees import TreeRanker
from plackett.objectives import XENDCG, ApproxNDCG, CrossEntropy, LambdaLoss, LambdaRank, Stochastic, UMart

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Recipe:
    """A kind of ranker and its settings."""

    kind: type[Ranker]
    settings: Settings
    """Settings that differ from the defaults of the kind."""
    presets: Mapping[str, Settings] = field(default_factory=dict)
    """Settings of the papers' experiments by name; they override ``settings``."""


_LOGRANK = {"expgain": "expgain", "convex": "convexloss", "l3": "l3"}
_GAINS = ("auc", "map", "ndcg")


def _linear(objective: str) -> Recipe:
    return Recipe(LinearRanker, {"objective": objective, "C": GRID})


LINEAR: dict[str, Recipe] = {
    "listnet-linear": _linear("listnet"),
    "logrank-mle": _linear("mle"),
    **{f"logrank-{short}-{gain}": _linear(f"{name}-{gain}") for short, name in _LOGRANK.items() for gain in _GAINS},
    "ranksvm": _linear("ranksvm"),
    "rankboost": Recipe(StumpRanker, {}),
    "svmmap": _linear("svmmap"),
    "boltzrank": _linear("boltzrank"),
    "coordinate-ascent": Recipe(CoordinateAscentRanker, {}),
    "adarank": Recipe(AdaRanker, {}),
}


_NETS_OF_A: dict[str, Any] = {
    "layers": (1024, 512, 256, 128, 64, 32, 16),
    "optimizer": "adagrad",
    "learning_rate": 0.005,
    "batch_lists": 128,
    "reduction": "sum",
    "batch_norm_epsilon": 1e-3,  # TensorFlow's default
    "clip": None,
    "transforms": (),
}
_A_TUNED = _NETS_OF_A | {"layers": (1024, 512, 256), "batch_norm": 0.4, "dropout": 0.5}
_A_TUNED |= {"optimizer": "adam", "reduction": "mean"}
_A_PRESETS: dict[str, dict[str, Any]] = {
    "A-web30k": _NETS_OF_A | {"batch_norm": 0.8},
    "A-yahoo": _NETS_OF_A | {"batch_norm": 0.99},
}
_A_STOCHASTIC = _A_PRESETS | {"A-web30k-tuned": _A_TUNED, "A-yahoo-tuned": _A_TUNED}

# Without a preset: the training of paper D with its learning rate on OHSUMED, and ReLU, which its
# authors' code uses. Ten times the rate with a tenth of the epochs is as good in NDCG@10; it was
# .03 lower in NDCG@1, perhaps by chance (docs/results/neural.md).
_LISTWISE: dict[str, Any] = {
    "layers": (100, 50),
    "learning_rate": 1e-4,
    "clip": 5.0,
    "epochs": 300,
    "patience": 100,
    "batch_lists": 1,
    "transforms": ("query-minmax",),
}
# Nets that see the whole list. Two heads divide the widths of every net that a search tries.
_CONTEXT: dict[str, Any] = {
    "objective": "listnet",
    "heads": 2,
    "learning_rate": 1e-3,
    "clip": 5.0,
    "epochs": 100,
    "patience": 20,
    "batch_lists": 16,
}
_NETS_OF_D: dict[str, Any] = {
    "activation": "elu",
    "learning_rate": 1e-5,
    "clip": 5.0,
    "epochs": 1000,
    "patience": 200,
    "batch_lists": 1,
    "transforms": ("query-minmax",),
}
_D_PRESETS: dict[str, dict[str, Any]] = {
    "D-ohsumed": _NETS_OF_D | {"layers": (100, 50), "learning_rate": 1e-4},
    "D-mq2007": _NETS_OF_D | {"layers": (100, 100)},
    "D-mslr": _NETS_OF_D | {"layers": (200, 200)},
}


def _net(objective: Any, presets: Mapping[str, Settings] | None = None) -> Recipe:
    return Recipe(NeuralRanker, _LISTWISE | {"objective": objective}, presets or {})


NEURAL: dict[str, Recipe] = {
    "crossentropy-net": _net("crossentropy", _A_PRESETS),
    "e-crossentropy-net": _net(Stochastic(CrossEntropy(), samples=8, beta=1.0), _A_STOCHASTIC),
    "approxndcg-net": _net("approxndcg", _A_PRESETS),
    "e-approxndcg-net": _net(Stochastic(ApproxNDCG(), samples=8, beta=1.0), _A_STOCHASTIC),
    "ranknet-net": _net("ranknet", _D_PRESETS),
    "urank": _net("urank", _D_PRESETS),
    "uboost": Recipe(BoostedNeuralRanker, _LISTWISE | {"objective": "urank"}, _D_PRESETS),
    "urboost": Recipe(
        BoostedNeuralRanker, _LISTWISE | {"objective": "urank", "recurrent": "rnn", "pooling": "max"}, _D_PRESETS
    ),
    **{f"{name}-net": _net(name, _D_PRESETS) for name in ("listmle", "plistmle", "lambdaloss")},
    "mdprank": _net("mdprank", _D_PRESETS),
    **{f"{name}-net": _net(name) for name in ("listnet", "softrank", "neuralndcg", "pirank")},
    "dasalc": Recipe(
        NeuralRanker,
        _CONTEXT
        | {"objective": "crossentropy", "layers": (256, 128), "batch_norm": 0.9, "dropout": 0.2, "noise": 0.1}
        | {"attention": 2, "latent_cross": True, "transforms": ("log1p", "standard")},
    ),
    "setrank": Recipe(NeuralRanker, _CONTEXT | {"layers": (128,), "attention": 2, "inducing": 20}),
    "dlcm": Recipe(NeuralRanker, _CONTEXT | {"layers": (64, 32), "activation": "elu", "local_context": True}),
}


_TREES_OF_A = {"trees": 1000, "learning_rate": 0.05, "leaves": 400, "patience": 200}
_TREES_OF_C = {"trees": 500, "learning_rate": 0.02, "patience": 50}
_TREES_OF_D = {"trees": 1000, "learning_rate": 0.05, "leaves": 64, "min_documents": 5, "patience": 200}

# Settings for which TreeRanker has no parameter are passed to LightGBM by LightGBM's names.
_TREE_PRESETS: dict[str, dict[str, Any]] = {
    "A-web30k": _TREES_OF_A | {"min_documents": 50, "lightgbm": {"min_sum_hessian_in_leaf": 200.0}},
    "A-yahoo": _TREES_OF_A | {"min_documents": 100, "lightgbm": {"min_sum_hessian_in_leaf": 10.0}},
    "C-web30k": _TREES_OF_C | {"leaves": 400, "min_documents": 50, "lightgbm": {"min_sum_hessian_in_leaf": 0.0}},
    "C-yahoo": _TREES_OF_C | {"leaves": 200, "min_documents": 100, "lightgbm": {"min_sum_hessian_in_leaf": 0.0}},
    "D-ohsumed": _TREES_OF_D | {"lightgbm": {"min_sum_hessian_in_leaf": 5.0, "max_bin": 10_000}},
    "D-mq2007": _TREES_OF_D | {"lightgbm": {"min_sum_hessian_in_leaf": 5.0, "max_bin": 10_000}},
    "D-mslr": _TREES_OF_D | {"lightgbm": {"min_sum_hessian_in_leaf": 5.0, "max_bin": 10_000}},
}


def _tree_presets(**objectives: Any) -> dict[str, dict[str, Any]]:
    """The presets of the given papers, each with the objective that the paper used."""
    return {
        name: _PLAIN | settings | {"objective": objectives[name[0]]}
        for name, settings in _TREE_PRESETS.items()
        if name[0] in objectives
    }


# Without a preset: small steps, sizes of trees that depend on the data, a sample of lists and
# features for each tree, and a smoothed validation curve.
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
# The papers' experiments used no sampling and no smoothing.
_PLAIN: dict[str, Any] = {"list_fraction": 1.0, "feature_fraction": 1.0, "smoothing": 1}


def _tree_recipe(objective: Any, presets: dict[str, dict[str, Any]] | None = None) -> Recipe:
    return Recipe(TreeRanker, _DEFAULT | {"objective": objective}, presets or {})


_LAMBDA_D = LambdaRank(sigma=2.0, score_norm=True, hess_factor=2.0)

_E_LAMBDA = Stochastic(LambdaRank(sigma=2.0), samples=8, beta=0.25)
_UMART_MQ = {"D-mq2007": _PLAIN | _TREE_PRESETS["D-mq2007"] | {"objective": UMart(window=10)}}

TREES: dict[str, Recipe] = {
    "lambdamart": _tree_recipe(
        LambdaRank(sigma=2.0), _tree_presets(A=LambdaRank(sigma=2.0), C=LambdaRank(sigma=1.0), D=_LAMBDA_D)
    ),
    "e-lambdamart": _tree_recipe(_E_LAMBDA, _tree_presets(A=_E_LAMBDA)),
    "e-lambdaloss-mart": _tree_recipe(Stochastic(LambdaLoss(), samples=8, beta=1.0)),
    "xendcg-mart": _tree_recipe("xendcg", _tree_presets(C="xendcg")),
    "e-xendcg-mart": _tree_recipe(Stochastic(XENDCG(), samples=8, beta=0.25)),
    "listnet-mart": _tree_recipe("listnet", _tree_presets(C="listnet")),
    "umart": _tree_recipe(UMart(), _tree_presets(D=UMart(window=2)) | _UMART_MQ),
    "yetirank-mart": _tree_recipe("yetirank"),
    "unbiased-lambdamart": Recipe(TreeRanker, _DEFAULT | {"objective": LambdaRank(sigma=2.0), "position_bias": 1.0}),
    # LightGBM samples lists itself, if at all.
    "lightgbm-lambdarank": Recipe(TreeRanker, _DEFAULT | {"list_fraction": 1.0, "objective": "lightgbm-lambdarank"}),
    "lightgbm-xendcg": Recipe(TreeRanker, _DEFAULT | {"list_fraction": 1.0, "objective": "lightgbm-xendcg"}),
    # RankLib's defaults: 1000 trees of 10 leaves, shrinkage 0.1, 256 thresholds, at least one
    # document in a leaf, early stopping after 100 rounds; pairs with a document in the top 10.
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


PEERS: dict[str, Recipe] = {
    "catboost-yetirank": Recipe(CatBoostRanker, {}),
    "xgboost-ndcg": Recipe(XGBoostRanker, {"learning_rate": 0.1}),
}
"""Other libraries with their own losses; all other settings are their defaults."""

RECIPES: dict[str, Recipe] = {**TREES, **NEURAL, **LINEAR, **PEERS}


def recipe(name: str, *, preset: str | None = None, **overrides: Any) -> Ranker:
    """Build a named system.

    Parameters
    ----------
    name
        One of :data:`RECIPES`.
    preset
        The settings of a paper's experiment, such as ``"A-web30k"``; by default, settings that
        depend only on the size of the data.
    overrides
        Parameters to change; ``objective__sigma`` is a parameter of the objective.

    Examples
    --------
    >>> recipe("xendcg-mart", trees=100).trees
    100
    >>> recipe("e-lambdamart", objective__beta=0.5).objective.beta
    0.5
    """
    if not isinstance(name, str) or name not in RECIPES:
        raise unknown_name("recipe", name if isinstance(name, str) else repr(name), RECIPES)
    entry = RECIPES[name]
    settings = dict(entry.settings)
    if preset is not None:
        if preset not in entry.presets:
            others = ", ".join(other for other, candidate in RECIPES.items() if preset in candidate.presets)
            note = f" Recipes with that preset: {others}." if others else ""
            raise unknown_name("preset", preset, entry.presets, of=name, note=note)
        settings |= entry.presets[preset]
    # A copy, so that rankers share no objects.
    ranker = entry.kind().set_params(**deepcopy(settings)).set_params(**overrides)
    ranker.recipe_name = name
    return ranker


_FEW_LISTS = 30  # below: a linear model
_SMALL = 3000  # lists; up to this number cross-fitting is worth its time
_LONG = 1000  # documents of a long list: objectives over pairs take a million of them
_LARGE = 2_000_000  # documents
_MANY_GAINS = 8.0  # labels above: 2^y lets the top label decide alone


@dataclass(frozen=True)
class Recommendation:
    """The recipe to begin with, and the reasons."""

    recipe: str
    crossfit: int
    """Number of parts for cross-fitting; 0: a single model."""
    metric: str
    reasons: tuple[str, ...]
    cautions: tuple[str, ...]
    """Problems to fix or to know of before training."""
    compare_with: tuple[str, ...]

    def command(self, data: str) -> str:
        """The command that trains it."""
        crossfit = f" --crossfit {self.crossfit}" if self.crossfit else ""
        return f"plackett train {data} --model {self.recipe}{crossfit} --metric {self.metric} --out model.plackett"

    def to_dict(self) -> dict[str, Any]:
        """Data for JSON."""
        return asdict(self)


def recommend(dataset: Dataset) -> Recommendation:
    """Recommend a recipe to begin with.

    Parameters
    ----------
    dataset
        The data to train on. Its sizes, labels, weights and categories are read.

    Examples
    --------
    >>> import plackett as pk
    >>> advice = recommend(pk.synthetic("letor", n_lists=100))
    >>> advice.recipe, advice.crossfit
    ('e-lambdaloss-mart', 5)
    """
    facts = describe(dataset)
    useful = facts.n_lists - facts.single_label_lists
    if useful == 0:
        raise DataError("no list has documents with different labels, so there is nothing to learn from.")
    from_clicks = dataset.document_weights is not None
    binary = facts.n_levels == 2
    reasons: list[str] = []
    others: tuple[str, ...]
    crossfit = 0
    if useful < _FEW_LISTS:
        recipe, others = "listnet-linear", ("e-lambdaloss-mart",)
        reasons.append(f"{useful} lists with different labels are too few for trees; a linear model has few weights")
    elif facts.longest > _LONG or facts.n_docs > _LARGE:
        recipe, others = "xendcg-mart", ("e-lambdaloss-mart", "lightgbm-lambdarank")
        reasons.append(
            f"the longest list has {facts.longest:,} documents and the data {facts.n_docs:,}: the cost of XE-NDCG "
            "grows with the documents of a list, that of LambdaLoss with its pairs, and their quality was similar"
        )
    elif from_clicks:
        recipe, others = "xendcg-mart", ("lambdamart", "listnet-linear")
        reasons.append("labels are clicks with weights: XE-NDCG recovered most of the loss from position bias")
    else:
        recipe, others = "e-lambdaloss-mart", ("lightgbm-lambdarank", "xendcg-mart", "lambdamart")
        reasons.append("on OHSUMED and MQ2007 it was better than LightGBM and XGBoost and on par with CatBoost")
    if recipe != "listnet-linear" and useful <= _SMALL:
        crossfit = 5
        reasons.append(f"with {useful:,} lists you cannot spare any for validation; cross-fitting uses all of them")
    if dataset.categories:
        reasons.append("trees split categories by sets of values; nets and linear models take a mean label instead")
    return Recommendation(
        recipe=recipe,
        crossfit=crossfit,
        metric="mrr" if binary and _one_relevant(dataset) else "ndcg@10",
        reasons=tuple(reasons),
        cautions=tuple(_cautions(dataset, facts.single_label_lists, facts.missing_share, recipe)),
        compare_with=others,
    )


def _one_relevant(dataset: Dataset) -> bool:
    """Whether most lists have a single relevant document."""
    relevant = dataset.reduce_lists(np.add, (dataset.labels > 0).astype(np.int64))
    return bool(np.mean(relevant <= 1) > 0.5)


def _cautions(dataset: Dataset, useless: int, missing_share: float, recipe: str) -> list[str]:
    cautions = []
    if useless:
        cautions.append(f"{useless:,} of {dataset.n_lists:,} lists have one label level; training skips them")
    top = float(dataset.labels.max())
    if top > _MANY_GAINS:
        cautions.append(
            f"labels go up to {top:g}, so the gain 2^y - 1 ignores all but the highest: map them to grades 0 to 4"
        )
    if missing_share and recipe == "listnet-linear":
        cautions.append('features have missing values: --set transforms=["impute","standard"]')
    if dataset.document_weights is not None:
        cautions.append("lightgbm-lambdarank, lightgbm-xendcg and svmmap do not support the weights of clicks")
    return cautions
