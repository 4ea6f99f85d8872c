"""Several nets side by side as one: block matrices, and the sum in the last layer."""

from __future__ import annotations

import numpy as np
from scipy.linalg import block_diag

from plackett.base.errors import UsageError
from plackett.serving.export.affine import Affine
from plackett.serving.export.nets import Layer, ScoringNet


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
