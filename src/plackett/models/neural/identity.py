"""What tells one module of the user's own from another: a sum of its structure and first weights.

Checkpoints and stores of trials take a fit for done when everything that determines it is the
same. For a module that is: its parts with their classes and plain attributes (a width, a rate of
dropout), the code of classes that are not PyTorch's, which weights are trained, and all numbers it
begins with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from plackett.base.errors import UsageError
from plackett.models.neural.building import build, seeded
from plackett.models.neural.own import name_of, own_scorer
from plackett.models.neural.settings import NetSettings

_TRIED_WITH = 8  # features, for functions that make modules: the data's number is not known yet
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype)


def module_entry(module: object) -> dict[str, str]:
    """Name and sum of a module, or of a function that makes one, as plain data."""
    return {"name": name_of(module), "sum": _sum_of(module)}


def first_sum(given: NetSettings, n_features: int) -> str | None:
    """The sum of what a fit begins with; None if its net is made from settings alone."""
    return None if given.module is None else fingerprint(build(given, n_features))


def state_entry(net: nn.Module) -> list[dict[str, Any]]:
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
            return fingerprint(own_scorer(module, _TRIED_WITH))
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
    return isinstance(value, _PLAIN)


def _bytes(value: Tensor) -> bytes:
    flat = value.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()
