"""Layers and cells of neural nets as ONNX operations, in float32 as PyTorch computes them."""

from __future__ import annotations

from math import sqrt

import numpy as np

from plackett.serving.export.nets import Cell, Layer, ScoringNet
from plackett.serving.export.onnx_form.graph import Graph

_PLAIN = {"relu": "Relu", "elu": "Elu", "tanh": "Tanh", "sigmoid": "Sigmoid"}


def add_net(graph: Graph, net: ScoringNet, features: str) -> str:
    """Scores of a net before its factor, documents x 1."""
    found = features
    for layer in net.layers:
        found = add_layer(graph, layer, found)
    return found if net.cell is None else _add_cell(graph, net.cell, found)


def add_layer(graph: Graph, layer: Layer, features: str) -> str:
    """A matrix, a bias and an activation."""
    matrix = graph.constant(layer.matrix.astype(np.float32))
    bias = graph.constant(layer.bias.astype(np.float32))
    product = graph.add("Gemm", features, matrix, bias, transB=1)
    return _activated(graph, layer.activation, product)


def _activated(graph: Graph, activation: str, value: str) -> str:
    if activation == "identity":
        return value
    if activation == "silu":
        return graph.add("Mul", value, graph.add("Sigmoid", value))
    if activation == "gelu":
        scaled = graph.add("Mul", value, graph.constant(np.float32(1.0 / sqrt(2.0))))
        one, half = graph.constant(np.float32(1.0)), graph.constant(np.float32(0.5))
        share = graph.add("Add", graph.add("Erf", scaled), one)
        return graph.add("Mul", graph.add("Mul", value, share), half)
    return graph.add(_PLAIN[activation], value)


def _add_cell(graph: Graph, cell: Cell, features: str) -> str:
    """One step from a state of zeros, in the order of gates that PyTorch keeps."""
    width = cell.matrix.shape[1]

    def gate(place: int, *, with_state: bool = True) -> str:
        rows = slice(place * width, (place + 1) * width)
        bias = cell.bias[rows] + (cell.state_bias[rows] if with_state else 0.0)
        return add_layer(graph, Layer(cell.matrix[rows], bias, "identity"), features)

    if cell.kind == "rnn":
        state = graph.add("Tanh", gate(0))
    elif cell.kind == "lstm":  # gates: in, forget, candidate, out; there is nothing to forget
        kept = graph.add("Mul", graph.add("Sigmoid", gate(0)), graph.add("Tanh", gate(2)))
        state = graph.add("Mul", graph.add("Sigmoid", gate(3)), graph.add("Tanh", kept))
    else:  # gru; gates: reset, update, candidate
        own = graph.constant(cell.state_bias[2 * width :].astype(np.float32))
        reset = graph.add("Mul", graph.add("Sigmoid", gate(0)), own)
        candidate = graph.add("Tanh", graph.add("Add", gate(2, with_state=False), reset))
        one = graph.constant(np.float32(1.0))
        share = graph.add("Sub", one, graph.add("Sigmoid", gate(1)))
        state = graph.add("Mul", share, candidate)
    if cell.both:
        state = graph.add("Concat", state, features, axis=1)
    return add_layer(graph, cell.last, state)
