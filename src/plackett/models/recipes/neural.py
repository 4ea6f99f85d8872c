"""Recipes of neural models, with the settings of the papers' experiments.

Bruch et al. (2020) = A, Zhu & Klabjan (2020) = D. A has two sets of experiments on the same data:
one net for all losses, and one tuned for the stochastic ones (presets that end in ``-tuned``); it
chose by ``metric="ndcg@5"``; epochs and patience of its presets are ours. D scales each list's
features, takes one list as a batch, and chose by
:data:`plackett.models.selection.LEXICOGRAPHIC`.
"""

from __future__ import annotations

from typing import Any

from plackett.models.neural import BoostedNeuralRanker, NeuralRanker
from plackett.models.recipes.recipe import Recipe
from plackett.objectives import Stochastic

_A: dict[str, Any] = {
    "layers": (1024, 512, 256, 128, 64, 32, 16),
    "optimiser": "adagrad",
    "learning_rate": 0.005,
    "batch_lists": 128,
    "reduction": "sum",
    "clip": None,
    "transforms": (),
}
_A_TUNED: dict[str, Any] = {
    "layers": (1024, 512, 256),
    "batch_norm": 0.4,
    "dropout": 0.5,
    "optimiser": "adam",
    "learning_rate": 0.005,
    "batch_lists": 128,
    "reduction": "mean",
    "clip": None,
    "transforms": (),
}
_A_PRESETS: dict[str, dict[str, Any]] = {
    "A-web30k": _A | {"batch_norm": 0.8},
    "A-yahoo": _A | {"batch_norm": 0.99},
}
_A_STOCHASTIC = _A_PRESETS | {"A-web30k-tuned": _A_TUNED, "A-yahoo-tuned": _A_TUNED}

# Without a preset: D's way of training and its learning rate on OHSUMED, with ReLU, which its
# authors' code has. Ten times the rate with a tenth of the epochs is as good at NDCG@10 and was .03
# lower at NDCG@1, perhaps by chance (docs/results/neural.md).
_LISTWISE: dict[str, Any] = {
    "layers": (100, 50),
    "learning_rate": 1e-4,
    "clip": 5.0,
    "epochs": 300,
    "patience": 100,
    "batch_lists": 1,
    "transforms": ("query-minmax",),
}
_D: dict[str, Any] = {
    "activation": "elu",
    "learning_rate": 1e-5,
    "clip": 5.0,
    "epochs": 1000,
    "patience": 200,
    "batch_lists": 1,
    "transforms": ("query-minmax",),
}
_D_PRESETS: dict[str, dict[str, Any]] = {
    "D-ohsumed": _D | {"layers": (100, 50), "learning_rate": 1e-4},
    "D-mq2007": _D | {"layers": (100, 100)},
    "D-mslr": _D | {"layers": (200, 200)},
}


def _of_a(objective: str, *, stochastic: bool) -> Recipe:
    """A recipe of Bruch et al."""
    if not stochastic:
        return Recipe(NeuralRanker, _LISTWISE | {"objective": objective}, _A_PRESETS)
    expected = Stochastic(objective, samples=8, beta=1.0)  # type: ignore[arg-type]
    return Recipe(NeuralRanker, _LISTWISE | {"objective": expected}, _A_STOCHASTIC)


def _of_d(objective: str, **settings: Any) -> Recipe:
    """A recipe of Zhu & Klabjan with one net."""
    return Recipe(NeuralRanker, _LISTWISE | {"objective": objective} | settings, _D_PRESETS)


NEURAL: dict[str, Recipe] = {
    "crossentropy-net": _of_a("crossentropy", stochastic=False),
    "e-crossentropy-net": _of_a("crossentropy", stochastic=True),
    "approxndcg-net": _of_a("approxndcg", stochastic=False),
    "e-approxndcg-net": _of_a("approxndcg", stochastic=True),
    "ranknet-net": _of_d("ranknet"),
    "urank": _of_d("urank"),
    "uboost": Recipe(BoostedNeuralRanker, _LISTWISE | {"objective": "urank"}, _D_PRESETS),
    "urboost": Recipe(
        BoostedNeuralRanker,
        _LISTWISE | {"objective": "urank", "recurrent": "rnn", "pooling": "max"},
        _D_PRESETS,
    ),
    "listmle-net": _of_d("listmle"),
    "plistmle-net": _of_d("plistmle"),
    "lambdaloss-net": _of_d("lambdaloss"),
    "mdprank": _of_d("mdprank"),
}
