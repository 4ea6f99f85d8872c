"""User-defined objectives: one Python function of one list, run like the built-in ones."""

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numba import njit
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError

from plackett.base.errors import UsageError
from plackett.base.kernels import ListFunction
from plackett.objectives.driver import LIST_FUNCTION, Weighting
from plackett.objectives.objective import Objective

Kernel = Callable[..., float]
"""scores, labels, params, gradient, curvature -> value; all float64 arrays of one list."""


@dataclass(frozen=True)
class Custom(Objective):
    """An objective with a user's function; build it with :func:`custom`."""

    kernel: Kernel
    params: tuple[float, ...] = ()
    exact: bool = True  # type: ignore[misc]
    convex: bool = False  # type: ignore[misc]
    shift_invariant: bool = False  # type: ignore[misc]
    name: str = "custom"  # type: ignore[misc]
    weighting: Weighting | None = None  # type: ignore[misc]
    unweighted_reason: ClassVar[str] = (
        "its function sees labels only; set weighting= to the function of labels that it uses"
    )

    @property
    def function(self) -> ListFunction:  # type: ignore[override]
        return _adapt(self.kernel)


def custom(
    kernel: Kernel,
    params: Sequence[float] = (),
    exact: bool = True,
    convex: bool = False,
    shift_invariant: bool = False,
    name: str | None = None,
    weighting: Weighting | None = None,
) -> Custom:
    """Make an objective from a Python function of one list.

    Parameters
    ----------
    kernel
        A function ``kernel(scores, labels, params, gradient, curvature)`` that Numba can compile. All arguments are
        contiguous float64 arrays. It fills ``gradient`` and ``curvature``, which are zero on entry, and returns the
        value. It must not raise. It is not called for lists with one document or one label level.
    params
        Numbers passed to it.
    exact
        Whether the gradient is the derivative of the value; linear models need it.
    convex
        Whether the value is convex in the scores; the curvature then bounds the second derivative.
    shift_invariant
        Whether the value stays the same if a constant is added to all scores.
    name
        For tables and messages; by default the function's name.
    weighting
        What document weights scale: ``"gain"`` if the function uses 2^y - 1 of labels y,
        ``"share"`` if y itself, ``"exponential"`` if e^y - 1. It then receives labels that include
        the weights (:mod:`plackett.objectives.driver`). None: weights are an error.

    Examples
    --------
    >>> def squared(scores, labels, params, gradient, curvature):
    ...     value = 0.0
    ...     for i in range(len(scores)):
    ...         error = scores[i] - labels[i]
    ...         value += 0.5 * error * error
    ...         gradient[i] = error
    ...         curvature[i] = 1.0
    ...     return value
    >>> objective = custom(squared, convex=True)
    >>> objective.evaluate([1.0, 1.0], [0, 1], [0, 2]).gradient.tolist()
    [1.0, 0.0]
    """
    if not callable(kernel):
        raise UsageError(f"custom needs a function of one list, got {type(kernel).__name__}.")
    n_arguments = len(inspect.signature(getattr(kernel, "py_func", kernel)).parameters)
    if n_arguments != 5:
        raise UsageError(
            "custom needs a function of five arguments, (scores, labels, params, gradient, curvature); "
            f"{getattr(kernel, '__name__', 'it')} has {n_arguments}."
        )
    if weighting not in (None, "gain", "share", "exponential"):
        raise UsageError(f"weighting must be 'gain', 'share', 'exponential' or None, got {weighting!r}.")
    label = name or str(getattr(kernel, "__name__", "custom"))
    numbers = tuple(float(p) for p in params)
    objective = Custom(kernel, numbers, exact, convex, shift_invariant, label, weighting)
    try:
        objective.function.address  # noqa: B018 - compiles now, so that errors show here
    except NumbaError as error:
        raise UsageError(
            f"the function {label!r} cannot be compiled; it may use numbers, NumPy arrays and "
            f"loops, and takes (scores, labels, params, gradient, curvature).\n{error}"
        ) from error
    return objective


def digest(kernel: Kernel) -> str:
    """A hash of the function's code, which changes when the function does."""
    code = (kernel.py_func if isinstance(kernel, Dispatcher) else kernel).__code__
    plain = [c for c in code.co_consts if c is None or isinstance(c, (int, float, str, tuple))]
    parts = (code.co_code.hex(), code.co_names, plain)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


@lru_cache(maxsize=256)
def _adapt(kernel: Kernel) -> ListFunction:
    """A list function with our signature that calls the user's function."""
    compiled = kernel if isinstance(kernel, Dispatcher) else njit(nogil=True)(kernel)

    def custom_list(  # type: ignore[no-untyped-def]
        scores, labels, _prepared, _key, params, gradient, curvature
    ):
        return compiled(scores, labels.astype(np.float64), params, gradient, curvature)

    return ListFunction(custom_list, LIST_FUNCTION, cached=False)
