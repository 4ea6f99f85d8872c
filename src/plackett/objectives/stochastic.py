r"""Stochastic scores: any objective, averaged over Gumbel noise (Bruch et al. 2020, Algorithm 1).

For each of N samples, each document's score is perturbed,

.. math:: z_i = s_i - \beta \log(-\log U_i), \quad U_i \sim \mathrm{Uniform}(0, 1), \qquad
    \log \hat y = z - \operatorname{logsumexp}(z),

and the objective is evaluated at :math:`\log \hat y`; value, gradient and curvature are means over
the samples. Sorting z draws a ranking from the Plackett-Luce model of :math:`s / \beta`.

The gradient goes back through the normalization, :math:`\partial\ell/\partial s = u - \hat y\,(1^\top u)` with :math:`u
= \partial\ell/\partial\log\hat y`. For a shift-invariant objective :math:`1^\top u = 0`, so gradient and curvature are
those at :math:`s + G` and the normalization is omitted. It is also omitted if scores have a meaning that it would
destroy (:mod:`plackett.objectives.pointwise`).

This is the pathwise estimator: it differentiates the objective along each sample, so the objective
must be differentiable almost everywhere; it does not smooth piecewise constant ones.
"""

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError, UsageError
from plackett.objectives.objective import BoundObjective, Draws, Objective, ScoreNoise, check_seed


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
        Seed of the noise; with the step and the list it determines every draw.

    Examples
    --------
    >>> import plackett as pk
    >>> loss = pk.Stochastic("lambdarank", samples=4, beta=0.25)
    >>> loss.evaluate([0.2, 0.1], [0, 1], [0, 2]).gradient.shape
    (2,)
    """

    objective: Objective
    samples: int = 8
    beta: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.objective, str):
            from plackett.objectives import objective

            object.__setattr__(self, "objective", objective(self.objective))
        if not isinstance(self.objective, Objective):
            kind = type(self.objective).__name__
            raise UsageError(f"Stochastic takes an objective, by name or as an object, got {kind}.")
        if isinstance(self.objective, Stochastic):
            raise UsageError("Stochastic scores are perturbed once; got Stochastic of Stochastic.")
        if self.samples < 1 or not self.beta >= 0:
            raise UsageError(
                f"Stochastic needs samples >= 1 and beta >= 0, got samples={self.samples} and beta={self.beta}."
            )
        check_seed(self.name, self.seed)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The objective's name, as an expectation."""
        return f"E[{self.objective.name}]"

    exact = property(attrgetter("objective.exact"))
    uses_one_level = property(attrgetter("objective.uses_one_level"))
    weighting = property(attrgetter("objective.weighting"))

    @property
    def convex(self) -> bool:  # type: ignore[override]
        # A mean of convex functions of s + constant; the normalization is affine only up to a
        # shift, so convexity carries over where shifts do not matter.
        return self.objective.convex and not self._normalize

    @property
    def shift_invariant(self) -> bool:  # type: ignore[override]
        # The normalized scores do not change when all scores are shifted.
        return self.objective.shift_invariant or self._normalize

    @property
    def _normalize(self) -> bool:
        return not (self.objective.shift_invariant or self.objective.has_scale)

    def bind(
        self,
        labels: ArrayLike,
        offsets: ArrayLike,
        keys: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        draws: Draws | None = None,
        document_weights: ArrayLike | None = None,
    ) -> BoundObjective:
        """Bind the objective to lists, with noise added to the scores."""
        others = {name: value for name, value in (draws or {}).items() if name != "uniform"}
        bound = self.objective.bind(labels, offsets, keys, weights, others, document_weights)
        uniform = _check_uniform((draws or {}).get("uniform"), self.samples, len(bound.labels))
        return replace(
            bound,
            seed=self.seed,
            noise=ScoreNoise(uniform, self.samples, self.beta, normalize=self._normalize),
            float32_form=None if draws else bound.float32_form,
        )


def _check_uniform(uniform: Any, samples: int, n_docs: int) -> NDArray[np.float64]:
    if uniform is None:
        return np.empty((0, n_docs))
    values = np.ascontiguousarray(uniform, dtype=np.float64)
    if values.shape != (samples, n_docs):
        raise DataError(f"draws['uniform'] must be samples x documents = {samples} x {n_docs}, got {values.shape}.")
    if not np.all((values > 0) & (values < 1)):
        raise DataError("draws['uniform'] must lie strictly between 0 and 1.")
    return values
