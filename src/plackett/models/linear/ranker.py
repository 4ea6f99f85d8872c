r"""Linear models: any smooth exact objective, minimised by L-BFGS.

With features X, weights w and scores s = Xw the model minimises

.. math:: F(w) = \sum_q \ell_q(s) + \lVert w \rVert^2 / C, \qquad
    \nabla F = X^\top \frac{\partial \ell}{\partial s} + 2 w / C

so each step costs two products with X and one evaluation of the objective. The noise of random
objectives is that of step 0 throughout: with fresh noise in each call L-BFGS would stop early.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.types import Scores
from plackett.data.dataset import Dataset
from plackett.models.linear.products import times, transposed_times
from plackett.models.ranker import Ranker
from plackett.models.run import Run
from plackett.objectives import Objective, objective

_FILE = "linear.json"


@dataclass
class LinearRanker(Ranker):
    """A weight for each feature.

    Parameters
    ----------
    objective
        Name or object; it must be the exact gradient of its value.
    C
        Inverse strength of the penalty: the sum over lists of the value + ||w||^2 / C.
    transforms
        Applied to features before the product, fitted on the training data.
    max_iterations, tolerance
        L-BFGS stops after so many iterations, or when no component of the gradient, divided by the
        number of lists, exceeds the tolerance.
    seed
        For random objectives that have none of their own.
    """

    objective: str | Objective = "listnet"
    C: float = 10.0
    transforms: tuple[str, ...] = ("standard",)
    max_iterations: int = 500
    tolerance: float = 1e-6
    seed: int = 0

    def _fit(self, train: Dataset, validation: Dataset | None, run: Run) -> None:  # noqa: ARG002
        from scipy.optimize import minimize  # costs a third of the package's import time

        loss = objective(self.objective)
        if not loss.exact:
            raise UsageError(f"LinearRanker minimises a value, and {loss.name} has none.")
        X = train.features
        lists = loss.bind(train.labels, train.offsets, train.keys, train.weights)

        def value_and_gradient(w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            scores = times(X, w)
            d = lists.evaluate(scores)
            gradient = transposed_times(X, d.gradient)
            total = float(np.sum(d.values)) + float(w @ w) / self.C
            return total / train.n_lists, (gradient + 2.0 * w / self.C) / train.n_lists

        found = minimize(
            value_and_gradient,
            np.zeros(train.n_features),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": self.max_iterations, "gtol": self.tolerance},
        )
        self.coefficients_: NDArray[np.float64] = found.x

    def _predict(self, data: Dataset) -> Scores:
        return times(data.features, self.coefficients_)

    def _write(self, folder: Path) -> None:
        (folder / _FILE).write_text(json.dumps({"coefficients": self.coefficients_.tolist()}))

    def _read(self, folder: Path) -> None:
        path = folder / _FILE
        try:
            found = np.array(json.loads(path.read_text())["coefficients"], dtype=np.float64)
        except (ValueError, KeyError, TypeError) as error:
            raise DataError("holds no list of coefficients", path=str(path)) from error
        if found.shape != (self.n_features_,) or not np.all(np.isfinite(found)):
            raise DataError(f"must hold {self.n_features_} finite numbers", path=str(path))
        self.coefficients_ = found
