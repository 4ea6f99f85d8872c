"""An objective bound to lists: what depends on labels alone is prepared once, not at each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError
from plackett.base.kernels import ListFunction, addresses, compiled
from plackett.base.ragged import Keys, Labels, Offsets, Scores, as_offsets
from plackett.base.random import combine
from plackett.objectives.derivatives import Derivatives
from plackett.objectives.driver import each_list

if TYPE_CHECKING:
    from plackett.objectives.objective import Draws, Objective


class Extra(NamedTuple):
    """Numbers prepared for each list: those of list q are values[offsets[q] : offsets[q + 1]]."""

    values: NDArray[np.float64]
    offsets: Offsets


class Noise(NamedTuple):
    """How scores are perturbed before the objective sees them."""

    uniform: NDArray[np.float64]
    """Explicit draws, one row per sample; no rows: draw them."""
    samples: int
    """0: scores stay as they are."""
    beta: float
    normalise: bool
    """Turn perturbed scores into logarithms of probabilities."""


NO_NOISE = Noise(np.empty((0, 0)), 0, 0.0, False)


@dataclass(frozen=True)
class Lists:
    """The labels of lists, ready for one objective."""

    objective: Objective
    labels: Labels
    offsets: Offsets
    keys: Keys
    weights: NDArray[np.float64] | None
    extra: Extra
    noise: Noise

    def evaluate(self, scores: ArrayLike, step: int = 0) -> Derivatives:
        """Value, gradient and curvature at these scores."""
        return self._run(self.objective.function, scores, step)

    def newton(self, scores: ArrayLike, step: int = 0) -> Derivatives:
        """The same with the gradient for a trainer of trees."""
        return self._run(self.objective.newton_function, scores, step)

    def _run(self, function: ListFunction, scores: ArrayLike, step: int) -> Derivatives:
        s = self.checked(scores)
        result = self.empty()
        each_list()(
            *addresses(function),
            s,
            self.labels,
            self.offsets,
            *self.extra,
            self.noise_keys(step),
            np.array(self.objective.params, dtype=np.float64),
            *self.noise,
            *result,
        )
        return self.weighted(result)

    def checked(self, scores: ArrayLike) -> Scores:
        """Scores as float64, one per document."""
        s = np.ascontiguousarray(scores, dtype=np.float64)
        if s.shape != self.labels.shape:
            raise DataError(
                f"scores must be {len(self.labels)} numbers, one per label, got shape {s.shape}."
            )
        return s

    def empty(self) -> Derivatives:
        """Arrays to fill."""
        n = len(self.labels)
        return Derivatives(np.empty(len(self.offsets) - 1), np.empty(n), np.empty(n))

    def noise_keys(self, step: int) -> Keys:
        """Seed and step mixed into the keys of the lists."""
        seed = np.uint64(self.objective.seed % 2**64)
        return _mix_keys(self.keys, seed, np.uint64(step % 2**64))

    def weighted(self, result: Derivatives) -> Derivatives:
        """Multiply by the weights of the lists."""
        if self.weights is None:
            return result
        each = np.repeat(self.weights, np.diff(self.offsets))
        return Derivatives(
            result.values * self.weights, result.gradient * each, result.curvature * each
        )


def as_lists(
    objective: Objective,
    labels: ArrayLike,
    offsets: ArrayLike,
    keys: ArrayLike | None,
    weights: ArrayLike | None,
    draws: Draws,
    document_weights: ArrayLike | None = None,
) -> Lists:
    """Check the arrays once and prepare what depends on them alone."""
    y = np.ascontiguousarray(labels, dtype=np.float32)
    # Where a label is NaN, so are the smallest and the largest, and both comparisons fail.
    if y.ndim != 1 or not (y.min(initial=0.0) >= 0.0 and y.max(initial=0.0) < np.inf):
        raise DataError("labels must be one finite, non-negative number per document.")
    o = as_offsets(offsets, len(y))
    n_lists = len(o) - 1
    k = np.arange(n_lists, dtype=np.uint64) if keys is None else np.asarray(keys, dtype=np.uint64)
    w = None if weights is None else np.asarray(weights, dtype=np.float64)
    for what, given in (("keys", k), ("weights", w)):
        if given is not None and given.shape != (n_lists,):
            raise DataError(f"{what} must be {n_lists}, one per list, got shape {given.shape}.")
    y, extra = objective.prepared(y, o, k, draws, document_weights)
    noise = objective.noise(len(y), draws)
    return Lists(objective, y, o, np.ascontiguousarray(k), w, extra, noise)


@compiled
def _mix_keys(keys: Any, seed: Any, step: Any) -> Any:
    out = np.empty_like(keys)
    base = combine(seed, step)
    for q in range(len(keys)):
        out[q] = combine(base, keys[q])
    return out
