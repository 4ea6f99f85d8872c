"""Weights and states of fits as files: safetensors and JSON, nothing that can run.

A file of weights is read against the outline of the net that the settings describe: every
name, shape and type must be the net's own, and every number finite, before any of it is used. For
a module of the user's own, what the user gives takes the place of that outline.

What tells one module of the user's own from another: a sum of its structure and first weights.

Checkpoints and stores of trials take a fit for done when everything that determines it is the
same. For a module that is: its parts with their classes and plain attributes (a width, a rate of
dropout), the code of classes that are not PyTorch's, which weights are trained, and all numbers it
begins with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from plackett.base.errors import DataError, UsageError
from plackett.models.neural.ranker import NetSettings
from plackett.models.neural.scorers import build, partition, seeded
from plackett.models.neural.training import Weights, copied
from plackett.models.neural.user_module import make_module_scorer, name_of

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
            net = partition(given, n_features, learner=learner)
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


_TRIED_WITH = 8  # features, for functions that make modules: the data's number is not known yet
_IDENTITY_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype)


def describe_module(module: object) -> dict[str, str]:
    """Name and sum of a module, or of a function that makes one, as plain data."""
    return {"name": name_of(module), "sum": _sum_of(module)}


def first_sum(given: NetSettings, n_features: int) -> str | None:
    """The sum of what a fit begins with; None if its net is made from settings alone."""
    return None if given.module is None else fingerprint(build(given, n_features))


def describe_state(net: nn.Module) -> list[dict[str, Any]]:
    """Name, type and shape of everything in the state of a module of the user's own."""
    inner = net.net.state_dict()  # type: ignore[union-attr] # an OwnScorer
    return [
        {"name": name, "type": str(value.dtype).removeprefix("torch."), "shape": [*value.shape]}
        for name, value in inner.items()
    ]


def fingerprint(net: nn.Module) -> str:
    """64 hexadecimal digits; the same for a copy, another for anything that scores otherwise."""
    digest = hashlib.sha256()
    for name, part in net.named_modules():
        plain = sorted((k, v) for k, v in vars(part).items() if k != "training" and _is_plain(v))
        digest.update(repr((name, type(part).__qualname__, plain)).encode())
        for function in _functions(type(part)):
            digest.update(repr(_code(function.__code__)).encode())
    for name, p in net.named_parameters(remove_duplicate=False):
        digest.update(repr((name, p.requires_grad)).encode())
    for name, value in net.state_dict().items():
        digest.update(repr((name, str(value.dtype), tuple(value.shape))).encode())
        digest.update(_bytes(value))
    return digest.hexdigest()


def _sum_of(module: object) -> str:
    try:
        with seeded(0):  # a module may have layers without weights yet
            return fingerprint(make_module_scorer(module, _TRIED_WITH))
    except UsageError:
        if isinstance(module, nn.Module) or not callable(module):
            raise
        # It takes the number of features of its data alone: its own code tells it apart.
        return hashlib.sha256(repr(_maker(module)).encode()).hexdigest()


def _maker(function: Any) -> list[Any]:
    """What a function does, or a class, or anything that can be called."""
    if isinstance(function, FunctionType):
        return [_code(function.__code__)]
    if isinstance(function, partial):
        given = (function.args, sorted(function.keywords.items()))
        return [*_maker(function.func), [each for each in given if _is_plain(each)]]
    kind = function if isinstance(function, type) else type(function)
    return [kind.__qualname__, *(_code(each.__code__) for each in _functions(kind))]


def _functions(kind: type) -> Iterator[FunctionType]:
    """The methods of a class and its bases, as far as they are not PyTorch's."""
    for each in kind.__mro__:
        if each.__module__.split(".")[0] not in ("torch", "builtins", "plackett"):
            found = (value for _, value in sorted(vars(each).items()))
            yield from (value for value in found if isinstance(value, FunctionType))


def _code(code: CodeType) -> tuple[Any, ...]:
    """What a function does; names of variables, files and lines do not count."""
    constants = [_code(c) if isinstance(c, CodeType) else c for c in code.co_consts]
    return code.co_code, code.co_names, [c for c in constants if _is_plain(c)]


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(_is_plain(each) for each in value)
    return isinstance(value, _IDENTITY_PLAIN)


def _bytes(value: Tensor) -> bytes:
    flat = value.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()
