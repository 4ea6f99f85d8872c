r"""Trees split by least squares with Newton's leaf values, as in RankLib.

LightGBM chooses splits and leaf values by gradient and curvature together. RankLib's LambdaMART
fits each tree to the gradient by least squares,

.. math:: \max_{\text{split}} \frac{(\sum_L g)^2}{n_L} + \frac{(\sum_R g)^2}{n_R},

and then gives each leaf the value :math:`-\sum g / \sum h`. The first is what LightGBM does when
every curvature is 1; the leaf values are set afterwards, which LightGBM's own scores do not see:
so scores are kept here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.ragged import Scores
from plackett.data.dataset import Dataset
from plackett.distributed.peers import Peers
from plackett.models.trees.predicting import predicted
from plackett.objectives.objective import Boosting


@dataclass
class NewtonLeaves:
    """The scores of a growing model whose leaf values are Newton's steps."""

    parts: dict[str, Dataset]
    learning_rate: float
    scores: dict[str, Scores] = field(default_factory=dict)
    peers: Peers | None = None
    """Other workers, whose documents are in the same leaves."""
    _last: tuple[NDArray[Any], NDArray[Any]] | None = None

    def __post_init__(self) -> None:
        self.scores = {part: np.zeros(data.n_docs) for part, data in self.parts.items()}

    def begin(self, booster: Any) -> None:
        """Start from an existing model."""
        for part, data in self.parts.items():
            self.scores[part] = predicted(booster.predict, data.features, raw_score=True)

    def squares(self, derivatives: Boosting, step: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """What LightGBM is given: the gradient, and ones for the curvature."""
        self._last = derivatives(self.scores["train"], step)
        return self._last[0], np.ones_like(self._last[1])

    def refit(self, booster: Any, step: int) -> None:
        """Set the values of the last tree's leaves and add them to the scores."""
        assert self._last is not None
        where = {part: self._leaves(booster, part, step) for part in self.parts}
        n_leaves = self._count(booster, where, step)
        gradient, curvature = (
            np.bincount(where["train"], weights=each, minlength=n_leaves) for each in self._last
        )
        if self.peers is not None:
            gradient, curvature = self.peers.sums([gradient, curvature])
        values = np.zeros(n_leaves)
        np.divide(-gradient, curvature, out=values, where=curvature > 0)
        values *= self.learning_rate
        for leaf, value in enumerate(values):
            booster.set_leaf_output(step, leaf, value)
        for part, leaves in where.items():
            self.scores[part] += values[leaves]

    def _count(self, booster: Any, where: dict[str, NDArray[np.int64]], step: int) -> int:
        if self.peers is None:
            return 1 + max(int(leaf.max()) for leaf in where.values())
        # Documents of the last leaves may all be with other workers.
        (tree,) = booster.dump_model(num_iteration=1, start_iteration=step)["tree_info"]
        return int(tree["num_leaves"])

    def _leaves(self, booster: Any, part: str, step: int) -> NDArray[np.int64]:
        features = self.parts[part].features
        only_last = {"start_iteration": step, "num_iteration": 1}
        found = predicted(booster.predict, features, pred_leaf=True, **only_last)
        return found.astype(np.int64).reshape(-1)
