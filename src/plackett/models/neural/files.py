"""Weights and states of fits as files: safetensors and JSON, nothing that can run.

A file of weights is read against the outline of the net that the settings describe: every
name, shape and type must be the net's own, and every number finite, before any of it is used.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from plackett.base.errors import DataError
from plackett.models.neural.building import outline
from plackett.models.neural.settings import NetSettings

Weights = dict[str, Tensor]
_TENSORS, _PLAIN = "state.safetensors", "state.json"


def write_weights(net: nn.Module, path: Path) -> None:
    """The weights and running statistics of a net."""
    found = {name: value.detach().cpu().contiguous() for name, value in net.state_dict().items()}
    save_file({name: value.clone() for name, value in found.items()}, path)


def read_weights(given: NetSettings, n_features: int, path: Path, *, learner: int) -> nn.Module:
    """The net of these settings with the weights of a file."""
    found = _tensors(path)
    # Settings from a file may ask for any size: no more layers than the file holds tensors, and
    # shapes without memory.
    if max(len(given.layers), given.attention) > len(found):
        raise DataError("holds fewer tensors than the net has layers", path=str(path))
    try:
        with torch.device("meta"):
            net = outline(given, n_features, learner=learner)
    except (TypeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise DataError(f"no net of these settings can be made: {error}", path=str(path)) from error
    expected = net.state_dict()
    if set(found) != set(expected):
        odd = sorted(set(found) ^ set(expected))[0]
        raise DataError(f"does not hold the weights of this net: see {odd!r}", path=str(path))
    for name, value in found.items():
        wanted = expected[name]
        if value.shape != wanted.shape or value.dtype != wanted.dtype:
            raise DataError(
                f"{name} is {value.dtype} of shape {tuple(value.shape)}, the net has "
                f"{wanted.dtype} of shape {tuple(wanted.shape)}",
                path=str(path),
            )
        if not bool(torch.isfinite(value).all()):
            raise DataError(f"{name} holds numbers that are not finite", path=str(path))
    # Copied, because the memory of a file is not aligned as PyTorch's own: see FeatureRows.
    net.load_state_dict({name: value.clone() for name, value in found.items()}, assign=True)
    return net.eval()


def write_state(plain: dict[str, Any], tensors: Weights, folder: Path) -> None:
    """A state of a fit."""
    (folder / _PLAIN).write_text(json.dumps(plain), encoding="utf-8")
    save_file(tensors, folder / _TENSORS)


def read_state(folder: Path) -> tuple[dict[str, Any], Weights]:
    """What :func:`write_state` wrote."""
    plain = json.loads((folder / _PLAIN).read_text(encoding="utf-8"))
    return plain, load_file(folder / _TENSORS)


def _tensors(path: Path) -> Weights:
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError(f"holds no weights: {error}", path=str(path)) from error
