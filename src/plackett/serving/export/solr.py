r"""Models of Solr's learning-to-rank module.

What to upload to ``/schema/model-store``: a model with its features by name and, where the model
has them, their normalisers. The features themselves (queries, fields) are defined in Solr's
feature store under the same names. All arithmetic of Solr is float32.

Solr's MultipleAdditiveTreesModel.

Solr goes left if :math:`x \le t + 10^{-6}`, with the sum rounded to float32. So a threshold t is
written as a float32 s for which s + 1e-6 is t exactly. There is one for nearly all thresholds
further than about 1e-6 from zero; where there is none, the model is refused, with one exception.
Splits between zero and what is next to it, which LightGBM writes as 1e-35, become splits at 0 and
at the nearest number below zero that the sum can be, -1.1e-13: values closer to zero than that
count as zero.

Scores of documents without a feature: Solr reads it as 0, unless ``isNullSameAsZero`` is false;
then each node says where it goes. That is written only where the model needs it. Solr versions that
do not know it refuse such a model.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import UsageError
from plackett.serving.export.linear import (
    Linear,
    Normalisers,
    affine_of,
    after_normalisers,
    normalisers_of,
)
from plackett.serving.export.nets import ScoringNet, merged
from plackett.serving.export.parts import Missing, differs_from_zero
from plackett.serving.export.trees import Trees, nested

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


SLACK = np.float32(1e-6)
"""What Solr adds to every threshold."""
NEAR_ZERO = np.float32(2.0**-43)
"""The step of sums of 1e-6 and a number close to -1e-6."""
_ZERO = np.float32(1e-30)  # thresholds up to this size only tell the sides of zero apart
_NEIGHBOURS = 4  # the right number is next to the difference, if it exists

Single = NDArray[np.float32]


def solr_trees(trees: Trees, names: tuple[str, ...], name: str, *, missing: Missing) -> str:
    """Trees as Solr takes them."""
    trees = trees.with_base_as_tree()
    told = missing == "keep" and differs_from_zero(trees)
    thresholds = without_slack(trees, names)
    values = trees.values.astype(np.float32)

    def leaf(place: int, depth: int) -> dict[str, Any]:  # noqa: ARG001 - one signature
        return {"value": repr(float(values[place]))}

    def split(node: int, depth: int, left: Any, right: Any) -> dict[str, Any]:  # noqa: ARG001
        written = {
            "feature": names[trees.feature[node]],
            "threshold": repr(float(thresholds[node])),
        }
        if told:
            written["missing"] = "left" if trees.nan_left[node] else "right"
        return {**written, "left": left, "right": right}

    params: dict[str, Any] = {"isNullSameAsZero": False} if told else {}
    params["trees"] = [
        {"weight": "1.0", "root": nested(trees, tree, leaf=leaf, split=split)}
        for tree in range(trees.n_trees)
    ]
    return model("MultipleAdditiveTreesModel", name, features(names, None), params)


def without_slack(trees: Trees, names: tuple[str, ...]) -> Single:
    """Numbers that become the thresholds when Solr has added its slack."""
    wanted = np.where(np.abs(trees.threshold) > _ZERO, trees.threshold, np.float32(0.0))
    wanted = np.where((wanted == 0) & (trees.threshold < 0), -NEAR_ZERO, wanted)
    with np.errstate(over="ignore"):
        found = wanted - SLACK
        right = found + SLACK == wanted
        for direction in (np.float32(np.inf), np.float32(-np.inf)):
            candidate = found.copy()
            for _ in range(_NEIGHBOURS):
                candidate = np.nextafter(candidate, direction)
                better = ~right & (candidate + SLACK == wanted)
                found, right = np.where(better, candidate, found), right | better
    if not right.all():
        at = int(np.flatnonzero(~right)[0])
        raise UsageError(
            f"Solr adds 1e-6 to each threshold in float32, and no number becomes "
            f"{float(wanted[at])!r}, a threshold on feature {names[trees.feature[at]]!r}, that "
            f"way ({int((~right).sum())} of {len(right)} thresholds). Multiply the feature by a "
            "thousand or more and fit again."
        )
    return found
