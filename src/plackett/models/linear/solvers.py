"""The solver of a linear problem, chosen by what the objective declares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from plackett.base.errors import UsageError
from plackett.data.dataset import Dataset
from plackett.metrics import Metric
from plackett.models.linear.adam import minimize_adam
from plackett.models.linear.convergence import Planes, Solution, Weights
from plackett.models.linear.cutting_plane import minimize_by_planes
from plackett.models.linear.hinge import minimize_hinge
from plackett.models.linear.lbfgs import Save, minimize
from plackett.models.linear.loss import Loss, ScoreLoss, make_loss
from plackett.objectives import SVMMAP, Objective, RankSVM, Stochastic

if TYPE_CHECKING:
    from plackett.models.linear.ranker import LinearRanker


Solver = Literal["auto", "lbfgs", "smoothed-hinge", "cutting-plane", "adam"]
SOLVERS: tuple[Solver, ...] = get_args(Solver)


@dataclass
class Problem:
    """One objective on one dataset, to be solved for several penalties."""

    ranker: LinearRanker
    objective: Objective
    data: Dataset
    selection_data: Dataset
    """Lists on which Adam selects the best weights."""
    metrics: tuple[Metric, ...]
    requested: Solver = "auto"
    planes: Planes | None = None
    """Tangents of a convex objective; they are passed from one penalty to the next."""

    def __post_init__(self) -> None:
        self.solver = select_solver(self.objective, self.requested)
        self._loss: Loss | None = None

    @property
    def loss(self) -> Loss:
        """The objective as a function of the weights, made when first needed."""
        if self._loss is None:
            self._loss = make_loss(self.objective, self.data)
        return self._loss

    def solve(
        self, start: Weights, C: float, resume: dict[str, Any] | None, save: Save | None
    ) -> Solution:
        """The weights for one penalty, from one start."""
        ranker = self.ranker
        limits: Any = {"C": C, "max_iterations": ranker.max_iterations}
        if self.solver == "smoothed-hinge":
            return minimize_hinge(self.data, start, **limits, gap=ranker.gap)
        if self.solver == "cutting-plane":
            return minimize_by_planes(
                self.loss, start, **limits, gap=ranker.gap, planes=self.planes
            )
        if self.solver == "adam":
            return minimize_adam(
                ScoreLoss(self.objective, self.data),
                np.array(start),
                **limits,
                learning_rate=ranker.learning_rate,
                patience=ranker.patience,
                selection_data=self.selection_data,
                metrics=self.metrics,
                resume=resume,
                save=save,
            )
        return minimize(
            self.loss,
            start,
            **limits,
            tolerance=ranker.tolerance,
            value_tolerance=ranker.tolerance * self.data.n_lists,
            resume=resume,
            save=save,
        )


def select_solver(objective: Objective, requested: Solver) -> Solver:
    """The solver to use; raises UsageError if the requested one cannot minimize the objective."""
    if requested not in SOLVERS:
        raise UsageError(f"unknown solver {requested!r}; expected one of {', '.join(SOLVERS)}.")
    default = _default_solver(objective)
    if requested in ("auto", default):
        return default
    suitable = {
        "adam": True,
        "lbfgs": objective.exact,
        "cutting-plane": objective.exact and objective.convex,
        "smoothed-hinge": False,
    }
    if not suitable[requested]:
        raise UsageError(
            f"the solver {requested!r} cannot minimize {objective.name}; use {default!r} or 'auto'."
        )
    return requested


def _default_solver(objective: Objective) -> Solver:
    if not objective.exact:
        return "adam"
    if _is_hinge(objective):
        return "smoothed-hinge"
    inner = objective.objective if isinstance(objective, Stochastic) else objective
    return "cutting-plane" if isinstance(inner, SVMMAP) or _is_hinge(inner) else "lbfgs"


def _is_hinge(objective: Objective) -> bool:
    return isinstance(objective, RankSVM) and not objective.squared
