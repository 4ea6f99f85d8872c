r"""Sums of linear models as one.

With member m's factor f, weights w and features :math:`a x + b` the sum is :math:`\sum_j A_j x_j +
B`. Search engines have normalisers :math:`(x_j - c_j)/d_j` but no constant, so that

.. math:: \sum_j A_j d_j \frac{x_j - c_j}{d_j}, \qquad \sum_j A_j c_j = -B.

The c and d are those of the first member; where members differ, the c are moved by as little as
meets the condition.

Transforms of single features that are :math:`x \to a x + b`, as search engines know them.

Their normalisers subtract a number and divide by another. That holds ``standard`` and chains of
it; ``log1p`` and ``quantile`` have no counterpart there. ``impute`` changes missing values only,
which search engines read as zero: it can be left out where no value is ever missing.

Linear models for the learning-to-rank plugins of Elasticsearch and OpenSearch.

The body of a request ``POST _ltr/_featureset/SET/_createmodel``: weights by name as
``model/linear``, with ``feature_normalizers``. All arithmetic is float32; a missing feature is 0
before its normaliser.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import UsageError
from plackett.data.transforms import FittedImpute, FittedStandard, FittedTransform
from plackett.models.linear import LinearRanker
from plackett.serving.export.parts import Missing, Part


@dataclass(frozen=True, eq=False)
class Affine:
    """What becomes of each feature: slope times it plus shift; slopes are never negative."""

    slope: NDArray[np.float64]
    shift: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Normalisers:
    """What a search engine does to each feature first: subtract the centre, divide by the scale."""

    centre: NDArray[np.float64]
    scale: NDArray[np.float64]

    @property
    def present(self) -> NDArray[np.bool_]:
        """Features that are changed at all."""
        return (self.centre != 0.0) | (self.scale != 1.0)


def affine_of(
    transforms: Sequence[FittedTransform], n_features: int, *, missing: Missing, target: str
) -> Affine:
    """The transforms as one; refused where the target cannot express them."""
    slope, shift = np.ones(n_features), np.zeros(n_features)
    for each in transforms:
        if isinstance(each, FittedStandard):
            varies = each.deviation > 0
            divisor = np.where(varies, each.deviation, 1.0)
            slope = np.where(varies, slope / divisor, 0.0)
            shift = np.where(varies, (shift - each.mean) / divisor, 0.0)
        elif isinstance(each, FittedImpute):
            _check_impute(missing, target)
        else:
            raise UsageError(
                f"{target} cannot apply the transform {each.name!r} to features; it knows a mean "
                "and a deviation per feature. Fit with transforms=('standard',), apply "
                f"{each.name!r} where features are made, or export as onnx."
            )
    return Affine(slope, shift)


def normalisers_of(affines: Sequence[Affine]) -> Normalisers:
    """Those of the first affine that looks at the feature, so that others are close to them."""
    n_features = len(affines[0].slope)
    centre, scale = np.zeros(n_features), np.ones(n_features)
    for each in reversed(affines):
        used = each.slope > 0
        slope = np.where(used, each.slope, 1.0)
        centre = np.where(used, -each.shift / slope + 0.0, centre)  # -0.0 + 0.0 is 0.0
        scale = np.where(used, 1.0 / slope, scale)
    # Targets read them as float32; what stands behind them is made of the same rounded numbers.
    centre, scale = (each.astype(np.float32).astype(np.float64) for each in (centre, scale))
    if not np.all(np.isfinite(centre) & np.isfinite(scale) & (scale > 0.0)):
        j = int(np.argmin(np.isfinite(centre) & np.isfinite(scale) & (scale > 0.0)))
        raise UsageError(
            f"feature {j + 1} has a mean or a deviation that float32 cannot hold; scale it where "
            "features are made, or export as onnx."
        )
    return Normalisers(centre, scale)


def after_normalisers(affine: Affine, normalisers: Normalisers) -> Affine:
    """The affine that gives the same when the normalisers have been applied before it."""
    return Affine(
        affine.slope * normalisers.scale,
        affine.slope * normalisers.centre + affine.shift,
    )


def _check_impute(missing: Missing, target: str) -> None:
    if missing != "never":
        raise UsageError(
            f"{target} reads a missing feature as 0 and cannot put another value in its place, as "
            "the transform 'impute' does. Export with missing=\"never\" if every document has "
            "every feature, or export as onnx."
        )


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


def elasticsearch_linear(linear: Linear, names: tuple[str, ...], name: str) -> str:
    """A linear model with its normalisers."""
    weights = dict(zip(names, map(_single, linear.weights), strict=True))
    normalisers = {
        names[j]: {
            "standard": {
                "mean": _single(linear.normalisers.centre[j]),
                "standard_deviation": _single(linear.normalisers.scale[j]),
            }
        }
        for j in np.flatnonzero(linear.normalisers.present)
    }
    inner = {"type": "model/linear", "definition": json.dumps(weights)}
    if normalisers:
        inner |= {"feature_normalizers": normalisers}  # type: ignore[dict-item]
    return json.dumps({"model": {"name": name, "model": inner}}, allow_nan=False)


def _single(value: float) -> float:
    with np.errstate(over="ignore", under="ignore"):
        found = float(np.float32(value))
    if not np.isfinite(found):
        raise UsageError(f"{value!r} does not fit into float32, which the plugin computes in.")
    return found
