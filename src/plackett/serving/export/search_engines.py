r"""Models for search engines: Solr, and the plugins of Elasticsearch and OpenSearch, which read RankLib's XML.

A model of Solr's learning-to-rank module, to upload to ``/schema/model-store``, names its features and, if needed,
their normalizers. The features themselves (queries, fields) are defined in Solr's feature store under the same names.
Solr computes in float32.

Trees become a MultipleAdditiveTreesModel. Solr goes left if :math:`x \le t + 10^{-6}`, with the sum rounded to float32,
so a threshold t is written as a float32 s for which s + 1e-6 is exactly t. Such an s exists for nearly all thresholds
farther than about 1e-6 from zero; if it does not, the export fails. The exception are splits between zero and its
neighbors, which LightGBM writes as 1e-35: they become splits at 0 and at the nearest number below zero that the sum can
reach, -1.1e-13. Values closer to zero than that count as zero.

Solr reads a missing feature as 0, unless ``isNullSameAsZero`` is false; then each node states the side
for missing values. This is written only if the model needs it, because older versions of Solr reject it.

The type of RankLib's XML in the plugins is ``model/ranklib``. RankLib's reader selects the children of a tag by
position and strips line breaks and trailing space, so the file has one tag per line and nothing between tags. A
document goes left if :math:`x \le t` in float32; features count from 1 and have no names; a missing value is zero.
"""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import UsageError
from plackett.serving.export import formulas
from plackett.serving.export.parts import ExportRequest, check_absent_is_zero
from plackett.serving.export.trees import Position, Trees, fold_trees

_PACKAGE = "org.apache.solr.ltr"
_ACTIVATIONS = ("identity", "relu", "sigmoid", "tanh")


def solr_model(request: ExportRequest) -> str:
    """Write a model for Solr."""
    writers = {"trees": _tree_model, "linear": _linear_model, "net": _net_model}
    return writers[request.kind](request)


def _linear_model(request: ExportRequest) -> str:
    weights, normalizers = formulas.merge_linear(request, "Solr")
    by_name = dict(zip(request.names, formulas.to_float32(weights), strict=True))
    return _format(request, "LinearModel", {"weights": by_name}, normalizers)


def _net_model(request: ExportRequest) -> str:
    nets, n_features = formulas.find_nets(request.parts), len(request.names)
    affines = [formulas.make_affine(net.transforms, n_features, missing=request.missing, target="Solr") for net in nets]
    normalizers = formulas.make_normalizers(affines)
    inputs = [formulas.after_normalizers(affine, normalizers) for affine in affines]
    layers = formulas.merge_nets(nets, inputs, target="Solr")
    for layer in layers:
        if layer.activation not in _ACTIVATIONS:
            raise UsageError(
                f"Solr has no activation {layer.activation!r}; it has {', '.join(_ACTIVATIONS)}. "
                "Fit with one of these, or export as onnx."
            )
    written = [
        {
            "matrix": [formulas.to_float32(row) for row in layer.matrix],
            "bias": formulas.to_float32(layer.bias),
            "activation": layer.activation,
        }
        for layer in layers
    ]
    return _format(request, "NeuralNetworkModel", {"layers": written}, normalizers)


def _format(
    request: ExportRequest, kind: str, params: dict[str, Any], normalizers: formulas.Normalizers | None = None
) -> str:
    """Format a model with its features and their normalizers."""
    features: list[dict[str, Any]] = [{"name": name} for name in request.names]
    for j in np.flatnonzero(normalizers.is_needed) if normalizers else ():
        assert normalizers is not None
        mean, deviation = formulas.to_float32([normalizers.center[j], normalizers.scale[j]])
        features[j]["norm"] = {
            "class": f"{_PACKAGE}.norm.StandardNormalizer",
            "params": {"avg": repr(mean), "std": repr(deviation)},
        }
    model = {"class": f"{_PACKAGE}.model.{kind}", "name": request.name, "features": features, "params": params}
    return json.dumps(model, allow_nan=False)


SLACK = np.float32(1e-6)
"""Solr adds this to every threshold."""
NEAR_ZERO = np.float32(2.0**-43)
"""The spacing of sums of 1e-6 and a number close to -1e-6."""
_ZERO = np.float32(1e-30)  # thresholds up to this size separate zero from its neighbors
_NEIGHBORS = 4  # the number, if it exists, is this close to the difference


def _tree_model(request: ExportRequest) -> str:
    trees, names = request.trees.with_base_as_tree(), request.names
    with_sides = request.missing == "keep" and bool(trees.nan_differs_from_zero.any())
    thresholds = subtract_slack(trees, names)
    values = trees.values.astype(np.float32)

    def leaf(position: Position) -> dict[str, Any]:
        return {"value": repr(float(values[position.at]))}

    def split(position: Position, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        node = position.at
        written = {"feature": names[trees.feature[node]], "threshold": repr(float(thresholds[node]))}
        if with_sides:
            written["missing"] = "left" if trees.nan_left[node] else "right"
        return {**written, "left": left, "right": right}

    params: dict[str, Any] = {"isNullSameAsZero": False} if with_sides else {}
    params["trees"] = [{"weight": "1.0", "root": root} for root in fold_trees(trees, leaf=leaf, split=split)]
    return _format(request, "MultipleAdditiveTreesModel", params)


def subtract_slack(trees: Trees, names: tuple[str, ...]) -> NDArray[np.float32]:
    """The numbers that become the thresholds when Solr adds its slack."""
    wanted = np.where(np.abs(trees.threshold) > _ZERO, trees.threshold, np.float32(0.0))
    wanted = np.where((wanted == 0) & (trees.threshold < 0), -NEAR_ZERO, wanted)
    with np.errstate(over="ignore"):
        written = wanted - SLACK
        exact = written + SLACK == wanted
        for direction in (np.float32(np.inf), np.float32(-np.inf)):
            candidate = written.copy()
            for _ in range(_NEIGHBORS):
                candidate = np.nextafter(candidate, direction)
                better = ~exact & (candidate + SLACK == wanted)
                written, exact = np.where(better, candidate, written), exact | better
    if not exact.all():
        at = int(np.flatnonzero(~exact)[0])
        raise UsageError(
            f"Solr adds 1e-6 to each threshold in float32, and no float32 number plus 1e-6 is {float(wanted[at])!r}, a "
            f"threshold on feature {names[trees.feature[at]]!r} ({int((~exact).sum())} of {len(exact)} thresholds are "
            "affected). Multiply the feature by a thousand or more and fit again."
        )
    return written


def ranklib_xml(request: ExportRequest) -> str:
    """Write trees as a LambdaMART model of RankLib."""
    check_absent_is_zero(request, "RankLib")
    trees = request.trees.with_base_as_tree()
    head = [
        "## LambdaMART",
        f"## No. of trees = {trees.n_trees}",
        f"## No. of leaves = {int(np.diff(trees.leaf_offsets).max(initial=1))}",
        "## No. of threshold candidates = 256",
        "## Learning rate = 1.0",
        "## Stop early = 100",
        "",
        "<ensemble>",
    ]

    def leaf(position: Position) -> list[str]:
        indent = "\t" * (position.depth + 3)
        return [f"{indent}<output> {float(np.float32(trees.values[position.at]))!r} </output>"]

    def split(position: Position, left: list[str], right: list[str]) -> list[str]:
        indent = "\t" * (position.depth + 3)
        return [
            f"{indent}<feature> {trees.feature[position.at] + 1} </feature>",
            f"{indent}<threshold> {float(trees.threshold[position.at])!r} </threshold>",
            f'{indent}<split pos="left">',
            *left,
            f"{indent}</split>",
            f'{indent}<split pos="right">',
            *right,
            f"{indent}</split>",
        ]

    body: list[str] = []
    for i, lines in enumerate(fold_trees(trees, leaf=leaf, split=split)):
        body += [f'\t<tree id="{i + 1}" weight="1.0">', "\t\t<split>", *lines, "\t\t</split>", "\t</tree>"]
    return "\n".join([*head, *body, "</ensemble>"]) + "\n"
