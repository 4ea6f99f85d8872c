r"""An objective bound to lists: what depends on labels alone is prepared once, not at each step.

What an objective returns.

Weights of documents: factors of what a document gains, such as one over its propensity.

Where an objective goes by gains or by a distribution made of labels, weighing a document is the
same as giving it another label, and nothing else has to know:

===============  ============================  ====================================================
weighting        what is scaled                the label y of a document of weight w becomes
===============  ============================  ====================================================
``gain``         :math:`2^y - 1`               :math:`\log_2(1 + w(2^y - 1))`
``share``        y                             :math:`wy`
``exponential``  :math:`e^y - 1`               :math:`\ln(1 + w(e^y - 1))`
===============  ============================  ====================================================

A weight of 0 makes any document one of label 0, in ListNet too, where label 0 has a share of its
own. Labels are float32, so a weighted gain is exact to about seven digits.

Objectives that know only the order of labels (``order``) take the weights beside what is prepared
for each list: every pair, or every pick of a ranking, is multiplied by the weight of its better
document, as in the propensity-weighted SVM-rank of Joachims, Swaminathan & Schnabel (2017). A
weight of 1 changes no bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError
from plackett.base.kernels import ListFunction, addresses, compiled
from plackett.base.ragged import (
    Keys,
    Labels,
    Offsets,
    Scores,
    Values,
    as_offsets,
    offsets_from_sizes,
)
from plackett.base.random import combine
from plackett.objectives.driver import each_list

if TYPE_CHECKING:
    from plackett.objectives.objective import Draws, Objective


class Derivatives(NamedTuple):
    """Value, gradient and curvature of an objective at given scores; all float64."""

    values: Values
    """One per list; NaN where the objective has no loss."""
    gradient: Scores
    """One per document: the derivative of its list's value by its score."""
    curvature: Scores
    """One per document, never negative."""


class Prepared(NamedTuple):
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
class BoundObjective:
    """The labels of lists, ready for one objective."""

    objective: Objective
    labels: Labels
    offsets: Offsets
    keys: Keys
    weights: NDArray[np.float64] | None
    extra: Prepared
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
) -> BoundObjective:
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
    return BoundObjective(objective, y, o, np.ascontiguousarray(k), w, extra, noise)


@compiled
def _mix_keys(keys: Any, seed: Any, step: Any) -> Any:
    out = np.empty_like(keys)
    base = combine(seed, step)
    for q in range(len(keys)):
        out[q] = combine(base, keys[q])
    return out


Weighting: TypeAlias = Literal["gain", "share", "exponential", "order"]


def as_document_weights(weights: ArrayLike | None, n_docs: int) -> NDArray[np.float64] | None:
    """One weight per document, checked; None if all are 1, which is the same."""
    if weights is None:
        return None
    given = np.ascontiguousarray(weights, dtype=np.float64)
    if given.shape != (n_docs,) or not np.all((given >= 0.0) & (given < np.inf)):
        raise DataError(
            f"document_weights must be {n_docs} finite numbers that are not negative, one per "
            f"document, got {given.dtype} of shape {given.shape}."
        )
    return None if np.all(given == 1.0) else given


def weighted_labels(
    weighting: Weighting, labels: Labels, weights: NDArray[np.float64] | None
) -> Labels:
    """Labels that stand for the given ones with these weights."""
    if weights is None or weighting == "order":
        return labels
    y = labels.astype(np.float64)
    if weighting == "share":
        found = y * weights
    else:
        # 1 + w (b^y - 1) = b^y (w + (1 - w) b^-y), which overflows for no label.
        base = np.log(2.0) if weighting == "gain" else 1.0
        with np.errstate(divide="ignore"):
            found = y + np.log(weights + (1.0 - weights) * np.exp(-base * y)) / base
        found = np.maximum(found, 0.0)
    return np.where(weights == 1.0, labels, found.astype(np.float32))


def with_weights(extra: Prepared, weights: NDArray[np.float64], offsets: Offsets) -> Prepared:
    """What is prepared for each list, followed by the weights of its documents."""
    where = offsets_from_sizes(np.diff(extra.offsets) + np.diff(offsets))
    values = np.empty(where[-1])
    _fill_behind(*extra, weights, offsets, where, values)
    return Prepared(values, where)


@compiled
def _fill_behind(values, starts, weights, offsets, where, out):  # type: ignore[no-untyped-def]
    for q in range(len(offsets) - 1):
        middle = where[q + 1] - (offsets[q + 1] - offsets[q])
        out[where[q] : middle] = values[starts[q] : starts[q + 1]]
        out[middle : where[q + 1]] = weights[offsets[q] : offsets[q + 1]]


@compiled
def document_weights(extra, n_docs, before):  # type: ignore[no-untyped-def]
    """The weights behind the ``before`` numbers prepared for a list of ``n_docs``; ones: none."""
    if len(extra) == before + n_docs:
        return extra[before:].copy()
    return np.ones(n_docs)
