r"""L-BFGS for smooth objectives, started from their own curvature.

.. math:: F(w) = L(w) + \lVert w \rVert^2 / C, \qquad \nabla F = \nabla L + 2 w / C

The two-loop recursion begins with the inverse of the approximate Hessian of
:mod:`plackett.models.linear.lbfgs` instead of a multiple of the identity: tens of iterations
instead of hundreds on features of search engines. It runs in rounds; each begins with the curvature
at the weights reached and no memory of steps, so a fit can be taken up again between rounds.

How a solver ended: a report instead of a silent stop.

A step length that satisfies the weak Wolfe conditions, by doubling and bisection.

.. math:: F(w + tp) \le F(w) + c_1 t\, \nabla F \cdot p, \qquad
    \nabla F(w + tp) \cdot p \ge c_2 \nabla F \cdot p

The first makes the value fall, the second keeps quasi-Newton matrices positive definite. Bisection
needs no smoothness (Lewis & Overton 2013). Where the change of the value is lost in rounding, the
first condition is read off the slopes instead, which are exact much longer: the value falls if
:math:`\nabla F(w + tp) \cdot p \le (2 c_1 - 1) \nabla F \cdot p` (Hager & Zhang 2005).

The scale of a linear problem: an approximate Hessian that costs next to nothing.

Quasi-Newton methods need many steps where the Hessian is far from a multiple of the identity, and
features of search engines are that: nearly copies of each other. The Hessian of :math:`\sum_q
\ell_q(Xw) + \lVert w\rVert^2/C` is close to

.. math:: M = \sum_q \sum_{d \in q} h_d (x_d - \bar x_q)(x_d - \bar x_q)^\top + \frac{2}{C} I,
    \qquad \bar x_q = \sum_d h_d x_d \Big/ \sum_d h_d

with the objective's own curvature h: for the softmax family it is that up to terms in the squares
of probabilities, for pairwise losses the two agree in spectrum up to a small factor. L-BFGS starts
its recursion from :math:`M^{-1}`.

M needs not be exact: it is summed over lists evenly spread, about :data:`DOCUMENTS` documents. With
more than :data:`WIDEST` features, or sparse ones, only its diagonal is taken.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.errors import ConvergenceWarning, DataError, UsageError
from plackett.base.kernels import compiled
from plackett.base.ragged import Offsets, Scores
from plackett.data.dataset import Dataset
from plackett.models.linear.loss import Loss, Weights


@dataclass(frozen=True)
class Convergence:
    """How one run of a solver went."""

    solver: str
    converged: bool
    reason: str
    """Why it stopped."""
    iterations: int
    evaluations: int
    """Of the objective over all lists."""
    value: float
    """The sum over lists plus the penalty; NaN for objectives without a value."""
    gradient_norm: float
    """The largest component of the gradient, divided by the number of lists; NaN where the solver
    works with subgradients."""
    gap: float = math.nan
    """(value - lower bound) / value, where the solver has a certificate: an upper bound on how far
    the value is from the minimum."""
    trace: tuple[float, ...] = ()
    """The value after each iteration (of ``adam``: the metric it chooses by)."""

    def __str__(self) -> str:
        end = "converged" if self.converged else "did not converge"
        gap = "" if math.isnan(self.gap) else f", relative gap {self.gap:.2g}"
        norm = "" if math.isnan(self.gradient_norm) else f", gradient {self.gradient_norm:.2g}"
        return (
            f"{self.solver} {end} after {self.iterations} iterations ({self.reason}): value "
            f"{self.value:.6g}{norm}{gap}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data; NaN becomes None, which JSON has."""
        return {key: _plain(value) for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: Any) -> Convergence:
        """What :meth:`to_dict` gave."""
        try:
            values = (_number(data["value"]), _number(data["gradient_norm"]), _number(data["gap"]))
            trace = tuple(float(each) for each in data["trace"])
            words = (str(data["solver"]), bool(data["converged"]), str(data["reason"]))
            counts = (int(data["iterations"]), int(data["evaluations"]))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"is no report of a solver: {error!r}") from error
        return cls(*words, *counts, *values, trace)


class Planes(NamedTuple):
    """Tangents of a convex loss, which lies above all of a w + b."""

    a: NDArray[np.float64]
    """One row per plane."""
    b: NDArray[np.float64]


@dataclass(frozen=True)
class Solution:
    """Weights of the features, and how they were found."""

    weights: Weights
    convergence: Convergence
    planes: Planes | None = None
    """Of cutting planes: those that count at the minimum, which hold for any penalty."""


def warn_unless_converged(report: Convergence, *, C: float) -> None:
    """Tell the user of a model whose solver stopped early, and what to do."""
    if not report.converged:
        warnings.warn(
            f"{report}, with C={C:g}. {_advice(report)}",
            ConvergenceWarning,
            stacklevel=5,
        )


def _advice(report: Convergence) -> str:
    if "max_iterations" in report.reason:
        return (
            "Raise max_iterations, lower C, or put the features on one scale "
            '(transforms=("standard",)).'
        )
    return (
        'Lower C, put the features on one scale (transforms=("standard",)), or check the gradient '
        "of an objective of your own."
    )


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


_DESCENT, _CURVATURE = 1e-4, 0.9
_TRIALS = 20
_ROUNDING = 1e-11  # of the value: what rounding may hide


class Point(NamedTuple):
    """Weights with value and gradient there."""

    weights: Weights
    value: float
    gradient: Weights


Function = Callable[[Weights], Point]


def search(function: Function, start: Point, direction: Weights) -> Point:
    """The next point along a direction of descent; the start itself if there is none."""
    slope = float(start.gradient @ direction)
    low, high, t = 0.0, np.inf, 1.0
    best = start
    for _ in range(_TRIALS):
        point = function(start.weights + t * direction)
        there = float(point.gradient @ direction)
        if not _falls(start.value, slope, t, point.value, there):
            high = t
        elif there < _CURVATURE * slope:
            low, best = t, point
        else:
            return point
        t = 0.5 * (low + high) if np.isfinite(high) else 2.0 * low
    return best


def _falls(value: float, slope: float, t: float, after: float, there: float) -> bool:
    if after <= value + _DESCENT * t * slope:
        return True
    return after <= value + _ROUNDING * abs(value) and there <= (2.0 * _DESCENT - 1.0) * slope


DOCUMENTS = 10_000
WIDEST = 800
_BLOCKS = 16  # partial sums: few, because each is a whole matrix
_RIDGE = 1e-10  # of the largest diagonal element: a feature that is a copy of another


@dataclass(frozen=True)
class Scale:
    """M as the triangle R of M = R R^T, or as a vector where only its diagonal is kept."""

    root: NDArray[np.float64]

    def solve(self, gradient: Weights) -> Weights:
        """M^-1 times a gradient."""
        if self.root.ndim == 1:
            return gradient / self.root
        return np.asarray(_solve(self.root, gradient))


def scale_of(data: Dataset, curvature: Scores, C: float) -> Scale:
    """The scale at weights where the objective has this curvature."""
    X = data.features
    ridge = 2.0 / C
    if isinstance(X, csr_array) or data.n_features > WIDEST:
        squares = _sum_of_squares(X, curvature)
        return Scale(squares + ridge)
    lists = _some_lists(data.offsets)
    parts = np.zeros((_BLOCKS, data.n_features, data.n_features))
    _add_lists(np.asarray(X), data.offsets, curvature, lists, parts)
    documents = np.diff(data.offsets)[lists].sum()
    M = parts.sum(axis=0) * (data.n_docs / documents)
    M[np.diag_indices_from(M)] += ridge + _RIDGE * np.max(np.diag(M))
    _factorise(M)
    return Scale(M)


def _some_lists(offsets: Offsets) -> NDArray[np.int64]:
    n_lists = len(offsets) - 1
    step = max(1, int(offsets[-1]) // DOCUMENTS)
    return np.arange(0, n_lists, step)


def _sum_of_squares(X: NDArray[np.float32] | csr_array, curvature: Scores) -> Weights:
    if isinstance(X, csr_array):
        return np.asarray(X.multiply(X).T @ curvature, dtype=np.float64)
    total = np.zeros(X.shape[1])
    for low in range(0, len(X), DOCUMENTS):
        block = X[low : low + DOCUMENTS].astype(np.float64)
        total += curvature[low : low + DOCUMENTS] @ (block * block)
    return total


# LAPACK would wake its own threads for matrices this small, beside those of our kernels: 175 ms
# where this takes one.
@compiled
def _factorise(M):  # type: ignore[no-untyped-def]
    """Replace the lower triangle by that of its Cholesky factor."""
    for i in range(len(M)):
        row = M[i]
        for j in range(i):
            row[j] = (row[j] - np.dot(row[:j], M[j, :j])) / M[j, j]
        row[i] = np.sqrt(row[i] - np.dot(row[:i], row[:i]))


@compiled
def _solve(root, right):  # type: ignore[no-untyped-def]
    """Solve R R^T x = right."""
    x = right.copy()
    for i in range(len(x)):
        x[i] = (x[i] - np.dot(root[i, :i], x[:i])) / root[i, i]
    for i in range(len(x) - 1, -1, -1):
        x[i] /= root[i, i]
        x[:i] -= x[i] * root[i, :i]
    return x


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _add_lists(features, offsets, curvature, lists, parts):  # type: ignore[no-untyped-def]
    for block in prange(len(parts)):
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
    middle, row = np.zeros(d), np.empty(d)
    for i in range(len(rows)):
        for j in range(d):
            middle[j] += curvature[i] / total * rows[i, j]
    for i in range(len(rows)):
        for j in range(d):
            row[j] = rows[i, j] - middle[j]
        for j in range(d):
            factor = curvature[i] * row[j]
            out = part[j, : j + 1]
            for k in range(j + 1):
                out[k] += factor * row[k]


_ROUND = 40  # iterations
_HISTORY = 20
_FLAT = 1e-15  # of the value: a change that is lost in rounding
_LOST = 1e-9  # of the value: so little that a step that does not lower it is rounding

Save = Callable[[dict[str, Any]], None]
"""Called with plain data from which a run can go on."""


@dataclass
class _Run:
    """One minimisation: where it is."""

    loss: Loss
    C: float
    tolerance: float
    enough: float
    max_iterations: int
    iterations: int = 0
    evaluations: int = 0
    trace: list[float] = field(default_factory=list)
    newton: float = np.inf
    """About how far the value is above the minimum: half of g M^-1 g."""

    def evaluate(self, weights: Weights) -> Point:
        self.evaluations += 1
        value, gradient = self.loss.evaluate(weights)
        value += float(weights @ weights) / self.C
        return Point(weights, value, gradient + 2.0 * weights / self.C)

    def norm(self, at: Point) -> float:
        return float(np.max(np.abs(at.gradient), initial=0.0)) / self.loss.data.n_lists

    def is_over(self, at: Point) -> bool:
        enough = max(self.enough, _FLAT * abs(at.value))
        small = self.norm(at) <= self.tolerance or self.newton <= enough
        return small or self.iterations >= self.max_iterations

    def round(self, at: Point) -> Point:
        """Some iterations from one scale."""
        scale = scale_of(self.loss.data, self.loss.curvature(at.weights), self.C)
        memory: deque[tuple[Weights, Weights, float]] = deque(maxlen=_HISTORY)
        for _ in range(_ROUND):
            direction = -_two_loops(scale, memory, at.gradient)
            self.newton = -0.5 * float(direction @ at.gradient)
            if self.is_over(at):
                break
            after = search(self.evaluate, at, direction)
            if after is at:
                break
            self.iterations += 1
            self.trace.append(after.value)
            _remember(memory, after.weights - at.weights, after.gradient - at.gradient)
            at = after
        return at


def _two_loops(
    scale: Scale, memory: deque[tuple[Weights, Weights, float]], gradient: Weights
) -> Weights:
    """The approximate inverse Hessian times a gradient (Nocedal 1980)."""
    q = gradient.copy()
    factors = []
    for step, change, product in reversed(memory):
        factors.append(float(step @ q) / product)
        q -= factors[-1] * change
    r = scale.solve(q)
    if memory:
        step, change, product = memory[-1]
        r *= product / float(change @ scale.solve(change))
    for (step, change, product), factor in zip(memory, reversed(factors), strict=True):
        r += (factor - float(change @ r) / product) * step
    return r


def _remember(
    memory: deque[tuple[Weights, Weights, float]], step: Weights, change: Weights
) -> None:
    product = float(step @ change)
    if product > 1e-12 * float(np.linalg.norm(step) * np.linalg.norm(change)):
        memory.append((step, change, product))


def minimize(
    loss: Loss,
    start: Weights,
    *,
    C: float,
    max_iterations: int,
    tolerance: float,
    enough: float = 0.0,
    resume: dict[str, Any] | None = None,
    save: Save | None = None,
) -> Solution:
    """Minimise the loss plus ||w||^2 / C.

    Parameters
    ----------
    loss
        A smooth function of the weights.
    start
        Where to begin.
    C, max_iterations
        The penalty; when to give up.
    tolerance
        Stop when no component of the gradient, divided by the number of lists, exceeds it.
    enough
        Stop too when the value is about so close to the minimum, by Newton's decrement.
    resume, save
        State of a run to take up, and what to call with the state after each round.
    """
    run = _Run(loss, C, tolerance, enough, max_iterations)
    if resume is not None:
        start = np.array(resume["weights"], dtype=np.float64)
        run.iterations, run.evaluations = resume["iterations"], resume["evaluations"]
        run.trace, run.newton = list(resume["trace"]), float(resume["newton"])
    at = run.evaluate(np.array(start, dtype=np.float64))
    if not (np.isfinite(at.value) and np.isfinite(at.gradient).all()):
        raise UsageError(
            "value or gradient of the objective are not finite where the search begins; check the "
            'objective, or put the features on one scale (transforms=("standard",)).'
        )
    moving = True
    while moving and not run.is_over(at):
        before, at = at, run.round(at)
        moving = at is not before
        if save is not None:
            save(_state(run, at))
    return Solution(at.weights, _report(run, at, moving))


def _state(run: _Run, at: Point) -> dict[str, Any]:
    return {
        "weights": at.weights.tolist(),
        "iterations": run.iterations,
        "evaluations": run.evaluations,
        "trace": run.trace,
        "newton": run.newton,
    }


def _report(run: _Run, at: Point, moving: bool) -> Convergence:
    if run.norm(at) <= run.tolerance:
        end = (True, "the gradient is below the tolerance")
    elif run.newton <= run.enough:
        end = (True, "the value is close to the minimum")
    elif run.newton <= (_FLAT if moving else _LOST) * abs(at.value):
        end = (True, "the value changes no more")
    elif not moving:
        end = (False, "no step along the gradient lowers the value")
    else:
        end = (False, f"max_iterations={run.max_iterations} reached")
    counts = (run.iterations, run.evaluations)
    trace = tuple(run.trace)
    return Convergence("lbfgs", *end, *counts, at.value, run.norm(at), trace=trace)
