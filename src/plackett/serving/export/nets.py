"""Neural nets as matrices: layers with their normalisation over batches folded in.

Scorers of single documents are a row of layers; a recurrent net adds one step of its cell from a
state of zeros. Nets that see several documents at once have no such form.

Several nets side by side as one: block matrices, and the sum in the last layer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from plackett.base.errors import UsageError
from plackett.data.transforms import FittedTransform
from plackett.models.neural.ranker import BaseNeuralRanker
from plackett.serving.export.linear import Affine
from plackett.serving.export.parts import Part

Matrix = NDArray[np.float64]
_ACTIVATIONS = {
    "ReLU": "relu",
    "ELU": "elu",
    "GELU": "gelu",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "SiLU": "silu",
}
"""PyTorch's names of activations, and ours."""
_KNOWN = ("Linear", "BatchNorm1d", "Dropout", "Identity", *_ACTIVATIONS)


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
    """rnn, lstm or gru."""
    matrix: Matrix
    bias: NDArray[np.float64]
    state_bias: NDArray[np.float64]
    """What the state of zeros adds."""
    both: bool
    """Whether the score sees the input of the cell beside its state."""
    last: Layer


@dataclass(frozen=True, eq=False)
class ScoringNet:
    """A net that scores one document, times a factor."""

    layers: tuple[Layer, ...]
    cell: Cell | None
    factor: float
    transforms: tuple[FittedTransform, ...]


def nets_of(parts: tuple[Part, ...]) -> tuple[ScoringNet, ...]:
    """All nets of the parts."""
    return tuple(net for part in parts for net in _nets(part))


def _nets(part: Part) -> list[ScoringNet]:
    ranker = part.ranker
    assert isinstance(ranker, BaseNeuralRanker)
    _check(ranker)
    found = []
    for place, net in enumerate(ranker.networks_):
        factor = part.factor * (ranker.correction_scale if place else 1.0)
        layers, cell = _taken_apart(ranker, net, place)
        found.append(ScoringNet(layers, cell, factor, part.transforms))
    return found


def _check(given: BaseNeuralRanker) -> None:
    reasons = {
        "attention": "lets the documents of a list look at each other (attention)",
        "group_size": "scores groups of documents together (group_size)",
    }
    usual = {"attention": 0, "group_size": 1}
    for name, reason in reasons.items():
        if getattr(given, name) != usual[name]:
            raise UsageError(f"the net {reason}; only nets of layers can be exported.")


def _taken_apart(
    given: BaseNeuralRanker, net: Any, place: int
) -> tuple[tuple[Layer, ...], Cell | None]:
    """Layers and cell of a net; nets after the first of a recurrent one are plain."""
    if given.module is not None:
        return _own_layers(net.net), None
    if given.recurrent is None or place > 0:
        body, last = net.net
        return (*_folded(body), _layer(last)), None
    cell = Cell(
        given.recurrent,
        _array(net.cell.weight_ih),
        _array(net.cell.bias_ih),
        _array(net.cell.bias_hh),
        net.both,
        _layer(net.last),
    )
    return _folded(net.body), cell


def _own_layers(net: Any) -> tuple[Layer, ...]:
    """The layers of a module of the user's own, if it is a row of layers and nothing else."""
    row = _row(net)
    for module in row:
        if not _is_known(module):
            raise UsageError(
                f"the net is a module of your own with {type(module).__name__}; of modules, only "
                f"nn.Sequential of {', '.join(_KNOWN)} can be exported. Give networks_[0].net to "
                "torch.onnx.export; the ranker's transforms come before it."
            )
    layers = _folded(row)
    if not layers or len(layers[-1].bias) != 1:
        raise UsageError("the net is a module of your own that does not end in one score.")
    return layers


def _row(net: Any) -> list[Any]:
    """Modules in the order in which they are applied, those inside others too."""
    from torch import nn

    if type(net) is not nn.Sequential:
        return [net]
    return [module for child in net for module in _row(child)]


def _is_known(module: Any) -> bool:
    """Whether a module is a layer that has a form here, with its usual settings."""
    usual = {"ELU": ("alpha", 1.0), "GELU": ("approximate", "none")}
    kind = type(module)
    if kind.__name__ not in _KNOWN or kind.__module__.split(".")[0] != "torch":
        return False
    if kind.__name__ == "BatchNorm1d" and module.running_mean is None:
        return False  # normalises by the documents that happen to be scored together
    name, value = usual.get(kind.__name__, ("training", module.training))
    return bool(getattr(module, name) == value)


def _folded(row: Iterable[Any]) -> tuple[Layer, ...]:
    """Layers with what is linear between two activations as one matrix, batch norms among it."""
    layers: list[Layer] = []
    for module in row:
        kind = type(module).__name__
        if kind in ("Dropout", "Identity"):
            continue
        is_open = bool(layers) and layers[-1].activation == "identity"
        if kind in _ACTIVATIONS:
            before = layers.pop() if is_open else _nothing(layers)
            layers.append(Layer(before.matrix, before.bias, _ACTIVATIONS[kind]))
        else:
            layer = _layer(module) if kind == "Linear" else _normalisation(module)
            layers.append(_composed(layer, layers.pop()) if is_open else layer)
    return tuple(layers)


def _nothing(layers: list[Layer]) -> Layer:
    """A layer that leaves the outputs of those before it as they are."""
    if not layers:
        raise UsageError("the net begins with an activation; only one after a layer has a form.")
    width = len(layers[-1].bias)
    return Layer(np.eye(width), np.zeros(width), "identity")


def _composed(after: Layer, before: Layer) -> Layer:
    """Two layers without activation as one."""
    return Layer(after.matrix @ before.matrix, after.matrix @ before.bias + after.bias, "identity")


def _normalisation(module: Any) -> Layer:
    factor = 1.0 / np.sqrt(_array(module.running_var) + module.eps)
    factor = factor if module.weight is None else _array(module.weight) * factor
    bias = 0.0 if module.bias is None else _array(module.bias)
    shift = bias - factor * _array(module.running_mean)
    return Layer(np.diag(factor), shift, "identity")


def _layer(module: Any) -> Layer:
    matrix = _array(module.weight)
    bias = np.zeros(len(matrix)) if module.bias is None else _array(module.bias)
    return Layer(matrix, bias, "identity")


def _array(tensor: Any) -> NDArray[np.float64]:
    return np.asarray(tensor.detach().cpu().numpy(), np.float64)


def merged(nets: tuple[ScoringNet, ...], inputs: list[Affine], *, target: str) -> list[Layer]:
    """One row of layers with the sum of the scores of all nets.

    Parameters
    ----------
    nets
        Nets of equal depth and activations.
    inputs
        What each net does to the features first.
    target
        Whom to name in errors.
    """
    if any(net.cell is not None for net in nets):
        raise UsageError(f"{target} knows layers only, not the recurrent cell of this net.")
    shapes = {tuple(layer.activation for layer in net.layers) for net in nets}
    if len(shapes) > 1:
        raise UsageError(f"the nets of the model differ in depth; {target} holds one net.")
    firsts = [
        Layer(
            net.layers[0].matrix * affine.slope,
            net.layers[0].bias + net.layers[0].matrix @ affine.shift,
            net.layers[0].activation,
        )
        for net, affine in zip(nets, inputs, strict=True)
    ]
    stacks = [[first, *net.layers[1:]] for first, net in zip(firsts, nets, strict=True)]
    depth = len(stacks[0])
    factors = [net.factor for net in nets]
    return [_side_by_side([s[k] for s in stacks], k, depth, factors) for k in range(depth)]


def _side_by_side(layers: list[Layer], place: int, depth: int, factors: list[float]) -> Layer:
    matrices, biases = [each.matrix for each in layers], [each.bias for each in layers]
    if place == depth - 1:  # the last layer has one output: the weighted sum
        matrices = [f * matrix for f, matrix in zip(factors, matrices, strict=True)]
        total = np.sum([f * bias for f, bias in zip(factors, biases, strict=True)], axis=0)
        joined = np.sum(matrices, axis=0) if place == 0 else np.concatenate(matrices, axis=1)
        return Layer(joined, total, layers[0].activation)
    joined = np.concatenate(matrices) if place == 0 else block_diag(*matrices)
    return Layer(joined, np.concatenate(biases), layers[0].activation)
