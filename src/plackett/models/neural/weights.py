"""Weights and checkpoints as files: safetensors and JSON, which cannot execute code.

Before weights are used, every name, shape and type in the file is compared with the net that the
parameters describe, and every number must be finite. For a user's module, the module supplied by
the caller takes the place of that description.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from plackett.base.errors import DataError, UsageError
from plackett.base.files import explain_full_disk
from plackett.models.neural.ranker import BaseNeuralRanker
from plackett.models.neural.scorers import build_net, make_net
from plackett.models.neural.training import Weights, copy_weights
from plackett.models.neural.user_module import name_of

_TENSORS, _PLAIN = "state.safetensors", "state.json"


def write_weights(net: nn.Module, path: Path) -> None:
    """Write the weights and running statistics of a net."""
    _write(copy_weights(net), path)


def read_weights(ranker: BaseNeuralRanker, n_features: int, path: Path, *, learner: int) -> nn.Module:
    """Read the net that the parameters describe."""
    weights = _read(path)
    # The parameters come from a file and may describe a net of any size: allow no more layers
    # than the file has tensors, and compare shapes without allocating memory.
    if max(len(ranker.layers), ranker.attention) > len(weights):
        raise DataError("holds fewer tensors than the net has layers", path=str(path))
    try:
        with torch.device("meta"):
            net = make_net(ranker, n_features, learner=learner)
    except (TypeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise DataError(f"no net of these settings can be made: {error}", path=str(path)) from error
    expected = net.state_dict()
    if set(weights) != set(expected):
        first = sorted(set(weights) ^ set(expected))[0]
        raise DataError(f"does not hold the weights of this net: see {first!r}", path=str(path))
    for name, value in weights.items():
        if not _have_same_form(value, expected[name]):
            raise DataError(f"{name} is {_describe(value)}, the net has {_describe(expected[name])}", path=str(path))
    _check_finite(weights, set(weights), path)
    # Copied, because the memory of a file is not aligned as PyTorch's is; see FeatureRows.
    net.load_state_dict({name: value.clone() for name, value in weights.items()}, assign=True)
    return net.requires_grad_(False).eval()


def read_module_weights(ranker: BaseNeuralRanker, n_features: int, path: Path) -> nn.Module:
    """Read weights into a copy of the user's module."""
    weights = _read(path)
    net = build_net(ranker, n_features)
    expected = net.state_dict()
    for name in [*expected, *weights]:
        stored, wanted = weights.get(name), expected.get(name)
        if stored is None or wanted is None or not _have_same_form(stored, wanted):
            raise UsageError(
                f"{path} does not hold the weights of {name_of(ranker.module)}, the module given: "
                f"{name.removeprefix('net.')!r} is {_describe(stored)} in the file and "
                f"{_describe(wanted)} in the module. Give the module that was fitted."
            )
    # Other parts of a module's state, such as masks, may be infinite.
    _check_finite(weights, {name for name, p in net.named_parameters() if p.requires_grad}, path)
    net.load_state_dict(weights)  # in place, so that tied weights stay tied
    return net.requires_grad_(False).eval()


def write_state(plain: dict[str, Any], tensors: Weights, folder: Path) -> None:
    """Write the state of a fit."""
    (folder / _PLAIN).write_text(json.dumps(plain), encoding="utf-8")
    _write(tensors, folder / _TENSORS)


def read_state(folder: Path) -> tuple[dict[str, Any], Weights]:
    """Read what :func:`write_state` wrote."""
    path = folder / _PLAIN
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise damaged_state(path, error) from error
    if not isinstance(plain, dict):
        raise damaged_state(path, "it must hold a dictionary")
    try:
        return plain, load_file(folder / _TENSORS)
    except (SafetensorError, OSError, ValueError) as error:
        raise damaged_state(folder / _TENSORS, error) from error


def damaged_state(path: Path, reason: object) -> DataError:
    """The error for a checkpoint that cannot be resumed."""
    return DataError(f"is damaged ({reason}); delete the checkpoint's folder to start again", path=str(path))


def _write(tensors: Weights, path: Path) -> None:
    needed = sum(value.nbytes for value in tensors.values())
    try:
        with explain_full_disk(path, path, needed):
            save_file(tensors, path)
    except (SafetensorError, KeyError, ValueError) as error:
        kinds = ", ".join(sorted({str(value.dtype) for value in tensors.values()}))
        raise UsageError(f"weights of types {kinds} cannot be written: {error}") from error


def _read(path: Path) -> Weights:
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError(f"holds no weights: {error}", path=str(path)) from error


def _check_finite(weights: Weights, names: set[str], path: Path) -> None:
    for name in names & set(weights):
        if not bool(torch.isfinite(weights[name]).all()):
            raise DataError(f"{name} holds numbers that are not finite", path=str(path))


def _have_same_form(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype


def _describe(value: Tensor | None) -> str:
    return "absent" if value is None else f"{value.dtype} of shape {tuple(value.shape)}"
