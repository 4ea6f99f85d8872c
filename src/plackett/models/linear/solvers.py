"""Which solver an objective gets, from what it declares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from plackett.base.errors import UsageError
from plackett.data.dataset import Dataset
from plackett.metrics import Metric
from plackett.models.linear.adam import descend
from plackett.models.linear.cutting_plane import minimize_by_planes
from plackett.models.linear.hinge import minimize_hinge
from plackett.models.linear.lbfgs import Planes, Save, Solution, minimize
from plackett.models.linear.loss import (
    DenseLoss,
    Loss,
    RankingLoss,
    ScoreLoss,
    Weights,
    is_sparse,
    products_are_smaller,
)
from plackett.objectives import SVMMAP, Objective, RankSVM, Stochastic
from plackett.objectives.conditional.kernels import sampled_list

if TYPE_CHECKING:
    from plackett.models.linear.ranker import LinearRanker


Solver = Literal["auto", "lbfgs", "smoothed-hinge", "cutting-plane", "adam"]
SOLVERS: tuple[Solver, ...] = ("auto", "lbfgs", "smoothed-hinge", "cutting-plane", "adam")


def solver_of(loss: Objective, asked: Solver) -> Solver:
    """The solver to use; refuses one that is not right for the objective."""
    if asked not in SOLVERS:
        raise UsageError(f"there is no solver {asked!r}; there are {', '.join(SOLVERS)}.")
    right = _right(loss)
    if asked in ("auto", right):
        return right
    fits = {
        "adam": True,
        "lbfgs": loss.exact,
        "cutting-plane": loss.exact and loss.convex,
        "smoothed-hinge": right == "smoothed-hinge",
    }
    if not fits[asked]:
        raise UsageError(
            f"the solver {asked!r} cannot minimise {loss.name}; use {right!r} or 'auto'."
        )
    return asked


def _right(loss: Objective) -> Solver:
    if not loss.exact:
        return "adam"
    if isinstance(loss, RankSVM) and not loss.squared:
        return "smoothed-hinge"
    inner = loss.objective if isinstance(loss, Stochastic) else loss
    kinked = isinstance(inner, SVMMAP) or (isinstance(inner, RankSVM) and not inner.squared)
    return "cutting-plane" if kinked else "lbfgs"


def loss_of(loss: Objective, data: Dataset) -> Loss:
    """The objective as a function of the weights, in its cheapest form."""
    if isinstance(loss, Stochastic) or is_sparse(data):
        return ScoreLoss(loss, data)
    if loss.function is sampled_list and products_are_smaller(data, _samples(loss)):
        return RankingLoss(loss, data)
    return DenseLoss(loss, data)


def _samples(loss: Objective) -> int:
    return int(loss.samples)  # type: ignore[attr-defined]


@dataclass
class Problem:
    """One objective on one data set, to be solved for several penalties."""

    ranker: LinearRanker
    objective: Objective
    data: Dataset
    judge: Dataset
    """Lists that objectives without a value are judged on."""
    metrics: tuple[Metric, ...]
    asked: Solver = "auto"
    planes: Planes | None = None
    """Tangents of a convex objective, handed on along the penalties."""

    def __post_init__(self) -> None:
        self.solver = solver_of(self.objective, self.asked)
        self._loss: Loss | None = None

    @property
    def loss(self) -> Loss:
        """The objective as a function of the weights, made when first needed."""
        if self._loss is None:
            self._loss = loss_of(self.objective, self.data)
        return self._loss

    def solve(
        self, start: Weights, C: float, resume: dict[str, Any] | None, save: Save | None
    ) -> Solution:
        """The weights for one penalty, from one start."""
        ranker = self.ranker
        limit = ranker.max_iterations
        if self.solver == "smoothed-hinge":
            return minimize_hinge(self.data, start, C=C, max_iterations=limit, gap=ranker.gap)
        if self.solver == "cutting-plane":
            return minimize_by_planes(
                *(self.loss, start), C=C, max_iterations=limit, gap=ranker.gap, planes=self.planes
            )
        if self.solver == "adam":
            return self._descend(start, C, resume, save)
        return minimize(
            self.loss,
            start,
            C=C,
            max_iterations=limit,
            tolerance=ranker.tolerance,
            enough=ranker.tolerance * self.data.n_lists,
            resume=resume,
            save=save,
        )

    def _descend(
        self, start: Weights, C: float, resume: dict[str, Any] | None, save: Save | None
    ) -> Solution:
        ranker = self.ranker
        return descend(
            ScoreLoss(self.objective, self.data),
            np.array(start),
            C=C,
            max_iterations=ranker.max_iterations,
            learning_rate=ranker.learning_rate,
            patience=ranker.patience,
            judge=self.judge,
            metrics=self.metrics,
            resume=resume,
            save=save,
        )
