"""Weights and checkpoints as files: safetensors and JSON, which cannot execute code.

Before weights are used, every name, shape and type in the file is compared with the net that the parameters describe,
and every number must be finite. For a user's module, the file is compared with the module that the caller supplies.
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
from plackett.models.neural.training import Tensors
from plackett.models.neural.user_module import name_of

_TENSORS, _PLAIN = "state.safetensors", "state.json"


def read_weights(ranker: BaseNeuralRanker, n_features: int, path: Path, *, learner: int) -> nn.Module:
    """Read the net that the parameters describe, or load weights into a copy of the user's module."""
    try:
        weights = load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError(f"holds no weights: {error}", path=str(path)) from error
    if ranker.module is not None:
        net = build_net(ranker, n_features)
        # Other parts of a module's state, such as masks, may be infinite.
        finite = {name for name, p in net.named_parameters() if p.requires_grad}
    else:
        net, finite = _describe_net(ranker, n_features, path, len(weights), learner), set(weights)
    expected = net.state_dict()
    for name in [*expected, *weights]:
        found, wanted = _describe(weights.get(name)), _describe(expected.get(name))
        if found == wanted:
            continue
        if ranker.module is None:
            raise DataError(
                f"does not hold the weights of this net: see {name!r}, which is {found}; the net has {wanted}",
                path=str(path),
            )
        raise UsageError(
            f"{path} does not hold the weights of {name_of(ranker.module)}, the module given: "
            f"{name.removeprefix('net.')!r} is {found} in the file and {wanted} in the module. "
            "Give the module that was fitted."
        )
    for name in finite & set(weights):
        if not bool(torch.isfinite(weights[name]).all()):
            raise DataError(f"{name} holds numbers that are not finite", path=str(path))
    if ranker.module is not None:
        net.load_state_dict(weights)  # in place, so that tied weights stay tied
    else:
        # Copied, because the memory of a file is not aligned as PyTorch's is; see FeatureRows.
        net.load_state_dict({name: value.clone() for name, value in weights.items()}, assign=True)
    return net.requires_grad_(False).eval()


def _describe_net(ranker: BaseNeuralRanker, n_features: int, path: Path, n_tensors: int, learner: int) -> nn.Module:
    """The net without allocated memory: its parameters come from a file and may describe a net of any size."""
    if max(len(ranker.layers), ranker.attention) > n_tensors:
        raise DataError("holds fewer tensors than the net has layers", path=str(path))
    try:
        with torch.device("meta"):
            return make_net(ranker, n_features, learner=learner)
    except (TypeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise DataError(f"no net of these settings can be made: {error}", path=str(path)) from error


def write_state(plain: dict[str, Any], tensors: Tensors, folder: Path) -> None:
    """Write the state of a fit."""
    (folder / _PLAIN).write_text(json.dumps(plain), encoding="utf-8")
    write_tensors(tensors, folder / _TENSORS)


def read_state(folder: Path) -> tuple[dict[str, Any], Tensors]:
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


def write_tensors(tensors: Tensors, path: Path) -> None:
    """Write the weights and running statistics of a net, or the state of a fit."""
    needed = sum(value.nbytes for value in tensors.values())
    try:
        with explain_full_disk(path, path, needed):
            save_file(tensors, path)
    except (SafetensorError, KeyError, ValueError) as error:
        kinds = ", ".join(sorted({str(value.dtype) for value in tensors.values()}))
        raise UsageError(f"weights of types {kinds} cannot be written: {error}") from error


def _describe(value: Tensor | None) -> str:
    return "absent" if value is None else f"{value.dtype} of shape {tuple(value.shape)}"
