"""How likely each position is to be examined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import Rows


@dataclass(frozen=True, eq=False)
class Propensities:
    """The chance of being examined at positions 1, 2, 3 ...

    Only ratios matter for learning, and only ratios can be estimated from clicks: estimates have
    1 as their largest.
    """

    values: NDArray[np.float64]
    """For positions from 1 on; NaN where it is not known."""
    method: str = "given"
    pooled: bool = False
    """True if positions beyond the last count like the last."""

    def __post_init__(self) -> None:
        known = ~np.isnan(self.values)
        if self.values.ndim != 1 or not known.any():
            raise DataError(f"propensities must be one number per position, got {self.values!r}.")
        bad = known & ~((self.values >= 0) & (self.values < np.inf))
        if bad.any():
            at = int(np.argmax(bad))
            raise DataError(
                f"the propensity of position {at + 1} is {self.values[at]}; propensities are "
                "finite and not negative."
            )
        self.values.flags.writeable = False

    @classmethod
    def of(cls, given: Propensities | Mapping[int, float] | ArrayLike) -> Propensities:
        """Propensities from a mapping of positions, or from one value per position from 1 on.

        >>> Propensities.of({1: 1.0, 3: 0.4}).values.tolist()
        [1.0, nan, 0.4]
        """
        if isinstance(given, Propensities):
            return given
        if isinstance(given, Mapping):
            return cls(_from_mapping(given))
        try:
            return cls(np.array(given, dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise DataError(f"propensities must be numbers: {error}.") from error

    @classmethod
    def power(cls, eta: float, n_positions: int) -> Propensities:
        """Position k is examined with chance k to the power -eta."""
        if not 0 <= eta < np.inf or n_positions < 1:
            raise UsageError(
                f"needs a finite eta >= 0 and n_positions >= 1, got {eta} and {n_positions}."
            )
        return cls(np.arange(1.0, n_positions + 1) ** -eta, method=f"power {eta:g}")

    def at(self, positions: Rows, *, clip: float | None = None) -> NDArray[np.float64]:
        """The propensity of each position; those below ``clip`` count as it."""
        if clip is not None and not 0 <= clip <= 1:
            raise UsageError(f"clip must lie between 0 and 1, got {clip}.")
        places = np.asarray(positions) - 1
        if self.pooled:
            places = np.minimum(places, len(self.values) - 1)
        known = places < len(self.values)
        found = np.full(len(places), np.nan)
        found[known] = self.values[places[known]]
        return found if clip is None else np.where(np.isnan(found), found, np.maximum(found, clip))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        known = np.flatnonzero(~np.isnan(self.values))
        return {
            "method": self.method,
            "pooled": self.pooled,
            "propensities": {str(k + 1): float(self.values[k]) for k in known},
        }


def _from_mapping(given: Mapping[int, float]) -> NDArray[np.float64]:
    if not given:
        raise DataError("propensities are given for no position.")
    for position in given:
        if not isinstance(position, (int, np.integer)) or position < 1:
            raise DataError(f"propensities are given for positions from 1 on, got {position!r}.")
    values = np.full(int(max(given)), np.nan)
    for position, value in given.items():
        values[position - 1] = value
    return values
