"""What every objective is: a function of one list's scores and labels, with declared properties.

What a trainer of trees calls at each step: scores in, gradient and curvature out.

Checks of the parameters of objectives: errors name the value and what is allowed.

The seed of a model carried into its objective.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.kernels import ListFunction
from plackett.base.ragged import Keys, Labels, Offsets, Scores
from plackett.objectives.bound import (
    NO_NOISE,
    BoundObjective,
    Derivatives,
    Noise,
    Prepared,
    Weighting,
    as_document_weights,
    as_lists,
    weighted_labels,
    with_weights,
)

GradientFunction: TypeAlias = Callable[[Scores, int], tuple[NDArray[Any], NDArray[Any]]]
"""Scores and step to gradient and curvature, float32 or float64."""


def by_newton(lists: BoundObjective) -> GradientFunction:
    """The derivatives of ``newton``, for objectives without a form of their own for trees."""

    def derivatives(scores: Scores, step: int) -> tuple[NDArray[Any], NDArray[Any]]:
        found = lists.newton(scores, step)
        return found.gradient, found.curvature

    return derivatives


Draws = Mapping[str, Any]
"""Explicit values for what is random, by name."""


class Objective(ABC):
    """A loss of the scores of one list, to be minimised.

    Subclasses are frozen dataclasses whose fields are the parameters. What they declare decides
    which solvers take them and which tests run.
    """

    name: ClassVar[str]
    exact: ClassVar[bool] = True
    """The gradient is that of the value."""
    convex: ClassVar[bool] = False
    shift_invariant: ClassVar[bool] = True
    """Adding a constant to all scores of a list changes nothing."""
    draw: ClassVar[str | None] = None
    """The name under which ``draws`` overrides what is random; None if nothing is."""

    weighting: ClassVar[Weighting | None] = None
    """What weights of documents scale; None: they have no meaning here."""
    unweighted: ClassVar[str] = "it does not say what they would scale"
    """Why weights of documents have no meaning here."""

    seed: int = 0

    @property
    @abstractmethod
    def function(self) -> ListFunction:
        """The list function behind :meth:`evaluate`."""

    @property
    def newton_function(self) -> ListFunction:
        """The list function behind :meth:`newton`."""
        return self.function

    @property
    def params(self) -> tuple[float, ...]:
        """The parameters as the list function takes them."""
        return ()

    def extra(
        self,
        labels: Labels,
        offsets: Offsets,
        keys: Keys,  # noqa: ARG002 - for overrides that sample
        draws: Draws,
    ) -> Prepared | None:
        """What to prepare for each list once, from labels and explicit draws.

        By default explicit draws are one number per document.
        """
        if self.draw is None or self.draw not in draws:
            return None
        values = np.ascontiguousarray(draws[self.draw], dtype=np.float64)
        if values.shape != labels.shape:
            raise DataError(
                f"draws[{self.draw!r}] must be {len(labels)} numbers, one per document, got shape "
                f"{values.shape}."
            )
        return Prepared(values, offsets)

    def weighted_extra(
        self,
        labels: Labels,
        offsets: Offsets,
        keys: Keys,
        draws: Draws,
        weights: NDArray[np.float64],
    ) -> Prepared:
        """The same for documents with weights, where they are weighed by ``"order"``."""
        own = self.extra(labels, offsets, keys, draws)
        return with_weights(own or no_extra(offsets), weights, offsets)

    def prepared(
        self,
        labels: Labels,
        offsets: Offsets,
        keys: Keys,
        draws: Draws,
        document_weights: ArrayLike | None,
    ) -> tuple[Labels, Prepared]:
        """Labels and what is prepared, with the weights of the documents in one or the other."""
        weights = as_document_weights(document_weights, len(labels))
        if weights is None:
            return labels, self.extra(labels, offsets, keys, draws) or no_extra(offsets)
        if self.weighting is None:
            raise UsageError(f"{self.name} cannot weigh documents: {self.unweighted}.")
        if self.weighting == "order":
            return labels, self.weighted_extra(labels, offsets, keys, draws, weights)
        y = weighted_labels(self.weighting, labels, weights)
        return y, self.extra(y, offsets, keys, draws) or no_extra(offsets)

    def noise(self, n_docs: int, draws: Draws) -> Noise:  # noqa: ARG002 - for Stochastic
        """How the scores are perturbed before the list function sees them: not at all."""
        return NO_NOISE

    def bind(
        self,
        labels: ArrayLike,
        offsets: ArrayLike,
        keys: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        draws: Draws | None = None,
        document_weights: ArrayLike | None = None,
    ) -> BoundObjective:
        """The objective for given lists, with all that depends on labels alone prepared.

        Trainers bind once and evaluate at each step.
        """
        for name in draws or ():
            self._check_draw(name)
        return as_lists(self, labels, offsets, keys, weights, draws or {}, document_weights)

    def boosting(
        self,
        labels: ArrayLike,
        offsets: ArrayLike,
        keys: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        document_weights: ArrayLike | None = None,
    ) -> GradientFunction:
        """What a trainer of trees calls at each step, as fast as it comes.

        It gives what :meth:`newton` gives, in single precision where the objective has such a form.
        """
        lists = self.bind(labels, offsets, keys, weights, document_weights=document_weights)
        return self.single(lists) or by_newton(lists)

    def single(
        self,
        lists: BoundObjective,  # noqa: ARG002
        samples: int = 0,  # noqa: ARG002
        beta: float = 0.0,  # noqa: ARG002
    ) -> GradientFunction | None:
        """A single-precision form for trees, perturbed by noise if ``samples`` > 0; None: none."""
        return None

    def evaluate(
        self,
        scores: ArrayLike,
        labels: ArrayLike,
        offsets: ArrayLike,
        step: int = 0,
        keys: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        draws: Draws | None = None,
        document_weights: ArrayLike | None = None,
    ) -> Derivatives:
        """Value per list, gradient and curvature per document.

        Parameters
        ----------
        scores, labels
            One number per document.
        offsets
            Where lists begin: list q holds documents offsets[q] to offsets[q + 1].
        step
            Which noise to take: the same step gives the same noise.
        keys
            One 64-bit number per list that its noise depends on; by default its position.
        weights
            One factor per list for value, gradient and curvature.
        draws
            Explicit values for what is random, under the name the objective declares.
        document_weights
            One factor per document for what it gains
            (:mod:`plackett.objectives.bound`).
        """
        bound = self.bind(labels, offsets, keys, weights, draws, document_weights)
        return bound.evaluate(scores, step)

    def newton(
        self,
        scores: ArrayLike,
        labels: ArrayLike,
        offsets: ArrayLike,
        step: int = 0,
        keys: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        draws: Draws | None = None,
        document_weights: ArrayLike | None = None,
    ) -> Derivatives:
        """Like :meth:`evaluate`, with the gradient that a trainer of trees divides by curvature.

        For most objectives it is the same; the softmax family folds the inverse of the whole
        Hessian into it.
        """
        bound = self.bind(labels, offsets, keys, weights, draws, document_weights)
        return bound.newton(scores, step)

    def _check_draw(self, name: str) -> None:
        if name != self.draw:
            known = f"only {self.draw!r}" if self.draw else "nothing: it is not random"
            raise UsageError(f"{self.name} draws {known}, not {name!r}.")


def no_extra(offsets: Offsets) -> Prepared:
    """Nothing prepared for any list."""
    return Prepared(np.empty(0), np.zeros_like(offsets))


def check_positive(objective: str, **parameters: float) -> None:
    """Refuse parameters that are not finite numbers above 0."""
    for name, value in parameters.items():
        if not (0 < value < math.inf):
            raise UsageError(f"{objective} needs a finite {name} > 0, got {name}={value!r}.")


def check_count(objective: str, **parameters: int | None) -> None:
    """Refuse parameters that are neither None (no limit) nor whole numbers from 1 on."""
    for name, value in parameters.items():
        if value is not None and (value < 1 or value != int(value)):
            raise UsageError(
                f"{objective} needs {name} to be a whole number >= 1, or None for no limit, got "
                f"{name}={value!r}."
            )


def check_choice(objective: str, choices: Sequence[str], **parameters: str) -> None:
    """Refuse parameters that are not among the choices."""
    for name, value in parameters.items():
        if value not in choices:
            raise UsageError(
                f"{objective} has no {name}={value!r}; there are: {', '.join(choices)}."
            )


def reseed(objective: Objective, seed: int) -> Objective:
    """The objective with ``seed`` added to its own, so that models of other seeds see other noise.

    An objective that draws nothing is returned as it is.
    """
    if seed == 0 or all(f.name != "seed" for f in fields(objective)):  # type: ignore[arg-type]
        return objective
    return replace(objective, seed=objective.seed + seed)  # type: ignore[type-var]
