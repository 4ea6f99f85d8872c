"""What a solver returns: weights, and a report on how the search for them ended."""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import ConvergenceWarning, DataError, Message, Setting

Weights = NDArray[np.float64]
"""One number per feature."""


class Iterate(NamedTuple):
    """Weights with the value and the gradient of a function there."""

    weights: Weights
    value: float
    gradient: Weights


class Planes(NamedTuple):
    """Tangents of a convex loss: the loss lies above a w + b for each of them."""

    a: NDArray[np.float64]
    """One row per plane."""
    b: NDArray[np.float64]


@dataclass(frozen=True)
class Convergence:
    """How one run of a solver ended."""

    solver: str
    converged: bool
    reason: str
    iterations: int
    evaluations: int
    """Evaluations of the objective over all lists."""
    value: float
    """The sum over lists plus the penalty; NaN for objectives without a value."""
    gradient_norm: float
    """The largest component of the gradient, divided by the number of lists; NaN where the solver
    works with subgradients."""
    gap: float = math.nan
    """(value - lower bound) / value, where the solver has a certificate: an upper bound on how far
    the value is from the minimum."""
    trace: tuple[float, ...] = ()
    """The value after each iteration (of ``adam``: the metric it selects by)."""

    def __str__(self) -> str:
        end = "converged" if self.converged else "did not converge"
        gap = "" if math.isnan(self.gap) else f", relative gap {self.gap:.2g}"
        norm = "" if math.isnan(self.gradient_norm) else f", gradient {self.gradient_norm:.2g}"
        return (
            f"{self.solver} {end} after {self.iterations} iterations ({self.reason}): value {self.value:.6g}{norm}{gap}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data; numbers that JSON cannot hold become None."""
        return {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, data: Any) -> Convergence:
        """Read the result of :meth:`to_dict`."""
        try:
            value, norm, gap = (
                math.nan if data[key] is None else float(data[key]) for key in ("value", "gradient_norm", "gap")
            )
            trace = tuple(float(value) for value in data["trace"])
            end = (str(data["solver"]), bool(data["converged"]), str(data["reason"]))
            counts = (int(data["iterations"]), int(data["evaluations"]))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"is not a solver report: {error!r}") from error
        return cls(*end, *counts, value, norm, gap, trace)


@dataclass(frozen=True)
class Solution:
    """Weights of the features, and how they were found."""

    weights: Weights
    convergence: Convergence
    planes: Planes | None = None
    """For cutting planes: the tangents that are active at the minimum; they hold for any C."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "weights": self.weights.tolist(),
            "convergence": self.convergence.to_dict(),
            "planes": None if self.planes is None else [part.tolist() for part in self.planes],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Solution:
        """Read the result of :meth:`to_dict`."""
        planes = None
        if data["planes"] is not None:
            planes = Planes(*(np.array(part, dtype=np.float64) for part in data["planes"]))
        weights = np.array(data["weights"], dtype=np.float64)
        return cls(weights, Convergence.from_dict(data["convergence"]), planes)


_STANDARD = Setting("transforms", ("standard",))


def warn_unless_converged(report: Convergence, *, C: float) -> None:
    """Warn about a solver that stopped early, and say what to do."""
    if report.converged:
        return
    if "max_iterations" in report.reason:
        advice = Message(
            "Raise ",
            Setting("max_iterations"),
            ", lower ",
            Setting("C"),
            ", or put the features on one scale (",
            _STANDARD,
            ").",
        )
    else:
        advice = Message(
            "Lower ",
            Setting("C"),
            ", put the features on one scale (",
            _STANDARD,
            "), or, for a custom objective, check its gradient.",
        )
    message = Message(f"{report}, with C={C:g}. ", advice)
    warnings.warn(message, ConvergenceWarning, stacklevel=5)
