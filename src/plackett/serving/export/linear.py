r"""Sums of linear models as one model, with the normalizers that search engines offer.

The normalizer of a search engine subtracts a number from a feature and divides by another. That covers the transform
``standard`` and chains of it; ``log1p`` and ``quantile`` have no counterpart. ``impute`` changes missing values only,
which search engines read as zero, so it can be omitted if no value is missing.

With member m's factor f, weights w and features :math:`a x + b` the sum is :math:`\sum_j A_j x_j +
B`. Search engines have normalizers :math:`(x_j - c_j)/d_j` but no constant, so that

.. math:: \sum_j A_j d_j \frac{x_j - c_j}{d_j}, \qquad \sum_j A_j c_j = -B.

The c and d are those of the first member; where members differ, the c are moved by the smallest
amount that meets the condition.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import Message, Parameter, UsageError
from plackett.data.transforms import FittedImpute, FittedStandard, FittedTransform
from plackett.models.linear import BaseLinearRanker
from plackett.serving.export.parts import ExportRequest, Missing


@dataclass(frozen=True, eq=False)
class Affine:
    """Transforms as slope times feature plus shift; slopes are never negative."""

    slope: NDArray[np.float64]
    shift: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Normalizers:
    """What a search engine does to each feature: subtract the center, divide by the scale."""

    center: NDArray[np.float64]
    scale: NDArray[np.float64]

    @property
    def is_needed(self) -> NDArray[np.bool_]:
        """Whether each feature changes at all."""
        return (self.center != 0.0) | (self.scale != 1.0)


def make_affine(transforms: Sequence[FittedTransform], n_features: int, *, missing: Missing, target: str) -> Affine:
    """Combine transforms; raise if the target cannot express them."""
    slope, shift = np.ones(n_features), np.zeros(n_features)
    for transform in transforms:
        if isinstance(transform, FittedStandard):
            varies = transform.deviation > 0
            divisor = np.where(varies, transform.deviation, 1.0)
            slope = np.where(varies, slope / divisor, 0.0)
            shift = np.where(varies, (shift - transform.mean) / divisor, 0.0)
        elif not isinstance(transform, FittedImpute):
            raise UsageError(
                f"{target} cannot apply the transform {transform.name!r} to features; it supports "
                "a mean and a deviation per feature. Fit with transforms=('standard',), apply "
                f"{transform.name!r} where features are computed, or export as onnx."
            )
        elif missing != "never":
            raise UsageError(
                Message(
                    f"{target} reads a missing feature as 0 and cannot replace it by another "
                    "value, as the transform 'impute' does. Export with ",
                    Parameter("missing", "never"),
                    " if every document has every feature, or export as onnx.",
                )
            )
    return Affine(slope, shift)


def make_normalizers(affines: Sequence[Affine]) -> Normalizers:
    """Take each feature's normalizer from the first member that uses the feature."""
    n_features = len(affines[0].slope)
    center, scale = np.zeros(n_features), np.ones(n_features)
    for affine in reversed(affines):
        used = affine.slope > 0
        slope = np.where(used, affine.slope, 1.0)
        center = np.where(used, -affine.shift / slope + 0.0, center)  # -0.0 + 0.0 is 0.0
        scale = np.where(used, 1.0 / slope, scale)
    # Targets read float32 numbers; the weights are computed for the rounded normalizers.
    center, scale = (array.astype(np.float32).astype(np.float64) for array in (center, scale))
    valid = np.isfinite(center) & np.isfinite(scale) & (scale > 0.0)
    if not valid.all():
        raise UsageError(
            f"feature {int(np.argmin(valid)) + 1} has a mean or a deviation that float32 cannot "
            "hold; scale it where features are computed, or export as onnx."
        )
    return Normalizers(center, scale)


def after_normalizers(affine: Affine, normalizers: Normalizers) -> Affine:
    """The affine that gives the same result on normalized features."""
    return Affine(affine.slope * normalizers.scale, affine.slope * normalizers.center + affine.shift)


def merge_linear(request: ExportRequest, target: str) -> tuple[NDArray[np.float64], Normalizers]:
    """Add up linear rankers: a weight for each normalized feature, and the normalizers."""
    parts, n_features = request.parts, len(request.names)
    affines = [make_affine(part.transforms, n_features, missing=request.missing, target=target) for part in parts]
    normalizers = make_normalizers(affines)
    weights, constant = np.zeros(n_features), 0.0
    for part, affine in zip(parts, affines, strict=True):
        assert isinstance(part.ranker, BaseLinearRanker)
        scaled = part.factor * part.ranker.coefficients_
        relative = after_normalizers(affine, normalizers)
        weights += scaled * relative.slope
        constant += float(scaled @ relative.shift) if len(parts) > 1 else 0.0
    if constant == 0.0:
        return weights, normalizers
    squares = float(weights @ weights)
    if squares == 0.0:
        raise UsageError("all weights of the model are zero: it gives every document the same score.")
    moved = normalizers.center - normalizers.scale * weights * (constant / squares)
    return weights, Normalizers(moved, normalizers.scale)


def elasticsearch_linear(request: ExportRequest) -> str:
    """Write the body of a request ``POST _ltr/_featureset/SET/_createmodel``.

    It holds weights by name as ``model/linear``, and ``feature_normalizers``. The plugins compute
    in float32; a missing feature is 0 before its normalizer.
    """
    (weights, merged), names = merge_linear(request, "Elasticsearch"), request.names
    means, deviations = to_float32(merged.center), to_float32(merged.scale)
    normalizers = {
        names[j]: {"standard": {"mean": means[j], "standard_deviation": deviations[j]}}
        for j in np.flatnonzero(merged.is_needed)
    }
    definition = json.dumps(dict(zip(names, to_float32(weights), strict=True)))
    inner: dict[str, Any] = {"type": "model/linear", "definition": definition}
    if normalizers:
        inner["feature_normalizers"] = normalizers
    return json.dumps({"model": {"name": request.name, "model": inner}}, allow_nan=False)


def to_float32(values: Any) -> list[float]:
    """Round to float32, in which search engines compute; never whole numbers without a point."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = np.asarray(values, np.float64).astype(np.float32)
    if not np.isfinite(rounded).all():
        raise UsageError("a number of the model does not fit into float32, in which the target computes.")
    return [float(value) for value in rounded]
