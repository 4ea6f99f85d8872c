"""Neural nets as matrices, with batch normalization folded into the layers.

Scorers of single documents are sequences of layers; a recurrent net adds one step of its cell from
a state of zeros. Nets that see several documents at once cannot be written this way. Several nets
become one net of block matrices, whose last layer adds up their scores.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from plackett.base.errors import Message, Parameter, UsageError
from plackett.data.transforms import FittedImpute, FittedStandard, FittedTransform
from plackett.models import BaseLinearRanker, BaseNeuralRanker
from plackett.serving.export.parts import ExportRequest, Missing, Part


@dataclass(frozen=True, eq=False)
class Affine:
    """Transforms as slope times feature plus shift; slopes are never negative."""

    slope: NDArray[np.float64]
    shift: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Normalizers:
    """The normalization of each feature in a search engine: subtract the center, divide by the scale."""

    center: NDArray[np.float64]
    scale: NDArray[np.float64]

    @property
    def is_needed(self) -> NDArray[np.bool_]:
        """Whether each feature changes at all."""
        return (self.center != 0.0) | (self.scale != 1.0)


def make_affine(transforms: Sequence[FittedTransform], n_features: int, *, missing: Missing, target: str) -> Affine:
    """Combine transforms; raise UsageError if the target cannot express them."""
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
    """The affine transform of normalized features that gives the same result."""
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


Matrix = NDArray[np.float64]
_ACTIVATIONS = {"ReLU": "relu", "ELU": "elu", "GELU": "gelu", "Tanh": "tanh", "Sigmoid": "sigmoid", "SiLU": "silu"}
"""PyTorch's names of activations, and ours."""
_SUPPORTED = ("Linear", "BatchNorm1d", "Dropout", "Identity", *_ACTIVATIONS)


@dataclass(frozen=True, eq=False)
class Layer:
    """activation(matrix @ x + bias)."""

    matrix: Matrix
    bias: NDArray[np.float64]
    activation: str


@dataclass(frozen=True, eq=False)
class Cell:
    """One step of a recurrent cell from a state of zeros, then the score."""

    kind: str
    matrix: Matrix
    bias: NDArray[np.float64]
    state_bias: NDArray[np.float64]
    both: bool
    """Whether the score is computed from the input of the cell and its state."""
    last: Layer


@dataclass(frozen=True, eq=False)
class ScoringNet:
    """A net that scores one document, with its factor and transforms."""

    layers: tuple[Layer, ...]
    cell: Cell | None
    factor: float
    transforms: tuple[FittedTransform, ...]


def find_nets(parts: tuple[Part, ...]) -> tuple[ScoringNet, ...]:
    """Convert all nets of the parts."""
    return tuple(net for part in parts for net in _convert_nets(part))


def _convert_nets(part: Part) -> list[ScoringNet]:
    ranker = part.ranker
    assert isinstance(ranker, BaseNeuralRanker)
    reasons = {
        "lets the documents of a list attend to each other (attention)": ranker.attention > 0,
        "reads the whole list before it scores a document (local_context)": ranker.local_context,
        "scores groups of documents together (group_size)": ranker.group_size > 1,
    }
    for reason, applies in reasons.items():
        if applies:
            raise UsageError(f"the net {reason}; only nets of layers can be exported.")
    factors = [part.factor * (ranker.shrinkage if learner else 1.0) for learner in range(len(ranker.networks_))]
    return [
        ScoringNet(*_convert_net(ranker, net, learner), factors[learner], part.transforms)
        for learner, net in enumerate(ranker.networks_)
    ]


def _convert_net(ranker: BaseNeuralRanker, net: Any, learner: int) -> tuple[tuple[Layer, ...], Cell | None]:
    """Layers and cell of a net; only the first net of a ranker is recurrent."""
    if ranker.module is not None:
        return _convert_module(net.net), None
    if ranker.recurrent is None or learner > 0:
        body, last = net.net
        return (*_fold_layers(body), _convert_linear(last)), None
    cell = Cell(
        ranker.recurrent,
        _array(net.cell.weight_ih),
        _array(net.cell.bias_ih),
        _array(net.cell.bias_hh),
        net.both,
        _convert_linear(net.last),
    )
    return _fold_layers(net.body), cell


def _convert_module(net: Any) -> tuple[Layer, ...]:
    """The layers of a user's module, if it is a sequence of supported layers."""
    sequence = _flatten(net)
    for module in sequence:
        if not _is_supported(module):
            raise UsageError(
                f"the net is a user-supplied module with {type(module).__name__}; of modules, only "
                f"nn.Sequential of {', '.join(_SUPPORTED)} can be exported. Pass networks_[0].net "
                "to torch.onnx.export; the ranker's transforms come before it."
            )
    layers = _fold_layers(sequence)
    if not layers or len(layers[-1].bias) != 1:
        raise UsageError("the net is a user-supplied module that does not end in one score.")
    return layers


def _flatten(net: Any) -> list[Any]:
    """The modules of nested nn.Sequential in the order in which they are applied."""
    from torch import nn

    if type(net) is not nn.Sequential:
        return [net]
    return [module for child in net for module in _flatten(child)]


def _is_supported(module: Any) -> bool:
    """Whether a module is a supported layer with default settings."""
    defaults = {"ELU": ("alpha", 1.0), "GELU": ("approximate", "none")}
    kind = type(module)
    if kind.__name__ not in _SUPPORTED or kind.__module__.split(".")[0] != "torch":
        return False
    if kind.__name__ == "BatchNorm1d" and module.running_mean is None:
        return False  # normalizes by the documents that are scored together
    name, value = defaults.get(kind.__name__, ("training", module.training))
    return bool(getattr(module, name) == value)


def _fold_layers(sequence: Iterable[Any]) -> tuple[Layer, ...]:
    """Fold all linear modules between two activations, batch norms too, into one layer."""
    layers: list[Layer] = []
    for module in sequence:
        kind = type(module).__name__
        if kind in ("Dropout", "Identity"):
            continue
        is_open = bool(layers) and layers[-1].activation == "identity"
        if kind in _ACTIVATIONS:
            before = layers.pop() if is_open else _identity(layers)
            layers.append(Layer(before.matrix, before.bias, _ACTIVATIONS[kind]))
        else:
            layer = _convert_linear(module) if kind == "Linear" else _convert_norm(module)
            if is_open:
                before = layers.pop()
                bias = layer.matrix @ before.bias + layer.bias
                layer = Layer(layer.matrix @ before.matrix, bias, "identity")
            layers.append(layer)
    return tuple(layers)


def _identity(layers: list[Layer]) -> Layer:
    """A layer that does not change the outputs of those before it."""
    if not layers:
        raise UsageError("the net begins with an activation; activations must follow a layer.")
    width = len(layers[-1].bias)
    return Layer(np.eye(width), np.zeros(width), "identity")


def _convert_norm(module: Any) -> Layer:
    factor = 1.0 / np.sqrt(_array(module.running_var) + module.eps)
    factor = factor if module.weight is None else _array(module.weight) * factor
    bias = 0.0 if module.bias is None else _array(module.bias)
    shift = bias - factor * _array(module.running_mean)
    return Layer(np.diag(factor), shift, "identity")


def _convert_linear(module: Any) -> Layer:
    matrix = _array(module.weight)
    bias = np.zeros(len(matrix)) if module.bias is None else _array(module.bias)
    return Layer(matrix, bias, "identity")


def _array(tensor: Any) -> NDArray[np.float64]:
    return np.asarray(tensor.detach().cpu().numpy(), np.float64)


def merge_nets(nets: tuple[ScoringNet, ...], inputs: list[Affine], *, target: str) -> list[Layer]:
    """Combine nets of equal depth and activations, with their transforms, into one that adds their scores."""
    if any(net.cell is not None for net in nets):
        raise UsageError(f"{target} supports layers only, not the recurrent cell of this net.")
    shapes = {tuple(layer.activation for layer in net.layers) for net in nets}
    if len(shapes) > 1:
        raise UsageError(f"the nets of the model differ in depth; {target} stores one net.")
    stacks = []
    for (first, *others), affine in zip((net.layers for net in nets), inputs, strict=True):
        bias = first.bias + first.matrix @ affine.shift
        stacks.append([Layer(first.matrix * affine.slope, bias, first.activation), *others])
    depth = len(stacks[0])
    merged = []
    for place, layers in enumerate(zip(*stacks, strict=True)):
        is_last = place == depth - 1  # it has one output: the weighted sum
        factors = [net.factor if is_last else 1.0 for net in nets]
        matrices = [factor * layer.matrix for factor, layer in zip(factors, layers, strict=True)]
        biases = [factor * layer.bias for factor, layer in zip(factors, layers, strict=True)]
        if place == 0:
            matrix = np.sum(matrices, axis=0) if is_last else np.concatenate(matrices)
        else:
            matrix = np.concatenate(matrices, axis=1) if is_last else block_diag(*matrices)
        bias = np.sum(biases, axis=0) if is_last else np.concatenate(biases)
        merged.append(Layer(matrix, bias, layers[0].activation))
    return merged
