"""Models of Solr's learning-to-rank module.

What to upload to ``/schema/model-store``: a model with its features by name and, where the model
has them, their normalisers. The features themselves (queries, fields) are defined in Solr's
feature store under the same names. All arithmetic of Solr is float32.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from plackett.base.errors import UsageError
from plackett.serving.export.affine import (
    Normalisers,
    affine_of,
    after_normalisers,
    normalisers_of,
)
from plackett.serving.export.linear import Linear
from plackett.serving.export.merged_nets import merged
from plackett.serving.export.missing import Missing
from plackett.serving.export.nets import ScoringNet

PACKAGE = "org.apache.solr.ltr"
TARGET = "Solr"
_ACTIVATIONS = ("identity", "relu", "sigmoid", "tanh")


def solr_linear(linear: Linear, names: tuple[str, ...], name: str) -> str:
    """A LinearModel."""
    weights = dict(zip(names, _single(linear.weights), strict=True))
    return model("LinearModel", name, features(names, linear.normalisers), {"weights": weights})


def solr_net(
    nets: tuple[ScoringNet, ...], names: tuple[str, ...], name: str, *, missing: Missing
) -> str:
    """A NeuralNetworkModel."""
    affines = [
        affine_of(net.transforms, len(names), missing=missing, target=TARGET) for net in nets
    ]
    normalisers = normalisers_of(affines)
    inputs = [after_normalisers(affine, normalisers) for affine in affines]
    layers = merged(nets, inputs, target=TARGET)
    for layer in layers:
        if layer.activation not in _ACTIVATIONS:
            raise UsageError(
                f"Solr has no activation {layer.activation!r}; it has {', '.join(_ACTIVATIONS)}. "
                "Fit with one of these, or export as onnx."
            )
    written = [
        {
            "matrix": [_single(row) for row in layer.matrix],
            "bias": _single(layer.bias),
            "activation": layer.activation,
        }
        for layer in layers
    ]
    return model("NeuralNetworkModel", name, features(names, normalisers), {"layers": written})


def features(names: tuple[str, ...], normalisers: Normalisers | None) -> list[dict[str, Any]]:
    """Features by name, with a normaliser where there is something to do."""
    found: list[dict[str, Any]] = [{"name": name} for name in names]
    if normalisers is None:
        return found
    for j in np.flatnonzero(normalisers.present):
        average, deviation = _single(np.array([normalisers.centre[j], normalisers.scale[j]]))
        found[j]["norm"] = {
            "class": f"{PACKAGE}.norm.StandardNormalizer",
            "params": {"avg": repr(average), "std": repr(deviation)},
        }
    return found


def model(kind: str, name: str, listed: list[dict[str, Any]], params: dict[str, Any]) -> str:
    """A model as Solr takes it."""
    content = {
        "class": f"{PACKAGE}.model.{kind}",
        "name": name,
        "features": listed,
        "params": params,
    }
    return json.dumps(content, allow_nan=False)


def _single(values: Any) -> list[float]:
    """Rounded to float32, which is what Solr makes of them; never whole numbers without a point."""
    with np.errstate(over="ignore", under="ignore"):
        found = np.asarray(values, np.float64).astype(np.float32)
    if not np.isfinite(found).all():
        raise UsageError("a number of the model does not fit into float32, which Solr computes in.")
    return [float(value) for value in found]
