r"""L-BFGS for smooth objectives: SciPy's solver in preconditioned variables.

.. math:: F(w) = L(w) + \lVert w \rVert^2 / C, \qquad \nabla F = \nabla L + 2 w / C

L-BFGS needs many iterations where the Hessian is far from a multiple of the identity, and features of search engines
are nearly copies of each other. So SciPy minimizes over u, with

.. math:: w = w_0 + \lVert R^{-1} g_0 \rVert\, R^{-\top} u, \qquad M = R R^\top,

where M approximates the Hessian at the first weights :math:`w_0` and :math:`g_0` is the gradient there. SciPy's first
step, which has length 1, is then the Newton step :math:`-M^{-1} g_0`.

.. math:: M = \sum_q \sum_{d \in q} h_d (x_d - \bar x_q)(x_d - \bar x_q)^\top + \frac{2}{C} I,
    \qquad \bar x_q = \sum_d h_d x_d \Big/ \sum_d h_d

with the curvature h of the objective. M need not be exact: it is summed over evenly spaced lists with about
:data:`DOCUMENTS` documents in total. With more than :data:`MAX_DENSE` features, or sparse ones, only its diagonal is
used.

The solver runs in rounds of at most 40 iterations. Each computes M at the current weights and starts SciPy with an
empty memory, so a fit can be resumed between rounds although SciPy cannot save its state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import scipy  # its optimize takes half a second and is imported when it is used
from numpy.typing import NDArray
from scipy.sparse import csr_array
from threadpoolctl import ThreadpoolController

from plackett.base.errors import Message, Setting, UsageError
from plackett.base.kernels import compiled
from plackett.base.ragged import Scores
from plackett.base.threads import run_parallel
from plackett.data import Dataset
from plackett.models.linear.convergence import Convergence, Iterate, Solution, Weights
from plackett.models.linear.loss import LinearLoss

_ROUND = 40  # iterations
_HISTORY = 20
_FLAT = 1e-15  # relative to the value: smaller changes are lost in rounding
_LOST = 1e-9  # relative to the value: a step this close to the minimum may fail through rounding

Save = Callable[[dict[str, Any]], None]
"""Called with plain data from which a solver can resume."""


def minimize(
    loss: LinearLoss,
    start: Weights,
    *,
    C: float,
    max_iterations: int,
    tolerance: float,
    value_tolerance: float = 0.0,
    resume: dict[str, Any] | None = None,
    save: Save | None = None,
) -> Solution:
    """Minimize a smooth loss plus ||w||^2 / C.

    It stops when no component of the gradient, divided by the number of lists, exceeds ``tolerance``, or when the value
    is about ``value_tolerance`` above the minimum, by the Newton decrement. ``resume`` is the state of an earlier run;
    ``save`` is called with the state after each round.
    """
    search = _LbfgsSearch(loss, C, tolerance, value_tolerance, max_iterations)
    if resume is not None:
        start = np.array(resume["weights"], dtype=np.float64)
        search.evaluations, search.decrement = resume["evaluations"], float(resume["newton"])
        search.trace = list(resume["trace"])
    point = search.evaluate(np.array(start, dtype=np.float64))
    if not (np.isfinite(point.value) and np.isfinite(point.gradient).all()):
        raise UsageError(
            Message(
                "the value or the gradient of the objective is not finite at the start; check the "
                "objective, or put the features on one scale (",
                Setting("transforms", ("standard",)),
                ").",
            )
        )
    moved = True
    while moved and not search.is_over(point):
        last, point = point, _Round(search, point).run()
        moved = point is not last
        if save is not None:
            save(search.to_dict(point))
    return Solution(point.weights, search.report(point, moved))


@dataclass
class _LbfgsSearch:
    """The problem, the stopping rule, and the progress so far."""

    loss: LinearLoss
    C: float
    tolerance: float
    value_tolerance: float
    max_iterations: int
    evaluations: int = 0
    trace: list[float] = field(default_factory=list)
    """The value after each iteration."""
    decrement: float = np.inf
    """Half the Newton decrement: about how far the value is above the minimum."""

    def evaluate(self, weights: Weights) -> Iterate:
        self.evaluations += 1
        value, gradient = self.loss.evaluate(weights)
        value += float(weights @ weights) / self.C
        return Iterate(weights, value, gradient + 2.0 * weights / self.C)

    def norm(self, point: Iterate) -> float:
        return float(np.max(np.abs(point.gradient), initial=0.0)) / self.loss.data.n_lists

    def is_over(self, point: Iterate) -> bool:
        close = self.decrement <= max(self.value_tolerance, _FLAT * abs(point.value))
        return self.norm(point) <= self.tolerance or close or len(self.trace) >= self.max_iterations

    def to_dict(self, point: Iterate) -> dict[str, Any]:
        return {
            "weights": point.weights.tolist(),
            "evaluations": self.evaluations,
            "trace": list(self.trace),
            "newton": self.decrement,
        }

    def report(self, point: Iterate, moved: bool) -> Convergence:
        if self.norm(point) <= self.tolerance:
            end = (True, "the gradient is below the tolerance")
        elif self.decrement <= self.value_tolerance:
            end = (True, "the value is close to the minimum")
        elif self.decrement <= (_FLAT if moved else _LOST) * abs(point.value):
            end = (True, "the value no longer changes")
        elif not moved:
            end = (False, "no step along the gradient lowers the value")
        else:
            end = (False, f"max_iterations={self.max_iterations} reached")
        counts = (len(self.trace), self.evaluations)
        return Convergence("lbfgs", *end, *counts, point.value, self.norm(point), trace=tuple(self.trace))


class _Round:
    """One run of SciPy's L-BFGS-B with one preconditioner."""

    def __init__(self, search: _LbfgsSearch, start: Iterate) -> None:
        self.search, self.start = search, start
        curvature = search.loss.curvature(start.weights)
        self.preconditioner = Preconditioner.at(search.loss.data, curvature, search.C)
        gradient = self.preconditioner.to_gradient(start.gradient)
        self.length = float(np.linalg.norm(gradient))
        search.decrement = 0.5 * self.length**2
        # The last evaluation and the last iterate: the point, u and the gradient there.
        self.last = self.iterate = (start, np.zeros_like(gradient), self.length * gradient)
        self.steps: deque[tuple[Weights, Weights]] = deque(maxlen=_HISTORY)

    def run(self) -> Iterate:
        """Return the last iterate; the start itself if no step lowers the value."""
        search = self.search
        if search.is_over(self.start):
            return self.start
        limit = min(_ROUND, search.max_iterations - len(search.trace))
        options: Any = {"maxcor": _HISTORY, "maxiter": limit, "maxfun": 10**9}
        options |= {"ftol": 0.0, "gtol": 0.0}  # the callback decides when to stop
        # SciPy solves systems of at most 20 equations; OpenBLAS would wake its threads for them.
        with _blas_threads().limit(limits=1, user_api="blas"):
            scipy.optimize.minimize(
                self.evaluate,
                np.zeros_like(self.start.weights),
                jac=True,
                method="L-BFGS-B",
                callback=self.finish_iteration,
                options=options,
            )
        return self.iterate[0]

    def evaluate(self, u: Weights) -> tuple[float, Weights]:
        """Value and gradient in SciPy's variables."""
        if u.any():
            step = self.length * self.preconditioner.to_weights(u)
            point = self.search.evaluate(self.start.weights + step)
            gradient = self.length * self.preconditioner.to_gradient(point.gradient)
            self.last = (point, u.copy(), gradient)
        return self.last[0].value, self.last[2]

    def finish_iteration(self, intermediate_result: scipy.optimize.OptimizeResult) -> None:  # noqa: ARG002 - SciPy passes it by name
        """Record the step; raise StopIteration to make SciPy stop."""
        search = self.search
        point, u, gradient = self.last
        step, change = u - self.iterate[1], gradient - self.iterate[2]
        self.iterate = self.last
        search.trace.append(point.value)
        if step @ change > 1e-12 * np.linalg.norm(step) * np.linalg.norm(change):
            self.steps.append((step, change))
        search.decrement = self.estimate_decrement(gradient)
        if search.is_over(point):
            raise StopIteration

    def estimate_decrement(self, gradient: Weights) -> float:
        """Half of g H g, with the inverse Hessian H that SciPy uses for the next step."""
        if not self.steps:
            return 0.5 * float(gradient @ gradient) / self.length**2
        steps, changes = (np.array(arrays) for arrays in zip(*self.steps, strict=True))
        # SciPy starts its recursion from a multiple of the identity, this operator from the
        # identity: in variables divided by the root of that multiple the two are equal.
        root = np.sqrt(float(steps[-1] @ changes[-1]) / float(changes[-1] @ changes[-1]))
        inverse = scipy.optimize.LbfgsInvHessProduct(steps / root, changes * root)
        scaled = gradient * root
        return 0.5 * float(scaled @ inverse.matvec(scaled))


@cache
def _blas_threads() -> ThreadpoolController:
    return ThreadpoolController()


DOCUMENTS = 10_000
MAX_DENSE = 800
_BLOCKS = 16  # partial sums: few, because each is a whole matrix
_RIDGE = 1e-10  # relative to the largest diagonal element: a feature may be a copy of another


@dataclass(frozen=True)
class Preconditioner:
    """An approximate Hessian M = R R^T, by its factor R."""

    root: NDArray[np.float64]
    """R as a lower triangle, or as a vector where M is diagonal."""

    @classmethod
    def at(cls, data: Dataset, curvature: Scores, C: float) -> Preconditioner:
        """The approximation at weights where the objective has this curvature."""
        X = data.features
        ridge = 2.0 / C
        if isinstance(X, csr_array) or data.n_features > MAX_DENSE:
            return cls(np.sqrt(_sum_squares(X, curvature) + ridge))
        lists = np.arange(0, data.n_lists, max(1, data.n_docs // DOCUMENTS))
        parts = np.zeros((_BLOCKS, data.n_features, data.n_features))
        arguments = np.asarray(X), data.offsets, curvature, lists, parts
        run_parallel(_add_lists, len(parts), *arguments)
        documents = np.diff(data.offsets)[lists].sum()
        M = parts.sum(axis=0) * (data.n_docs / documents)
        M[np.diag_indices_from(M)] += ridge + _RIDGE * np.max(np.diag(M))
        _factorize(M)
        return cls(M)

    def to_gradient(self, gradient: Weights) -> Weights:
        """R^-1 times the gradient: the gradient in the preconditioned variables."""
        if self.root.ndim == 1:
            return gradient / self.root
        return np.asarray(_solve_lower(self.root, gradient))

    def to_weights(self, step: Weights) -> Weights:
        """R^-T times a step: the step of the weights."""
        if self.root.ndim == 1:
            return step / self.root
        return np.asarray(_solve_upper(self.root, step))


def _sum_squares(X: NDArray[np.float32] | csr_array, curvature: Scores) -> Weights:
    if isinstance(X, csr_array):
        return np.asarray(X.multiply(X).T @ curvature, dtype=np.float64)
    total = np.zeros(X.shape[1])
    for low in range(0, len(X), DOCUMENTS):
        block = X[low : low + DOCUMENTS].astype(np.float64)
        total += curvature[low : low + DOCUMENTS] @ (block * block)
    return total


# Not LAPACK: for such small matrices it would start its own threads, which compete with those of our
# kernels. That took 175 ms; this takes 1 ms.
@compiled
def _factorize(M):  # type: ignore[no-untyped-def]
    """Replace the lower triangle by its Cholesky factor."""
    for i in range(len(M)):
        row = M[i]
        for j in range(i):
            row[j] = (row[j] - np.dot(row[:j], M[j, :j])) / M[j, j]
        row[i] = np.sqrt(row[i] - np.dot(row[:i], row[:i]))


@compiled
def _solve_lower(root, right):  # type: ignore[no-untyped-def]
    """Solve R x = right."""
    x = right.copy()
    for i in range(len(x)):
        x[i] = (x[i] - np.dot(root[i, :i], x[:i])) / root[i, i]
    return x


@compiled
def _solve_upper(root, right):  # type: ignore[no-untyped-def]
    """Solve R^T x = right."""
    x = right.copy()
    for i in range(len(x) - 1, -1, -1):
        x[i] /= root[i, i]
        x[:i] -= x[i] * root[i, :i]
    return x


@compiled
def _add_lists(first, last, features, offsets, curvature, lists, parts):  # type: ignore[no-untyped-def]
    for block in range(first, last):
        for k in range(block, len(lists), len(parts)):
            low, high = offsets[lists[k]], offsets[lists[k] + 1]
            _add_list(features[low:high], curvature[low:high], parts[block])


@compiled
def _add_list(rows, curvature, part):  # type: ignore[no-untyped-def]
    """Add the lower triangle of one list's sum."""
    total = np.sum(curvature)
    if not total > 0.0:
        return
    d = rows.shape[1]
    mean, row = np.zeros(d), np.empty(d)
    for i in range(len(rows)):
        for j in range(d):
            mean[j] += curvature[i] / total * rows[i, j]
    for i in range(len(rows)):
        for j in range(d):
            row[j] = rows[i, j] - mean[j]
        for j in range(d):
            factor = curvature[i] * row[j]
            out = part[j, : j + 1]
            for k in range(j + 1):
                out[k] += factor * row[k]
