"""The systems that neural_quality.py compares: recipes, their settings on each set, variants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plackett import CrossFit, Dataset, recipe
from plackett.data.folds import Fold
from plackett.models import Ranker
from plackett.models.fit_context import LEXICOGRAPHIC

METRICS = [*LEXICOGRAPHIC, "err@10"]

# What lets all systems and seeds run in an hour: ten times the recipes' learning rate, a tenth of
# the epochs; on MQ2007, with 17 times the lists, larger batches and fewer epochs still.
FAST: dict[str, Any] = {"learning_rate": 1e-3, "epochs": 100, "patience": 20}
COMMON: dict[str, dict[str, Any]] = {
    "OHSUMED": FAST,
    "MQ2007_partial": FAST | {"epochs": 15, "patience": 5, "batch_lists": 8},
}

Score = Callable[[Ranker, Fold], np.ndarray]


def plain(ranker: Ranker, fold: Fold) -> np.ndarray:
    return ranker.predict(fold.test)


@dataclass(frozen=True)
class System:
    """A recipe, what is changed in it, what chooses its weights, and how it scores."""

    recipe: str
    changes: dict[str, Any] = field(default_factory=dict)
    metric: str | tuple[str, ...] = LEXICOGRAPHIC
    score: Score = plain
    cross: int = 0
    """Members of a cross-fit; 0: one model."""
    preset: str | None = None
    """The settings that a paper printed."""

    def make(self, name: str, seed: int) -> Ranker:
        """The ranker for a set."""
        # Members of a cross-fit take the seeds that follow, so seeds are kept apart.
        first = seed * max(self.cross, 1)
        settings = self.changes if self.preset else COMMON[name] | self.changes
        ranker = recipe(self.recipe, preset=self.preset, seed=first, threads=1, **settings)
        return CrossFit(ranker, folds=self.cross, seed=seed) if self.cross else ranker


def by_levels(ranker: Ranker, fold: Fold) -> np.ndarray:
    """The first net of urBoost going down the levels by its own choice, as many as in training.

    At each level the best of the remaining documents are taken, in the share that the level has in
    the training lists; their pooled states are carried to the next step.
    """
    import torch

    shares = level_shares(fold.train)
    net = ranker.networks_[0]  # type: ignore[attr-defined]
    data = ranker._prepared(fold.test)
    scores = np.empty(data.n_docs)
    with torch.inference_mode():
        for low, high in zip(data.offsets[:-1], data.offsets[1:], strict=True):
            x = net.body(torch.tensor(np.asarray(data.features[low:high])))
            scores[low:high] = descend(net, x, shares)
    return scores


def descend(net: Any, x: Any, shares: np.ndarray) -> np.ndarray:
    import torch

    left, carried = np.arange(len(x)), None
    scores = np.empty(len(x))
    for level in range(len(shares) - 1):
        state = net.stepped(x[left], None if carried is None else carried.expand(len(left), -1))
        found = net.scored(x[left], state).double().numpy()
        order = np.argsort(-found, kind="stable")
        # Places instead of scores: whoever is taken earlier stands above all who are left.
        scores[left[order]] = -np.arange(len(left)) - len(x) * level
        count = min(max(round(shares[level] * len(x)), 1), len(left))
        top = torch.from_numpy(order[:count].copy())
        carried = net._pooled(state[top], torch.tensor([count]))
        left = left[np.sort(order[count:])]
        if len(left) == 0:
            break
    return scores


def level_shares(train: Dataset) -> np.ndarray:
    """Of the labels, the highest first, the mean over lists."""
    values = np.unique(train.labels)[::-1]
    each = [
        [np.mean(train.labels[low:high] == v) for v in values]
        for low, high in zip(train.offsets[:-1], train.offsets[1:], strict=True)
    ]
    return np.mean(each, axis=0)


_A = "ndcg@5"
SLOW = {"learning_rate": 1e-4, "epochs": 300, "patience": 300}

SYSTEMS: dict[str, System] = {
    "urank": System("urank"),
    "uboost": System("uboost"),
    "urboost": System("urboost"),
    "lambdaloss-net": System("lambdaloss-net"),
    "plistmle-net": System("plistmle-net"),
    "listmle-net": System("listmle-net"),
    "mdprank": System("mdprank"),
    "ranknet-net": System("ranknet-net"),
    "crossentropy-net": System("crossentropy-net", metric=_A),
    "e-crossentropy-net": System("e-crossentropy-net", metric=_A),
    "approxndcg-net": System("approxndcg-net", metric=_A),
    "e-approxndcg-net": System("e-approxndcg-net", metric=_A),
    "urank, ELU": System("urank", {"activation": "elu"}),
    "urank, standard scaling": System("urank", {"transforms": ("standard",)}),
    "urank, chosen by ndcg@1": System("urank", metric="ndcg@1"),
    "urank, chosen by ndcg@10": System("urank", metric="ndcg@10"),
    "urboost, one net": System("urboost", {"learners": 1}),
    "urboost, one net, level by level": System("urboost", {"learners": 1}, score=by_levels),
    "urboost, one net, mean pooling": System("urboost", {"learners": 1, "pooling": "mean"}),
    "urboost, one net, LSTM": System("urboost", {"learners": 1, "recurrent": "lstm"}),
    "urboost, one net, GRU": System("urboost", {"learners": 1, "recurrent": "gru"}),
    "urboost, one net, state alone": System("urboost", {"learners": 1, "score_from": "state"}),
    "urank, cross-fitted": System("urank", cross=5),
    "urboost, cross-fitted": System("urboost", {"learners": 1}, cross=5),
    "urank, slower": System("urank", SLOW),
    "urank, as printed": System("urank", preset="D-ohsumed"),
    "lambdaloss-net, slower": System("lambdaloss-net", SLOW),
    "uboost, slower": System("uboost", SLOW),
    "urboost, slower": System("urboost", SLOW),
    "plistmle-net, slower": System("plistmle-net", SLOW),
    "mdprank, slower": System("mdprank", SLOW),
    "listmle-net, slower": System("listmle-net", SLOW),
    "ranknet-net, slower": System("ranknet-net", SLOW),
    "urank, slower, ELU": System("urank", SLOW | {"activation": "elu"}),
    "urank, slower, attention": System("urank", SLOW | {"attention": 1, "heads": 2}),
    "urank, slower, cross-fitted": System("urank", SLOW, cross=5),
    "urank, attention": System("urank", {"attention": 1, "heads": 2}),
    "lambdaloss-net, groups of 2": System("lambdaloss-net", {"group_size": 2}),
}
"""The recipes first, then variants of the side studies."""

SIDE = tuple(name for name in SYSTEMS if "," in name)
