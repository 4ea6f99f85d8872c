"""What an objective returns."""

from __future__ import annotations

from typing import NamedTuple

from plackett.base.ragged import Scores, Values


class Derivatives(NamedTuple):
    """Value, gradient and curvature of an objective at given scores; all float64."""

    values: Values
    """One per list; NaN where the objective has no loss."""
    gradient: Scores
    """One per document: the derivative of its list's value by its score."""
    curvature: Scores
    """One per document, never negative."""
