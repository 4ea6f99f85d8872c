"""Recurrent cells as PyTorch asks devices for them, which it computes otherwise on the CPU."""

from __future__ import annotations

import torch

aten = torch.ops.aten


def lstm(inputs, hidden, state, input_bias=None, hidden_bias=None):
    """New output, new state, and what the way back needs."""
    gates = inputs + hidden + _sum(input_bias, hidden_bias)
    i, f, g, o = gates.chunk(4, dim=1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    after = f * state + i * g
    return o * after.tanh(), after, torch.cat([i, f, g, o], dim=1)


def lstm_back(of_output, of_state, state, after, kept, has_bias):
    """Gradients of gates, of the state before, and of the bias."""
    i, f, g, o = kept.chunk(4, dim=1)
    of_output = torch.zeros_like(after) if of_output is None else of_output
    of_state = torch.zeros_like(after) if of_state is None else of_state
    t = after.tanh()
    through = of_state + of_output * o * (1 - t * t)
    parts = [
        through * g * i * (1 - i),
        through * state * f * (1 - f),
        through * i * (1 - g * g),
        of_output * t * o * (1 - o),
    ]
    gates = torch.cat(parts, dim=1)
    return gates, through * f, gates.sum(0) if has_bias else None


def gru(inputs, hidden, state, input_bias=None, hidden_bias=None):
    """New state, and what the way back needs."""
    ir, iz, candidate = (inputs + _sum(input_bias)).chunk(3, dim=1)
    hr, hz, seen = (hidden + _sum(hidden_bias)).chunk(3, dim=1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    n = (candidate + r * seen).tanh()
    return n + z * (state - n), torch.cat([r, z, n, state, seen], dim=1)


def gru_back(of_state, kept, has_bias):
    """Gradients of both kinds of gates, of the state before, and of both biases."""
    r, z, n, state, seen = kept.chunk(5, dim=1)
    of_n = of_state * (1 - z) * (1 - n * n)
    of_r = of_n * seen * r * (1 - r)
    of_z = of_state * (state - n) * z * (1 - z)
    inputs = torch.cat([of_r, of_z, of_n], dim=1)
    hidden = torch.cat([of_r, of_z, of_n * r], dim=1)
    biases = (inputs.sum(0), hidden.sum(0)) if has_bias else (None, None)
    return inputs, hidden, of_state * z, *biases


def _sum(*biases):
    return sum((item for item in biases if item is not None), 0.0)


CELLS = {
    aten._thnn_fused_lstm_cell.default: lstm,
    aten._thnn_fused_lstm_cell_backward_impl.default: lstm_back,
    aten._thnn_fused_gru_cell.default: gru,
    aten._thnn_fused_gru_cell_backward.default: gru_back,
}
"""Operations that only devices have, as functions of CPU tensors."""
