r"""Sums of linear models as one.

With member m's factor f, weights w and features :math:`a x + b` the sum is :math:`\sum_j A_j x_j +
B`. Search engines have normalisers :math:`(x_j - c_j)/d_j` but no constant, so that

.. math:: \sum_j A_j d_j \frac{x_j - c_j}{d_j}, \qquad \sum_j A_j c_j = -B.

The c and d are those of the first member; where members differ, the c are moved by as little as
meets the condition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import UsageError
from plackett.models.linear import LinearRanker
from plackett.serving.export.affine import (
    Normalisers,
    affine_of,
    after_normalisers,
    normalisers_of,
)
from plackett.serving.export.missing import Missing
from plackett.serving.export.parts import Part


@dataclass(frozen=True, eq=False)
class Linear:
    """A weight for each normalised feature."""

    weights: NDArray[np.float64]
    normalisers: Normalisers


def linear_of(parts: tuple[Part, ...], *, missing: Missing, target: str) -> Linear:
    """The sum of linear rankers."""
    n_features = parts[0].ranker.n_features_ or 0
    affines = [
        affine_of(part.transforms, n_features, missing=missing, target=target) for part in parts
    ]
    normalisers = normalisers_of(affines)
    weights, constant = np.zeros(n_features), 0.0
    for part, affine in zip(parts, affines, strict=True):
        assert isinstance(part.ranker, LinearRanker)
        scaled = part.factor * part.ranker.coefficients_
        relative = after_normalisers(affine, normalisers)
        weights += scaled * relative.slope
        constant += float(scaled @ relative.shift) if len(parts) > 1 else 0.0
    return Linear(weights, _with_constant(weights, normalisers, constant))


def _with_constant(
    weights: NDArray[np.float64], normalisers: Normalisers, constant: float
) -> Normalisers:
    """Move the centres so that the constant is part of them."""
    if constant == 0.0:
        return normalisers
    squares = float(weights @ weights)
    if squares == 0.0:
        raise UsageError("all weights of the model are zero: it gives every document one score.")
    moved = normalisers.centre - normalisers.scale * weights * (constant / squares)
    return Normalisers(moved, normalisers.scale)
