"""How a solver ended: a report instead of a silent stop."""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import ConvergenceWarning, DataError
from plackett.models.linear.products import Weights


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
