"""Boosted regression trees on LightGBM, for any objective.

In each iteration the trainer hands the current scores to the objective, takes gradient and
curvature back, and lets LightGBM grow a tree on them. Names that begin with ``lightgbm-`` stand for
LightGBM's own C++ objectives instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from plackett.base.types import Scores
from plackett.data.dataset import Dataset
from plackett.metrics import Metric, evaluate
from plackett.metrics import metric as as_metric
from plackett.models.ranker import Ranker
from plackett.objectives import Objective
from plackett.objectives import objective as as_objective
from plackett.objectives.boosting import Boosting

_BUILT_IN = {"lightgbm-lambdarank": "lambdarank", "lightgbm-xendcg": "rank_xendcg"}
# With these, one thread and many give the same model.
_DETERMINISTIC = {"deterministic": True, "force_col_wise": True}

Gradients = Callable[[Scores, Any], tuple[NDArray[Any], NDArray[Any]]]
"""What LightGBM calls: scores and its data set to gradient and curvature."""


@dataclass
class TreeRanker(Ranker):
    """A sum of regression trees.

    Parameters
    ----------
    objective
        Name or object; ``lightgbm-lambdarank`` and ``lightgbm-xendcg`` are LightGBM's own.
    trees
        Number of iterations at most.
    learning_rate, leaves
        Shrinkage of each tree, and its number of leaves.
    patience
        With validation data: stop after so many iterations without a better metric.
    seed
        For whatever is random.
    lightgbm
        Parameters handed to LightGBM as they are.
    transforms
        Applied to features first; trees seldom need any.
    """

    takes_missing: ClassVar[bool] = True

    objective: str | Objective = "xendcg"
    trees: int = 500
    learning_rate: float = 0.05
    leaves: int = 64
    patience: int = 50
    seed: int = 0
    lightgbm: dict[str, Any] = field(default_factory=dict)
    transforms: tuple[str, ...] = ()

    def _fit(self, train: Dataset, validation: Dataset | None, metric: str | Metric) -> None:
        from lightgbm import Booster

        booster = Booster(self._settings(), self._lightgbm_data(train))
        if validation is not None:
            booster.add_valid(self._lightgbm_data(validation, booster.train_set), "validation")
        chosen = as_metric(metric)
        self.curve_: list[float] = []
        """Metric on the validation data after each iteration."""
        best = -1
        derivatives = self._derivatives(train)
        for step in range(self.trees):
            booster.update(fobj=None if derivatives is None else _at(derivatives, step))
            if validation is None:
                continue
            self.curve_.append(_validate(booster, validation, chosen))
            best = int(np.argmax(self.curve_))
            if step - best >= self.patience:
                break
        self.model_: str = booster.model_to_string(num_iteration=best + 1 if best >= 0 else None)
        self._booster = Booster(model_str=self.model_)

    def _predict(self, data: Dataset) -> Scores:
        return np.asarray(self._booster.predict(data.features, raw_score=True), dtype=np.float64)

    def _settings(self) -> dict[str, Any]:
        name = self.objective if isinstance(self.objective, str) else ""
        return {
            "objective": _BUILT_IN.get(name, "none"),
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "seed": self.seed,
            "metric": "None",
            "verbosity": -1,
            **_DETERMINISTIC,
            **self.lightgbm,
        }

    def _derivatives(self, train: Dataset) -> Boosting | None:
        if self.objective in _BUILT_IN:
            return None
        loss = as_objective(self.objective)
        return loss.boosting(train.labels, train.offsets, train.keys, train.weights)

    def _lightgbm_data(self, data: Dataset, reference: Any = None) -> Any:
        from lightgbm import Dataset as LightGBMDataset

        weights = None
        if data.weights is not None and self.objective in _BUILT_IN:
            weights = np.repeat(data.weights, np.diff(data.offsets))
        return LightGBMDataset(
            data.features,
            data.labels,
            group=np.diff(data.offsets),
            weight=weights,
            reference=reference,
            feature_name=list(data.feature_names) if data.feature_names else "auto",
            free_raw_data=False,
        )


def _at(derivatives: Boosting, step: int) -> Gradients:
    return lambda scores, _: derivatives(scores, step)


def _validate(booster: Any, validation: Dataset, metric: Metric) -> float:
    results = booster.eval_valid(
        feval=lambda scores, _: ("metric", _mean(scores, validation, metric), True)
    )
    return float(results[0][2])


def _mean(scores: Scores, validation: Dataset, metric: Metric) -> float:
    return next(iter(evaluate(scores, validation, [metric]).values()))
