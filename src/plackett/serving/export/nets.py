"""Neural nets as matrices: layers with their normalisation over batches folded in.

Scorers of single documents are a row of layers; a recurrent net adds one step of its cell from a
state of zeros. Nets that see several documents at once have no such form.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import UsageError
from plackett.data.transforms import FittedTransform
from plackett.models.neural.ranker import Net, NetSettings
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
    assert isinstance(ranker, Net)
    _check(ranker)
    found = []
    for place, net in enumerate(ranker.networks_):
        factor = part.factor * (ranker._shrinkage if place else 1.0)
        layers, cell = _taken_apart(ranker, net, place)
        found.append(ScoringNet(layers, cell, factor, part.transforms))
    return found


def _check(given: NetSettings) -> None:
    reasons = {
        "attention": "lets the documents of a list look at each other (attention)",
        "group_size": "scores groups of documents together (group_size)",
    }
    usual = {"attention": 0, "group_size": 1}
    for name, reason in reasons.items():
        if getattr(given, name) != usual[name]:
            raise UsageError(f"the net {reason}; only nets of layers can be exported.")


def _taken_apart(given: NetSettings, net: Any, place: int) -> tuple[tuple[Layer, ...], Cell | None]:
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
