"""Weights and states of fits as files: safetensors and JSON, nothing that can run.

A file of weights is read against the outline of the net that the settings describe: every
name, shape and type must be the net's own, and every number finite, before any of it is used. For
a module of the user's own, what the user gives takes the place of that outline.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from plackett.base.errors import DataError, UsageError
from plackett.models.neural.building import build, outline
from plackett.models.neural.own import name_of
from plackett.models.neural.settings import NetSettings
from plackett.models.neural.training import Weights, copied

_TENSORS, _PLAIN = "state.safetensors", "state.json"


def write_weights(net: nn.Module, path: Path) -> None:
    """The weights and running statistics of a net."""
    _write(copied(net), path)


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
                f"{name} is {_shape(value)}, the net has {_shape(wanted)}", path=str(path)
            )
    _check_finite(found, set(found), path)
    # Copied, because the memory of a file is not aligned as PyTorch's own: see FeatureRows.
    net.load_state_dict({name: value.clone() for name, value in found.items()}, assign=True)
    return net.requires_grad_(False).eval()


def read_own_weights(given: NetSettings, n_features: int, path: Path) -> nn.Module:
    """A copy of the user's own module with the weights of a file."""
    found = _tensors(path)
    net = build(given, n_features)
    expected = net.state_dict()
    for name in [*expected, *found]:
        theirs, ours = found.get(name), expected.get(name)
        if (
            theirs is None
            or ours is None
            or theirs.shape != ours.shape
            or theirs.dtype != ours.dtype
        ):
            raise UsageError(
                f"{path} does not hold the weights of {name_of(given.module)}, the module given: "
                f"{name.removeprefix('net.')!r} is {_shape(theirs)} in the file and {_shape(ours)} "
                "in the module. Give the module that was fitted."
            )
    # Other parts of a module's state, such as masks, may be infinite.
    _check_finite(found, {name for name, p in net.named_parameters() if p.requires_grad}, path)
    net.load_state_dict(found)  # in place, so that tied weights stay tied
    return net.requires_grad_(False).eval()


def write_state(plain: dict[str, Any], tensors: Weights, folder: Path) -> None:
    """A state of a fit."""
    (folder / _PLAIN).write_text(json.dumps(plain), encoding="utf-8")
    _write(tensors, folder / _TENSORS)


def read_state(folder: Path) -> tuple[dict[str, Any], Weights]:
    """What :func:`write_state` wrote."""
    path = folder / _PLAIN
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(path, error) from error
    if not isinstance(plain, dict):
        raise damaged(path, "it must hold a dictionary")
    try:
        return plain, load_file(folder / _TENSORS)
    except (SafetensorError, OSError, ValueError) as error:
        raise damaged(folder / _TENSORS, error) from error


def damaged(path: Path, reason: object) -> DataError:
    """What to say of a state that cannot be gone on from."""
    return DataError(
        f"is damaged ({reason}); delete the checkpoint's folder to begin anew", path=str(path)
    )


def _write(tensors: Weights, path: Path) -> None:
    try:
        save_file(tensors, path)
    except (SafetensorError, KeyError, ValueError) as error:
        kinds = ", ".join(sorted({str(value.dtype) for value in tensors.values()}))
        raise UsageError(f"weights of types {kinds} cannot be written: {error}") from error


def _tensors(path: Path) -> Weights:
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError(f"holds no weights: {error}", path=str(path)) from error


def _check_finite(found: Weights, names: set[str], path: Path) -> None:
    for name in names & set(found):
        if not bool(torch.isfinite(found[name]).all()):
            raise DataError(f"{name} holds numbers that are not finite", path=str(path))


def _shape(value: Tensor | None) -> str:
    return "absent" if value is None else f"{value.dtype} of shape {tuple(value.shape)}"
