"""The contract of objectives: a definition, and the definition bound to lists.

An :class:`Objective` is a definition: parameters, a list function and declared properties.
:meth:`Objective.bind` checks labels and weights once, prepares what depends on them alone and
returns a :class:`BoundObjective`, which a trainer evaluates at each step. A bound objective holds
the functions, parameters and seed itself and never calls the definition again::

    Objective.bind -> BoundObjective.evaluate -> driver (all lists, in parallel) -> list function
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.kernels import ListFunction
from plackett.base.ragged import Keys, Labels, Offsets, Rows, Scores, Values, as_offsets, take_lists
from plackett.base.random import mix_keys
from plackett.objectives import driver

Draws: TypeAlias = Mapping[str, Any]
"""Explicit values for what is random, by name."""

Limits: TypeAlias = Mapping[str, Callable[..., None]]
"""By parameter name: a function that raises if the value is not allowed, such as ``check_whole`` below."""


class GradientFunction(Protocol):
    """Scores and step to gradient and curvature, float32 or float64: what a tree trainer calls.

    Only lists for which ``drawn`` is true are needed; values for other lists are arbitrary.
    """

    def __call__(
        self, scores: Scores, step: int, drawn: NDArray[np.bool_] | None = None, /
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...


Float32Function: TypeAlias = Callable[[Scores, Keys, NDArray[np.bool_] | None], tuple[NDArray[Any], NDArray[Any]]]
"""Scores, the keys of a step and which lists are needed to gradient and curvature in float32."""


class Derivatives(NamedTuple):
    """Values (one per list), gradient and curvature (one per document) at given scores; all float64."""

    values: Values
    """One per list; NaN where the objective has no loss."""
    gradient: Scores
    """One per document: the derivative of its list's value with respect to its score."""
    curvature: Scores
    """One per document, never negative."""


class Prepared(NamedTuple):
    """Numbers computed for each list once; list q has values[offsets[q] : offsets[q + 1]]."""

    values: NDArray[np.float64]
    offsets: Offsets


class ListLabels(NamedTuple):
    """The checked inputs that an objective prepares its numbers from."""

    labels: Labels
    offsets: Offsets
    keys: Keys
    draws: Draws
    document_weights: NDArray[np.float64] | None = None
    """Only where the objective weights documents by ``"order"``."""


class ScoreNoise(NamedTuple):
    """How scores are perturbed before the list function sees them."""

    uniform: NDArray[np.float64]
    """Explicit draws, one row per sample; no rows: draw them."""
    samples: int
    """0: the scores are not perturbed."""
    beta: float
    normalize: bool
    """Turn perturbed scores into log-probabilities."""


NO_NOISE = ScoreNoise(np.empty((0, 0)), 0, 0.0, False)


class Objective(ABC):
    """A loss of the scores of one list, to be minimized.

    Subclasses are frozen dataclasses whose fields are the parameters. Their declared properties
    decide which solvers accept them and which tests run.
    """

    name: ClassVar[str]
    exact: ClassVar[bool] = True
    """The gradient is the derivative of the value."""
    convex: ClassVar[bool] = False
    shift_invariant: ClassVar[bool] = True
    """Adding a constant to all scores of a list changes nothing."""
    has_scale: ClassVar[bool] = False
    """Each score has a meaning by itself, such as a label; stochastic scores are then not normalized."""
    draw: ClassVar[str | None] = None
    """Key of ``draws`` that replaces the objective's random numbers; None if it has none."""

    weighting: ClassVar[driver.Weighting | None] = None
    """What document weights scale; None: they are not supported."""
    unweighted_reason: ClassVar[str] = "it does not define what they would scale"

    function: ClassVar[ListFunction]
    """The list function behind :meth:`evaluate`."""
    newton_function: ClassVar[ListFunction | None] = None
    """The list function behind :meth:`newton`, if it is another one."""

    seed: int = 0

    limits: ClassVar[Limits] = {}
    """The check of each parameter that not every value is allowed for."""
    choices: ClassVar[Mapping[str, Sequence[str]]] = {}
    """The words that are allowed for a parameter that is a word."""

    def __post_init__(self) -> None:
        for name, check in self.limits.items():
            check(self.name, **{name: getattr(self, name)})
        for name, words in self.choices.items():
            check_choice(self.name, words, **{name: getattr(self, name)})
        check_seed(self.name, self.seed)

    @property
    def params(self) -> tuple[float, ...]:
        """The parameters for the list functions: the fields without the seed; None becomes 0, words become numbers."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "seed"}  # type: ignore[arg-type]
        words = self.choices
        return tuple(float(words[name].index(v) if name in words else v or 0) for name, v in values.items())

    @property
    def uses_one_level(self) -> bool:
        """Whether lists whose labels are all equal have a loss; for most objectives they have none."""
        return False

    @property
    def float32_form(self) -> Callable[[BoundObjective], Float32Function] | None:
        """Builds the single-precision form for tree trainers; None: there is none."""
        return None

    def prepare(self, lists: ListLabels) -> Prepared | None:
        """Compute what depends on labels and explicit draws alone.

        By default, explicit draws are one number per document.
        """
        if self.draw is None or self.draw not in lists.draws:
            return None
        values = np.ascontiguousarray(lists.draws[self.draw], dtype=np.float64)
        if values.shape != lists.labels.shape:
            raise DataError(
                f"draws[{self.draw!r}] must be {len(lists.labels)} numbers, one per document, got shape {values.shape}."
            )
        return Prepared(values, lists.offsets)

    def prepare_weighted(self, lists: ListLabels) -> Prepared:
        """Like :meth:`prepare`, for objectives that weight documents by ``"order"``."""
        assert lists.document_weights is not None
        prepared = self.prepare(lists) or _nothing_prepared(lists.offsets)
        return Prepared(*driver.append_weights(*prepared, lists.document_weights, lists.offsets))

    def bind(
        self,
        labels: ArrayLike,
        offsets: ArrayLike,
        keys: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        draws: Draws | None = None,
        document_weights: ArrayLike | None = None,
    ) -> BoundObjective:
        """Bind the objective to lists; the parameters are those of :meth:`evaluate`.

        Trainers bind once and evaluate at each step.
        """
        for name in draws or ():
            if name != self.draw:
                known = f"only {self.draw!r}" if self.draw else "nothing: it is not random"
                raise UsageError(f"{self.name} draws {known}, not {name!r}.")
        lists = _check_lists(labels, offsets, keys, draws)
        if weights is not None:
            array = np.asarray(weights, dtype=np.float64)
            weights = _check_per_list("weights", array, len(lists.keys))
        y, prepared = self._prepare(lists, document_weights)
        return BoundObjective(
            labels=y,
            offsets=lists.offsets,
            keys=lists.keys,
            weights=weights,
            prepared=prepared,
            function=self.function,
            newton_function=self.newton_function or self.function,
            params=np.array(self.params, dtype=np.float64),
            seed=self.seed if self.draw is not None or _is_random(self) else None,
            uses_one_level=self.uses_one_level,
            # The single-precision forms make their own draws.
            float32_form=None if draws else self.float32_form,
        )

    def _prepare(self, lists: ListLabels, document_weights: ArrayLike | None) -> tuple[Labels, Prepared]:
        """Labels and prepared numbers, with the document weights in one or the other."""
        weights = None
        if document_weights is not None:
            weights = driver.check_document_weights(document_weights, len(lists.labels))
        if weights is not None:
            if self.weighting is None:
                raise UsageError(f"{self.name} does not support document weights: {self.unweighted_reason}.")
            if self.weighting == "order":
                weighted = lists._replace(document_weights=weights)
                return lists.labels, self.prepare_weighted(weighted)
            lists = lists._replace(labels=driver.weighted_labels(self.weighting, lists.labels, weights))
        return lists.labels, self.prepare(lists) or _nothing_prepared(lists.offsets)

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
        """Compute the value per list, and gradient and curvature per document.

        Parameters
        ----------
        scores, labels
            One number per document.
        offsets
            Where lists begin: list q holds documents offsets[q] to offsets[q + 1].
        step
            Number of the training step; each step has its own random numbers.
        keys
            One 64-bit number per list that its random numbers depend on; by default its position.
        weights
            One factor per list for value, gradient and curvature.
        draws
            Explicit values for what is random, under the name the objective declares.
        document_weights
            One factor per document for its gain (:mod:`plackett.objectives.driver`).
        """
        return self.bind(labels, offsets, keys, weights, draws, document_weights).evaluate(scores, step)

    def newton(
        self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, step: int = 0, *args: Any, **options: Any
    ) -> Derivatives:
        """Like :meth:`evaluate`, with the gradient that a tree trainer divides by the curvature.

        For most objectives it is the same; the softmax family multiplies it by an approximate inverse of the whole
        Hessian. Further arguments are those of :meth:`evaluate`.
        """
        return self.bind(labels, offsets, *args, **options).newton(scores, step)


@dataclass(frozen=True)
class BoundObjective:
    """An objective bound to the labels of lists, ready to be evaluated at any scores."""

    labels: Labels
    offsets: Offsets
    keys: Keys
    weights: NDArray[np.float64] | None
    """One per list."""
    prepared: Prepared
    function: ListFunction
    newton_function: ListFunction
    params: NDArray[np.float64]
    seed: int | None
    """None: the objective has no random numbers."""
    float32_form: Callable[[BoundObjective], Float32Function] | None = None
    noise: ScoreNoise = NO_NOISE
    uses_one_level: bool = False

    def evaluate(self, scores: ArrayLike, step: int = 0) -> Derivatives:
        """Value, gradient and curvature at these scores."""
        return self._run(self.function, scores, step)

    def newton(self, scores: ArrayLike, step: int = 0) -> Derivatives:
        """Like :meth:`evaluate`, with the gradient for a tree trainer."""
        return self._run(self.newton_function, scores, step)

    def float32_gradient(
        self, scores: ArrayLike, step: int = 0, drawn: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Gradient and curvature of :meth:`newton`, computed as fast as possible.

        They are float32 where the objective has a single-precision form, else float64. Lists where
        ``drawn`` is false may be left out.
        """
        if self._float32_function is None:
            _, gradient, curvature = self.newton(scores, step)
            return gradient, curvature
        return self._float32_function(self._check_scores(scores), self.step_keys(step), drawn)

    @cached_property
    def _float32_function(self) -> Float32Function | None:
        # Those forms perturb scores, but do not normalize them afterwards.
        if self.float32_form is None or self.noise.normalize:
            return None
        return self.float32_form(self)

    def _run(self, function: ListFunction, scores: ArrayLike, step: int) -> Derivatives:
        s = self._check_scores(scores)
        values, gradient, curvature = result = Derivatives(np.empty(len(self.keys)), *np.empty((2, len(s))))
        lists = s, self.labels, self.offsets, *self.prepared, self.step_keys(step), self.params
        driver.each_list.compiled(function.address, *lists, *self.noise, self.uses_one_level, *result)
        if self.weights is not None:
            values *= self.weights
            factors = np.repeat(self.weights, np.diff(self.offsets))
            gradient *= factors
            curvature *= factors
        return result

    def _check_scores(self, scores: ArrayLike) -> Scores:
        s = np.ascontiguousarray(scores, dtype=np.float64)
        if s.shape != self.labels.shape:
            raise DataError(f"scores must be {len(self.labels)} numbers, one per label, got shape {s.shape}.")
        return s

    def step_keys(self, step: int) -> Keys:
        """Keys of the lists mixed with the seed and the step, for objectives with random numbers."""
        if self.seed is None:
            return self.keys
        return mix_keys(self.keys, np.uint64(self.seed % 2**64), np.uint64(step % 2**64))

    def take(self, positions: Rows) -> BoundObjective:
        """The lists at these positions, in this order, with their prepared numbers.

        Explicit draws of noise are not taken along.
        """
        documents, offsets = _entries(self.offsets, positions)
        numbers, number_offsets = _entries(self.prepared.offsets, positions)
        return replace(
            self,
            labels=self.labels[documents],
            offsets=offsets,
            keys=self.keys[positions],
            weights=None if self.weights is None else self.weights[positions],
            prepared=Prepared(self.prepared.values[numbers], number_offsets),
            noise=self.noise._replace(uniform=NO_NOISE.uniform),
        )


def _entries(offsets: Offsets, positions: Rows) -> tuple[slice | Rows, Offsets]:
    if len(positions) != 1:
        return take_lists(offsets, positions)
    # The entries of a single list are contiguous: a slice copies nothing.
    low, high = offsets[positions[0]], offsets[positions[0] + 1]
    return slice(low, high), np.array([0, high - low])


def _check_lists(labels: ArrayLike, offsets: ArrayLike, keys: ArrayLike | None, draws: Draws | None) -> ListLabels:
    y = np.ascontiguousarray(labels, dtype=np.float32)
    # Where a label is NaN, so are the smallest and the largest, and both comparisons fail.
    if y.ndim != 1 or not (y.min(initial=0.0) >= 0.0 and y.max(initial=0.0) < np.inf):
        raise DataError("labels must be one finite, non-negative number per document.")
    o = as_offsets(offsets, len(y))
    n_lists = len(o) - 1
    k = np.arange(n_lists, dtype=np.uint64) if keys is None else np.asarray(keys, dtype=np.uint64)
    return ListLabels(y, o, np.ascontiguousarray(_check_per_list("keys", k, n_lists)), draws or {})


def _check_per_list(name: str, values: NDArray[Any], n_lists: int) -> NDArray[Any]:
    if values.shape != (n_lists,):
        raise DataError(f"{name} must be {n_lists}, one per list, got shape {values.shape}.")
    return values


def _nothing_prepared(offsets: Offsets) -> Prepared:
    return Prepared(np.empty(0), np.zeros_like(offsets))


def reseed(objective: Objective, seed: int) -> Objective:
    """Add ``seed`` to the objective's seed, so that models with different seeds get different noise.

    An objective without random numbers is returned unchanged.
    """
    if seed == 0 or not _is_random(objective):
        return objective
    return replace(objective, seed=objective.seed + seed)  # type: ignore[type-var]


def _is_random(objective: Objective) -> bool:
    """Whether the objective has random numbers: then ``seed`` is one of its parameters."""
    return any(f.name == "seed" for f in fields(objective))  # type: ignore[arg-type]


def check_positive(objective: str, **parameters: float) -> None:
    """Raise unless the parameters are finite numbers above 0."""
    for name, value in parameters.items():
        if not (0 < value < math.inf):
            raise UsageError(f"{objective} needs a finite {name} > 0, got {name}={value!r}.")


def check_count(objective: str, **parameters: int | None) -> None:
    """Raise unless the parameters are None (no limit) or whole numbers from 1 on."""
    for name, value in parameters.items():
        if value is not None and not _is_count(value):
            raise UsageError(
                f"{objective} needs {name} to be a whole number >= 1, or None for no limit, got {name}={value!r}."
            )


def check_whole(objective: str, **parameters: int) -> None:
    """Raise unless the parameters are whole numbers from 1 on."""
    for name, value in parameters.items():
        if value is None or not _is_count(value):
            raise UsageError(f"{objective} needs {name} to be a whole number >= 1, got {name}={value!r}.")


def _is_count(value: float) -> bool:
    return 1 <= value < math.inf and value == int(value)


def check_seed(objective: str, seed: int) -> None:
    """Raise unless the seed is a whole number."""
    if not isinstance(seed, (int, np.integer)):
        raise UsageError(f"{objective} needs seed to be a whole number, got seed={seed!r}.")


def check_between(objective: str, low: float, high: float = math.inf, **parameters: float) -> None:
    """Raise unless the parameters are finite numbers from ``low`` to ``high``."""
    for name, value in parameters.items():
        if not (low <= value <= high and value < math.inf):
            limits = f"a finite {name} >= {low:g}" if high == math.inf else (f"{name} between {low:g} and {high:g}")
            raise UsageError(f"{objective} needs {limits}, got {name}={value!r}.")


def check_choice(objective: str, choices: Sequence[str], **parameters: str) -> None:
    """Raise unless the parameters are among the choices."""
    for name, value in parameters.items():
        if value not in choices:
            raise UsageError(f"{objective} has no {name}={value!r}; there are: {', '.join(choices)}.")
