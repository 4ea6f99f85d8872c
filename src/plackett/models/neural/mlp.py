r"""Fully connected nets.

.. math:: x \to \text{BN} \to [W \to \text{BN} \to \phi \to \text{dropout}]^L \to w \to \text{score}

Normalisation over the batch, where asked for, is on the input and between the layers, as in Bruch
et al. (2020). Its momentum m follows TensorFlow,
:math:`\text{running} \leftarrow m \cdot \text{running} + (1 - m) \cdot \text{batch}`; PyTorch calls
:math:`1 - m` momentum. A constant that is added before a normalisation is taken out again by it:
its gradient is a rounding error, from which Adam would make steps of full length, so it stays as
it began. That is each W's bias, and that of the normalisation of the input.
"""

from __future__ import annotations

from torch import Tensor, nn

from plackett.base.ragged import Offsets
from plackett.models.neural.settings import NetSettings

_ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
}


def body(given: NetSettings, n_inputs: int) -> nn.Sequential:
    """The layers before the last one."""
    parts: list[nn.Module] = []
    if given.batch_norm is not None:
        norm = nn.BatchNorm1d(n_inputs, momentum=1.0 - given.batch_norm)
        norm.bias.requires_grad_(not given.layers)
        parts.append(norm)
    width = n_inputs
    for layer in given.layers:
        linear = nn.Linear(width, layer)
        parts.append(linear)
        if given.batch_norm is not None:
            linear.bias.requires_grad_(False)
            parts.append(nn.BatchNorm1d(layer, momentum=1.0 - given.batch_norm))
        parts.append(_ACTIVATIONS[given.activation]())
        if given.dropout:
            parts.append(nn.Dropout(given.dropout))
        width = layer
    return nn.Sequential(*parts)


def width_of(given: NetSettings, n_inputs: int) -> int:
    """What :func:`body` gives for each document."""
    return given.layers[-1] if given.layers else n_inputs


class DocumentScorer(nn.Module):
    """A net that looks at one document at a time."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, features: Tensor, offsets: Offsets) -> Tensor:  # noqa: ARG002 - for scorers of lists
        scores: Tensor = self.net(features)
        return scores.reshape(-1)


def mlp(given: NetSettings, n_features: int) -> DocumentScorer:
    """Features of a document to its score."""
    return DocumentScorer(
        nn.Sequential(body(given, n_features), nn.Linear(width_of(given, n_features), 1))
    )
