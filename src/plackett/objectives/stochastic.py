r"""Stochastic scores: any objective, averaged over Gumbel noise (Bruch et al. 2020, Algorithm 1).

For each of N samples, each document's score is perturbed,

.. math:: z_i = s_i - \beta \log(-\log U_i), \quad U_i \sim \mathrm{Uniform}(0, 1), \qquad
    \log \hat y = z - \operatorname{logsumexp}(z),

and the objective is evaluated at :math:`\log \hat y`; value, gradient and curvature are means over
the samples. Sorting z draws a ranking from the Plackett-Luce model of :math:`s / \beta`.

The gradient goes back through the normalisation,
:math:`\partial\ell/\partial s = u - \hat y\,(1^\top u)` with
:math:`u = \partial\ell/\partial\log\hat y`. For a shift-invariant objective
:math:`1^\top u = 0`, so gradient and curvature are those at :math:`s + G` and the normalisation is
left out.

This is the pathwise estimator: it differentiates the objective along each sample, so the objective
must be differentiable almost everywhere; it does not smooth piecewise constant ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numba import boolean, float64, int64, njit, prange, types, void
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.kernels import FLOATS, LABELS, ListFunction, readonly
from plackett.base.types import Keys, Labels, Offsets
from plackett.objectives.boosting import Boosting
from plackett.objectives.derivatives import Derivatives
from plackett.objectives.driver import INDEX, KEYS, LIST_FUNCTION
from plackett.objectives.lists import Extra, Lists, as_lists
from plackett.objectives.noise import inner_key, noise_state, perturb
from plackett.objectives.objective import Draws, Objective


@dataclass(frozen=True)
class Stochastic(Objective):
    """An objective averaged over Gumbel-perturbed scores.

    Parameters
    ----------
    objective
        Any objective, by name or as an object.
    samples
        Number of perturbed copies of the scores per step.
    beta
        Scale of the noise: 1 for neural nets, 0.25 for trees in the paper.
    seed
        Of the noise; with the step and the list it determines every draw.
    """

    objective: Objective
    samples: int = 8
    beta: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.objective, str):
            from plackett.objectives.names import objective

            object.__setattr__(self, "objective", objective(self.objective))
        if self.samples < 1 or not self.beta >= 0:
            raise UsageError(
                f"Stochastic needs samples >= 1 and beta >= 0, got samples={self.samples} and "
                f"beta={self.beta}."
            )

    @property
    def name(self) -> str:  # type: ignore[override]
        """The objective's name, as an expectation."""
        return f"E[{self.objective.name}]"

    @property
    def exact(self) -> bool:  # type: ignore[override]
        return self.objective.exact

    @property
    def convex(self) -> bool:  # type: ignore[override]
        # A mean of convex functions of s + constant; the normalisation is affine only up to a
        # shift, so convexity carries over where shifts do not matter.
        return self.objective.convex and self.objective.shift_invariant

    @property
    def shift_invariant(self) -> bool:  # type: ignore[override]
        # The normalised scores do not change when all scores are shifted.
        return True

    @property
    def function(self) -> ListFunction:
        return self.objective.function

    @property
    def newton_function(self) -> ListFunction:
        return self.objective.newton_function

    @property
    def params(self) -> tuple[float, ...]:
        return self.objective.params

    def extra(self, labels: Labels, offsets: Offsets, keys: Keys, draws: Draws) -> Extra | None:
        inner = {name: value for name, value in draws.items() if name != "uniform"}
        return self.objective.extra(labels, offsets, keys, inner)

    def single(self, lists: Lists, samples: int = 0, beta: float = 0.0) -> Boosting | None:  # noqa: ARG002
        if samples:
            return None  # noise upon noise has no such form
        return self.objective.single(lists, self.samples, self.beta)

    def bind(
        self,
        labels: ArrayLike,
        offsets: ArrayLike,
        keys: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        draws: Draws | None = None,
    ) -> Lists:
        given = dict(draws or {})
        for name in given:
            if name != "uniform":
                self.objective._check_draw(name)
        lists = as_lists(self, labels, offsets, keys, weights, given)
        uniform = _as_uniform(given.get("uniform"), self.samples, len(lists.labels))
        return PerturbedLists(**vars(lists), uniform=uniform)


def _as_uniform(uniform: Any, samples: int, n_docs: int) -> NDArray[np.float64]:
    if uniform is None:
        return np.empty((0, n_docs))
    given = np.ascontiguousarray(uniform, dtype=np.float64)
    if given.shape != (samples, n_docs):
        raise DataError(
            f"draws['uniform'] must be samples x documents = {samples} x {n_docs}, got "
            f"{given.shape}."
        )
    if not np.all((given > 0) & (given < 1)):
        raise DataError("draws['uniform'] must lie strictly between 0 and 1.")
    return given


@dataclass(frozen=True)
class PerturbedLists(Lists):
    """Lists whose scores are perturbed before the objective sees them."""

    uniform: NDArray[np.float64]
    """Explicit draws, one row per sample; no rows: draw them."""

    def _run(self, function: ListFunction, scores: ArrayLike, step: int) -> Derivatives:
        outer = self.objective
        assert isinstance(outer, Stochastic)
        result = self.empty()
        _each_perturbed_list()(
            function.compiled,
            self.checked(scores),
            self.labels,
            self.offsets,
            *self.extra,
            self.noise_keys(step),
            np.array(outer.params, dtype=np.float64),
            self.uniform,
            outer.samples,
            outer.beta,
            not outer.objective.shift_invariant,
            *result,
        )
        return self.weighted(result)


@njit(cache=True, nogil=True, error_model="numpy")
def _perturb(scores, key, sample, uniform, beta, normalise, z):  # type: ignore[no-untyped-def]
    if len(uniform):
        for i in range(len(scores)):
            z[i] = scores[i] - beta * np.log(-np.log(uniform[sample, i]))
    else:
        perturb(scores, noise_state(key, sample), beta, z)
    if normalise:
        top = np.max(z)
        z -= top + np.log(np.sum(np.exp(z - top)))


@njit(cache=True, nogil=True, error_model="numpy")
def _average_list(  # type: ignore[no-untyped-def]
    function,
    scores,
    labels,
    extra,
    key,
    params,
    uniform,
    samples,
    beta,
    normalise,
    gradient,
    curvature,
):
    n = len(scores)
    z, g, h = np.empty(n), np.empty(n), np.empty(n)
    value = 0.0
    for sample in range(samples):
        _perturb(scores, key, sample, uniform, beta, normalise, z)
        g[:] = 0.0
        h[:] = 0.0
        value += function(z, labels, extra, inner_key(key, sample), params, g, h)
        total = np.sum(g) if normalise else 0.0
        for i in range(n):
            share = np.exp(z[i]) if normalise else 0.0
            gradient[i] += g[i] - share * total
            # The Hessian's diagonal through the normalisation needs all of the inner Hessian; its
            # diagonal, scaled as the document's own score enters, serves trees.
            curvature[i] += h[i] * (1.0 - share) ** 2
    for i in range(n):
        gradient[i] /= samples
        curvature[i] /= samples
    return value / samples


def _each_perturbed(  # type: ignore[no-untyped-def]
    function,
    scores,
    labels,
    offsets,
    extra,
    extra_offsets,
    keys,
    params,
    uniform,
    samples,
    beta,
    normalise,
    values,
    gradient,
    curvature,
):
    for q in prange(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        y = labels[low:high]
        values[q] = 0.0
        if high - low > 1 and np.max(y) > np.min(y):
            values[q] = _average_list(
                function,
                scores[low:high],
                y,
                extra[extra_offsets[q] : extra_offsets[q + 1]],
                keys[q],
                params,
                uniform[:, low:high],
                samples,
                beta,
                normalise,
                gradient[low:high],
                curvature[low:high],
            )


@cache
def _each_perturbed_list() -> Any:
    signature = void(
        types.FunctionType(LIST_FUNCTION),
        FLOATS,
        LABELS,
        INDEX,
        FLOATS,
        INDEX,
        KEYS,
        FLOATS,
        readonly(float64, 2),
        int64,
        float64,
        boolean,
        float64[::1],
        float64[::1],
        float64[::1],
    )
    return njit(signature, parallel=True, cache=True, nogil=True)(_each_perturbed)
