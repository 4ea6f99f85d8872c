"""Neural nets as matrices: layers with their normalisation over batches folded in.

Scorers of single documents are a row of layers; a recurrent net adds one step of its cell from a
state of zeros. Nets that see several documents at once have no such form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import UsageError
from plackett.data.transforms import FittedTransform
from plackett.models.neural.net import Net
from plackett.models.neural.settings import NetSettings
from plackett.serving.export.parts import Part

Matrix = NDArray[np.float64]


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
        "module": "is a module of your own; export its networks_ with torch.onnx.export",
    }
    usual = {"attention": 0, "group_size": 1, "module": None}
    for name, reason in reasons.items():
        if getattr(given, name) != usual[name]:
            raise UsageError(f"the net {reason}; only nets of layers can be exported.")


def _taken_apart(given: NetSettings, net: Any, place: int) -> tuple[tuple[Layer, ...], Cell | None]:
    """Layers and cell of a net; nets after the first of a recurrent one are plain."""
    if given.recurrent is None or place > 0:
        body, last = net.net
        return (*_folded(given, body), Layer(*_linear(last), "identity")), None
    cell = Cell(
        given.recurrent,
        _array(net.cell.weight_ih),
        _array(net.cell.bias_ih),
        _array(net.cell.bias_hh),
        net.both,
        Layer(*_linear(net.last), "identity"),
    )
    return _folded(given, net.body), cell


def _folded(given: NetSettings, body: Any) -> tuple[Layer, ...]:
    """The layers of a body with batch normalisation as part of their matrices."""
    from torch import nn

    layers: list[Layer] = []
    before: Layer | None = None  # a normalisation that waits for the matrix after it
    is_open = False  # the last matrix has not met its activation yet
    for module in body:
        if isinstance(module, nn.BatchNorm1d):
            scaling = _normalisation(module)
            if is_open:
                layers[-1] = _composed(scaling, layers[-1])
            else:
                before = scaling
        elif isinstance(module, nn.Linear):
            layer = Layer(*_linear(module), "identity")
            layers.append(layer if before is None else _composed(layer, before))
            before, is_open = None, True
        elif not isinstance(module, nn.Dropout):
            layers[-1] = Layer(layers[-1].matrix, layers[-1].bias, given.activation)
            is_open = False
    return tuple(layers if before is None else [*layers, before])


def _composed(after: Layer, before: Layer) -> Layer:
    """Two layers without activation as one."""
    return Layer(after.matrix @ before.matrix, after.matrix @ before.bias + after.bias, "identity")


def _normalisation(module: Any) -> Layer:
    factor = _array(module.weight) / np.sqrt(_array(module.running_var) + module.eps)
    shift = _array(module.bias) - factor * _array(module.running_mean)
    return Layer(np.diag(factor), shift, "identity")


def _linear(module: Any) -> tuple[Matrix, NDArray[np.float64]]:
    return _array(module.weight), _array(module.bias)


def _array(tensor: Any) -> NDArray[np.float64]:
    return np.asarray(tensor.detach().cpu().numpy(), np.float64)
