"""Transforms of features as ONNX operations: float64 inside, float32 between them, as here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plackett.base.errors import UsageError
from plackett.data.transforms import (
    FittedImpute,
    FittedQuantile,
    FittedStandard,
    FittedTransform,
    Log1p,
)
from plackett.serving.export.onnx_form.graph import FEATURES, Graph
from plackett.serving.export.onnx_form.quantile import add_quantile

_LARGEST = float(np.finfo(np.float32).max)


def add_transforms(graph: Graph, transforms: Sequence[FittedTransform]) -> str:
    """The transformed features, float32."""
    features = FEATURES
    for each in transforms:
        features = _add(graph, each, features)
    return features


def _add(graph: Graph, transform: FittedTransform, features: str) -> str:
    if isinstance(transform, FittedStandard):
        return _standard(graph, transform, features)
    if isinstance(transform, Log1p):
        return _log1p(graph, transform, features)
    if isinstance(transform, FittedImpute):
        fill = graph.constant(transform.fill.astype(np.float32))
        return graph.add("Where", graph.add("IsNaN", features), fill, features)
    if isinstance(transform, FittedQuantile):
        return graph.cast(add_quantile(graph, transform, features), "float32")
    raise UsageError(f"the transform {transform.name!r} cannot be exported to ONNX.")


def _standard(graph: Graph, transform: FittedStandard, features: str) -> str:
    varies = transform.deviation > 0
    centred = graph.add("Sub", graph.cast(features, "float64"), graph.constant(transform.mean))
    # A constant feature becomes 0 times its difference: 0, and NaN where it is missing.
    kept = graph.add("Mul", centred, graph.constant(varies.astype(np.float64)))
    divisor = graph.constant(np.where(varies, transform.deviation, 1.0))
    value = graph.add("Div", kept, divisor)
    held = graph.add("Clip", value, graph.constant(-_LARGEST), graph.constant(_LARGEST))
    return graph.cast(held, "float32")


def _log1p(graph: Graph, transform: Log1p, features: str) -> str:
    r"""ONNX has no log1p.

    With :math:`u = 1 + x` rounded, :math:`\log(1+x) = x \log(u) / (u - 1)` to the last bits, and x
    itself where u is 1 (Kahan).
    """
    wide, one = graph.cast(features, "float64"), graph.constant(1.0)
    size = graph.add("Abs", wide)
    u = graph.add("Add", size, one)
    is_one = graph.add("Equal", u, one)
    rest = graph.add("Where", is_one, one, graph.add("Sub", u, one))
    ratio = graph.add("Div", graph.add("Mul", size, graph.add("Log", u)), rest)
    value = graph.add("Where", is_one, size, ratio)
    if transform.clip is not None:
        value = graph.add("Min", value, graph.constant(float(transform.clip)))
    signed = graph.add("Mul", value, graph.add("Sign", wide))
    return graph.cast(signed, "float32")
