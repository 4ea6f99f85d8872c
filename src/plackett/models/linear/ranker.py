r"""Linear models: a weight for each feature, for any objective.

With features X, weights w and scores s = Xw the model minimises

.. math:: F(w) = \sum_q \ell_q(Xw) + \lVert w \rVert^2 / C

with the same C whatever the objective. What papers write differently: RankSVM's
:math:`\tfrac12\lVert w\rVert^2 + C' \sum \xi` has its minimum at :math:`C = 2C'`; SVM-MAP's
:math:`\tfrac12\lVert w\rVert^2 + (C'/|Q|)\sum_q \xi_q` at :math:`C = 2C'/|Q|`; a ridge
:math:`\lambda\lVert w\rVert^2` beside the mean over lists at :math:`C = 1/(\lambda |Q|)`; Dubey et
al. (2009) write C as here.

The solver follows from what the objective declares:

====================  =====================================================================
smooth                L-BFGS; the noise of random objectives is that of step 0 throughout
                      (:mod:`plackett.models.linear.lbfgs`)
hinge over pairs      smoothed, with a duality gap (:mod:`plackett.models.linear.hinge`)
SVM-MAP               cutting planes (:mod:`plackett.models.linear.cutting_plane`)
without a value       Adam, chosen by the metric (:mod:`plackett.models.linear.adam`)
====================  =====================================================================
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path as File

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.kernels import kernel_threads
from plackett.base.ragged import Scores
from plackett.data.dataset import Dataset
from plackett.models.linear.lbfgs import Convergence, warn_unless_converged
from plackett.models.linear.loss import times
from plackett.models.linear.path import Journal, Path, Trial, starts_of
from plackett.models.linear.solvers import Problem, Solver
from plackett.models.ranker import FitContext, Ranker, check_learnable
from plackett.objectives import Objective, objective
from plackett.objectives.objective import reseed

_FILE = "linear.json"

GRID = tuple(10.0**k for k in range(-7, 6))
"""The penalties that recipes choose among.

Sums over pairs need the small ones: a list with 50 relevant documents of 150 has 5,000 pairs.
"""


@dataclass
class LinearRanker(Ranker):
    """A weight for each feature.

    Parameters
    ----------
    objective
        Name or object.
    C
        Inverse strength of the penalty: the sum over lists of the value + ||w||^2 / C. With several
        values the one that is best on the validation lists is taken; without validation lists, the
        middle one.
    starts
        Where searches begin, of ``zero``, ``path``, ``mle``, ``convexloss``, ``random``; the lowest
        value wins. By default one start for convex objectives and several for others.
    solver
        ``auto``: the one that fits the objective. Or ``lbfgs``, ``smoothed-hinge``,
        ``cutting-plane``, ``adam``.
    max_iterations
        Of the solver, for each C and start.
    tolerance
        L-BFGS stops when no component of the gradient exceeds it, or when the value is about so
        close to the minimum (half the Newton decrement), both per list.
    gap
        Hinges and cutting planes stop when value and lower bound differ by this part of the value.
    learning_rate, patience
        Of Adam: length of a step, and steps without a better metric after which it stops.
    seed
        Of random starts; added to the seed of a random objective.
    threads
        Number of threads; None: all.
    transforms
        Applied to features before the product, fitted on the training data.
    """

    objective: str | Objective = "listnet"
    C: float | tuple[float, ...] = 10.0
    starts: tuple[str, ...] | None = None
    solver: Solver = "auto"
    max_iterations: int = 500
    tolerance: float = 1e-6
    gap: float = 1e-3
    learning_rate: float = 0.01
    patience: int = 50
    seed: int = 0
    threads: int | None = None
    transforms: tuple[str, ...] = ("standard",)

    def _fit(self, train: Dataset, validation: Dataset | None, run: FitContext) -> None:
        penalties = _penalties(self.C, choose=validation is not None)
        self._check_settings()
        loss = reseed(objective(self.objective), self.seed)
        check_learnable(train, loss)
        judge = train if validation is None else validation
        problem = Problem(self, loss, train, judge, run.metrics, asked=self.solver)
        starts = starts_of(loss, self.starts)
        path = Path(problem, starts, validation, run, Journal(run.checkpoint))
        with kernel_threads(self.threads):
            C, found = path.follow(penalties)
        self.coefficients_: NDArray[np.float64] = found.weights
        """One per (transformed) feature."""
        self.C_: float = C
        """The C of these coefficients."""
        self.convergence_: Convergence = found.convergence
        """How the search for them ended."""
        self.trials_: tuple[Trial, ...] = tuple(path.trials)
        """Every search: each C, each start."""
        warn_unless_converged(found.convergence, C=C)

    def coefficients_by_name(self) -> dict[str, float]:
        """The coefficient of each feature, the largest in absolute value first.

        They apply to features as the transforms leave them: after ``standard``, one unit is one
        standard deviation. Features without names are called by their number, from 1.
        """
        if self.n_features_ is None:
            raise UsageError(f"this {type(self).__name__} is not fitted yet; call fit first.")
        names = self.feature_names_ or tuple(str(j + 1) for j in range(self.n_features_))
        order = np.argsort(-np.abs(self.coefficients_), kind="stable")
        return {names[j]: float(self.coefficients_[j]) for j in order}

    def _predict(self, data: Dataset) -> Scores:
        return times(data.features, self.coefficients_)

    def _check_settings(self) -> None:
        for name in ("max_iterations", "tolerance", "gap", "learning_rate", "patience"):
            value = getattr(self, name)
            if not value > 0:
                raise UsageError(f"LinearRanker needs {name} > 0, got {value!r}.")

    def _write(self, folder: File) -> None:
        content = {
            "coefficients": self.coefficients_.tolist(),
            "C": self.C_,
            "convergence": self.convergence_.to_dict(),
        }
        (folder / _FILE).write_text(json.dumps(content), encoding="utf-8")

    def _read(self, folder: File) -> None:
        path = folder / _FILE
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            found = np.array(content["coefficients"], dtype=np.float64)
            C = float(content["C"])
            report = Convergence.from_dict(content["convergence"])
        except (OSError, ValueError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
            raise DataError(f"is no linear model: {error}", path=str(path)) from error
        if found.shape != (self.n_features_,) or not np.all(np.isfinite(found)):
            raise DataError(f"must hold {self.n_features_} finite numbers", path=str(path))
        self.coefficients_, self.C_, self.convergence_ = found, C, report
        self.trials_ = ()


def _penalties(C: float | tuple[float, ...], *, choose: bool) -> tuple[float, ...]:
    """The values to try: all of them, or the middle one where there is nothing to choose by."""
    values = tuple(C) if isinstance(C, (tuple, list)) else (C,)
    if not values or not all(math.isfinite(c) and c > 0 for c in values):
        raise UsageError(f"C must be a positive number or several of them, got {C!r}.")
    ordered = tuple(sorted(float(c) for c in values))
    return ordered if choose else (ordered[len(ordered) // 2],)
