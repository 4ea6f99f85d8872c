"""User-supplied modules: copied, fingerprinted, and checked to return one score per document.

Checkpoints and stores of trials reuse a fit if everything that determines it is the same. For a module, this is: its
submodules with their classes and plain attributes (a width, a dropout rate), the code of classes that are not
PyTorch's, which weights are trained, and all initial values.
"""

import copy
import hashlib
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from plackett.base.errors import PlackettError, UsageError
from plackett.base.ragged import Offsets
from plackett.models.neural.environment import initial_weights

_PROBE_DOCUMENTS = 2  # rows passed to a lazy module to set the shapes of its layers
_PROBE_FEATURES = 8  # to fingerprint functions that make modules, before the data are known
_PLAIN_TYPES = (bool, int, float, complex, str, bytes, type(None), torch.dtype)


class ModuleScorer(nn.Module):
    """A user's module, with checks of its output."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, features: Tensor, offsets: Offsets | None) -> Tensor:  # noqa: ARG002 - for scorers of lists
        call = f"{name_of(self.net)}, given {features.shape[0]} documents x "
        call += f"{features.shape[1]} features,"
        dtypes = {p.dtype for p in self.net.parameters()}
        try:
            scores = self.net(features.double() if dtypes == {torch.float64} else features)
        except PlackettError:
            raise
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else "no reason given"
            raise UsageError(f"the module {call} failed: {type(error).__name__}: {reason}") from error
        self._check(scores, len(features), call)
        return scores.reshape(-1)

    def _check(self, scores: Any, documents: int, call: str) -> None:
        expected = f"it must return one score per document, of shape ({documents},) or ({documents}, 1)"
        if not isinstance(scores, Tensor):
            raise UsageError(f"the module {call} returned {type(scores).__name__}; {expected}.")
        if tuple(scores.shape) not in ((documents,), (documents, 1)):
            raise UsageError(f"the module {call} returned shape {tuple(scores.shape)}; {expected}.")
        if not scores.is_floating_point():
            raise UsageError(f"the module {call} returned {scores.dtype}; scores must be floats.")
        if self.training and torch.is_grad_enabled() and not scores.requires_grad:
            raise UsageError(
                f"the module {call} returned scores that depend on no trained weight: does it have "
                "any, or does it call detach() or torch.no_grad()?"
            )


def make_module_scorer(module: object, n_features: int) -> ModuleScorer:
    """Wrap a copy of a module, or of what a function returns for this number of features."""
    original = module if isinstance(module, nn.Module) else _call_maker(module, n_features)
    _check_memory(original)
    _check_state(original, name_of(module))
    net = _copy(original, is_made=original is not module)
    for submodule in net.modules():
        for name, buffer in submodule.named_buffers(recurse=False):
            # An expanded buffer cannot be written to when weights are loaded.
            if 0 in buffer.stride() and buffer.numel() > 1:
                submodule._buffers[name] = buffer.contiguous()
    scorer = ModuleScorer(net)
    if any(is_lazy(p) for p in [*net.parameters(), *net.buffers()]):
        with torch.no_grad():
            scorer.eval()(torch.zeros(_PROBE_DOCUMENTS, n_features), None)
        scorer.train()
    return scorer


def _call_maker(function: object, n_features: int) -> nn.Module:
    module: object = function
    if callable(function):
        try:
            module = function(n_features)
        except PlackettError:
            raise
        except Exception as error:
            raise UsageError(
                f"module={name_of(function)} failed to make a module for {n_features} features: "
                f"{type(error).__name__}: {error}"
            ) from error
        if isinstance(module, nn.Module):
            return module
    raise UsageError(
        "module must be a torch.nn.Module that maps documents x features to scores, or a function "
        f"of the number of features that makes one; got {type(module).__name__}."
    )


def _copy(module: nn.Module, *, is_made: bool) -> nn.Module:
    """Copy a module, even one that a function made, since the function may return the same module each time."""
    try:
        return copy.deepcopy(module)
    except Exception as error:
        if is_made:
            return module
        raise UsageError(
            f"{name_of(module)} cannot be copied ({error}); give a function of the number of features that makes it."
        ) from error


def _check_state(net: nn.Module, name: str) -> None:
    """Raise UsageError if a file or the flat vector of weights would lose a part of the module's state."""
    if any(isinstance(part, torch.jit.ScriptModule) for part in net.modules()):
        raise UsageError(f"{name} is TorchScript; give the module that it was made from.")
    for entry, value in net.state_dict().items():
        if isinstance(value, Tensor) and value.is_meta:
            raise UsageError(f"{entry!r} of {name} is on the device meta and holds no numbers.")
        if not isinstance(value, Tensor) or value.layout is not torch.strided:
            kind = value.layout if isinstance(value, Tensor) else type(value).__name__
            raise UsageError(f"the state of {name} holds {entry!r}, which is {kind}; only dense tensors can be saved.")


def _check_memory(net: nn.Module) -> None:
    """Raise UsageError if weights share memory without being one parameter: a copy would separate them."""
    trained = [(name, p) for name, p in net.named_parameters() if p.requires_grad]
    allocated = [(name, p) for name, p in trained if not is_lazy(p) and p.data_ptr()]
    spans = sorted((p.data_ptr(), p.data_ptr() + p.nbytes, name) for name, p in allocated)
    for (_, stop, first), (start, _, second) in pairwise(spans):
        if stop > start:
            raise UsageError(
                f"{first!r} and {second!r} of {name_of(net)} share memory and are not one "
                "parameter, so training would separate them; tie weights by assignment "
                "(net.b.weight = net.a.weight)."
            )


def name_of(module: object) -> str:
    """The name of a module, or of a function that makes one, for messages."""
    kind = type(module) if isinstance(module, nn.Module) or not callable(module) else module
    return str(getattr(kind, "__qualname__", type(module).__qualname__))


def describe_module(module: object) -> dict[str, str]:
    """Name and fingerprint of a module, or of a function that makes one."""
    try:
        with initial_weights(0, 0):  # a module may have lazy layers
            digest = fingerprint(make_module_scorer(module, _PROBE_FEATURES))
    except UsageError:
        if isinstance(module, nn.Module) or not callable(module):
            raise
        # The function accepts only the number of features of its data: use its code instead.
        digest = hashlib.sha256(repr(_maker_code(module)).encode()).hexdigest()
    return {"name": name_of(module), "sum": digest}


def describe_state(net: nn.Module) -> list[dict[str, Any]]:
    """Name, type and shape of every tensor in the state of a user's module."""
    inner = net.net.state_dict()  # type: ignore[union-attr] # a ModuleScorer
    return [
        {"name": name, "type": str(value.dtype).removeprefix("torch."), "shape": [*value.shape]}
        for name, value in inner.items()
    ]


def fingerprint(net: nn.Module) -> str:
    """64 hexadecimal digits: equal for a copy, different for a module that scores differently."""
    digest = hashlib.sha256()
    for name, part in net.named_modules():
        plain = sorted((k, v) for k, v in vars(part).items() if k != "training" and _is_plain(v))
        digest.update(repr((name, type(part).__qualname__, plain)).encode())
        for function in _methods(type(part)):
            digest.update(repr(_code(function.__code__)).encode())
    for name, p in net.named_parameters(remove_duplicate=False):
        digest.update(repr((name, p.requires_grad)).encode())
    for name, value in net.state_dict().items():
        digest.update(repr((name, str(value.dtype), tuple(value.shape))).encode())
        flat = value.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _maker_code(function: Any) -> list[Any]:
    """The code of a function, a class or another callable."""
    if isinstance(function, FunctionType):
        return [_code(function.__code__)]
    if isinstance(function, partial):
        arguments = (function.args, sorted(function.keywords.items()))
        return [*_maker_code(function.func), [a for a in arguments if _is_plain(a)]]
    kind = function if isinstance(function, type) else type(function)
    return [kind.__qualname__, *(_code(method.__code__) for method in _methods(kind))]


def _methods(kind: type) -> Iterator[FunctionType]:
    """The methods of a class and its bases, except those of libraries."""
    for base in kind.__mro__:
        if base.__module__.split(".")[0] not in ("torch", "builtins", "plackett"):
            members = (value for _, value in sorted(vars(base).items()))
            yield from (value for value in members if isinstance(value, FunctionType))


def _code(code: CodeType) -> tuple[Any, ...]:
    """What a function does, without names of local variables, files and line numbers."""
    constants = [_code(c) if isinstance(c, CodeType) else c for c in code.co_consts]
    return code.co_code, code.co_names, [c for c in constants if _is_plain(c)]


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN_TYPES)
