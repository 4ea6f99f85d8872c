r"""Linear models: a weight for each feature, for any objective.

With features X, weights w and scores s = Xw the model minimizes

.. math:: F(w) = \sum_q \ell_q(Xw) + \lVert w \rVert^2 / C

with the same C for every objective. Papers write it differently: RankSVM's
:math:`\tfrac12\lVert w\rVert^2 + C' \sum \xi` has its minimum at :math:`C = 2C'`; SVM-MAP's
:math:`\tfrac12\lVert w\rVert^2 + (C'/|Q|)\sum_q \xi_q` at :math:`C = 2C'/|Q|`; the mean over lists plus a ridge
:math:`\lambda\lVert w\rVert^2` at :math:`C = 1/(\lambda |Q|)`; Dubey et al. (2009) write C as here.

The solver follows from what the objective declares:

====================  =====================================================================
smooth                L-BFGS; random objectives keep the noise of step 0
                      (:mod:`plackett.models.linear.lbfgs`)
hinge over pairs      smoothed, with a duality gap (:mod:`plackett.models.linear.solvers`)
SVM-MAP, mean hinge   cutting planes (:mod:`plackett.models.linear.cutting_plane`)
without a value       Adam; a metric selects (:mod:`plackett.models.linear.solvers`)
====================  =====================================================================
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import Offsets, Scores
from plackett.base.threads import kernel_threads
from plackett.data import Dataset
from plackett.models.fit_context import Curves, FitContext, check_learnable, read_learning_curves, write_learning_curves
from plackett.models.insight import Method, deviations
from plackett.models.linear.convergence import Convergence, warn_unless_converged
from plackett.models.linear.loss import matvec
from plackett.models.linear.path import Journal, Path, SolverRun, select_starts
from plackett.models.linear.solvers import LinearProblem, Solver
from plackett.models.parameters import accept_aliases
from plackett.models.ranker import Ranker
from plackett.objectives import Objective, objective as as_objective
from plackett.objectives.objective import reseed

_FILE = "linear.json"

GRID = tuple(10.0**k for k in range(-7, 6))
"""The values of C that recipes try.

Sums over pairs need the small ones: a list with 50 relevant documents of 150 has 5,000 pairs.
"""


class BaseLinearRanker(Ranker):
    """A weight for each feature: what all linear models share, however they find the weights."""

    row_wise: ClassVar[bool] = True

    coefficients_: NDArray[np.float64]
    """One per (transformed) feature."""
    spread_: NDArray[np.float64]
    """The standard deviation of each (transformed) feature in the training data."""

    def coefficients_by_name(self) -> dict[str, float]:
        """The coefficient of each feature, the largest in absolute value first.

        They apply to the transformed features: after ``standard``, one unit is one standard
        deviation. Features without names are called by their number, from 1.
        """
        names = self._feature_labels()
        order = np.argsort(-np.abs(self.coefficients_), kind="stable")
        return {names[j]: float(self.coefficients_[j]) for j in order}

    _importance_kinds: ClassVar[tuple[str, ...]] = ("weights",)
    _explained_by: ClassVar[Method] = "weights"

    def _importance(self, kind: str) -> NDArray[np.float64]:  # noqa: ARG002 - there is one
        return np.abs(self.coefficients_) * self.spread_

    def _contributions(self, features: Any, offsets: Offsets) -> tuple[float, NDArray[np.float64]]:
        rows = self._transform_grouped(features, offsets)
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        return 0.0, dense * self.coefficients_

    def _predict(self, data: Dataset) -> Scores:
        return matvec(data.features, self.coefficients_)

    def _report(self) -> dict[str, Any]:
        """What a saved model contains besides its coefficients, as plain data."""
        return {}

    def _read_report(self, content: dict[str, Any]) -> None:
        """Read the result of :meth:`_report`."""

    def _write(self, folder: File) -> None:
        content = {"coefficients": self.coefficients_.tolist(), **self._report(), "spread": self.spread_.tolist()}
        (folder / _FILE).write_text(json.dumps(content), encoding="utf-8")
        write_learning_curves(self.curves_, folder)

    def _read(self, folder: File) -> None:
        path = folder / _FILE
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            coefficients = np.array(content["coefficients"], dtype=np.float64)
            self._read_report(content)
            # Earlier versions did not save the deviation; after "standard" it is 1.
            spread = np.array(content.get("spread", np.ones(len(coefficients))), dtype=np.float64)
        except (OSError, ValueError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
            raise DataError(f"is not a linear model: {error}", path=str(path)) from error
        for numbers in (coefficients, spread):
            if numbers.shape != (self.n_features_,) or not np.all(np.isfinite(numbers)):
                raise DataError(f"must hold {self.n_features_} finite numbers", path=str(path))
        self.coefficients_, self.spread_ = coefficients, spread
        self.curves_ = read_learning_curves(folder)


@accept_aliases
@dataclass(eq=False)
class LinearRanker(BaseLinearRanker):
    """A weight for each feature.

    Parameters
    ----------
    objective
        Name or object.
    C
        Inverse strength of the penalty: the model minimizes the sum over lists of the value plus
        ||w||^2 / C. Of several values, the best on the validation lists is used; without
        validation lists, the middle one.
    starts
        Where the solver starts: any of ``zero``, ``path``, ``mle``, ``convexloss``, ``random``. The run with the lowest
        value wins. By default one start for convex objectives and several for others.
    solver
        ``auto`` selects by the objective. Or ``lbfgs``, ``smoothed-hinge``, ``cutting-plane``, ``adam``.
    max_iterations
        Maximum number of iterations for each C and start.
    tolerance
        L-BFGS stops when no component of the gradient exceeds it, or when the value is about this
        close to the minimum (half the Newton decrement), both per list.
    gap
        The hinge and cutting-plane solvers stop when value and lower bound differ by at most this part of the value.
    learning_rate, patience
        For Adam: length of a step, and steps without a better metric after which it stops.
    seed
        Seed of random starts; added to the seed of a random objective.
    threads
        Number of threads; None: all.
    transforms
        Applied to the features first; fitted on the training data.

    Examples
    --------
    >>> import plackett as pk
    >>> ranker = pk.LinearRanker("listnet", C=1.0).fit(pk.synthetic("letor", n_lists=20))
    >>> ranker.coefficients_.shape
    (46,)
    """

    curves_by_step: ClassVar[bool] = False

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

    def _fit(self, train: Dataset, validation: Dataset | None, context: FitContext) -> None:
        penalties = _penalties(self.C, choose=validation is not None)
        self._check_settings()
        loss = reseed(as_objective(self.objective), self.seed)
        check_learnable(train, loss)
        selection_data = train if validation is None else validation
        problem = LinearProblem(self, loss, train, selection_data, context.metrics, self.solver)
        starts = select_starts(loss, self.starts)
        init = context.init
        weights = init.coefficients_ if isinstance(init, LinearRanker) else None
        if weights is not None and "path" not in starts:
            starts = ("path", *starts)
        journal = Journal(context.checkpoint)
        path = Path(problem, starts, validation, context, journal, weights)
        with kernel_threads(self.threads):
            C, solution = path.follow(penalties)
        self.coefficients_ = solution.weights
        self.C_: float = C
        """The C of these coefficients."""
        self.convergence_: Convergence = solution.convergence
        """How the solver ended."""
        self.trials_: tuple[SolverRun, ...] = tuple(path.runs)
        """Every run of the solver: each C, each start."""
        self.spread_ = deviations(train.features)
        self.curves_: Curves = path.curves()
        """The metrics on the validation lists for each C, from the smallest."""
        self._best_step = 1 + sorted({run.C for run in path.runs}).index(C)
        warn_unless_converged(solution.convergence, C=C)

    def _check_settings(self) -> None:
        for name in ("max_iterations", "tolerance", "gap", "learning_rate", "patience"):
            value = getattr(self, name)
            if not value > 0:
                raise UsageError(f"LinearRanker needs {name} > 0, got {value!r}.")

    def _report(self) -> dict[str, Any]:
        return {"C": self.C_, "convergence": self.convergence_.to_dict()}

    def _read_report(self, content: dict[str, Any]) -> None:
        self.C_, self.convergence_ = float(content["C"]), Convergence.from_dict(content["convergence"])
        self.trials_ = ()


def _penalties(C: float | tuple[float, ...], *, choose: bool) -> tuple[float, ...]:
    """The values to try: all, or only the middle one if there are no validation lists."""
    values = tuple(C) if isinstance(C, (tuple, list)) else (C,)
    if not values or not all(math.isfinite(c) and c > 0 for c in values):
        raise UsageError(f"C must be a positive number or several of them, got {C!r}.")
    ordered = tuple(sorted(float(c) for c in values))
    return ordered if choose else (ordered[len(ordered) // 2],)
