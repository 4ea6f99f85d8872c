"""Modules of the user's own: copied, told apart, and asked for one score per document.

A file of a model holds the weights of such a module and never its code, so whoever loads it
brings the module along.
"""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from plackett.base.errors import PlackettError, UsageError
from plackett.base.ragged import Offsets

_TRIED_ON = 2  # documents that a module without shapes yet is shown, to get them


def make_module_scorer(module: object, n_features: int) -> ModuleScorer:
    """A copy of a module, or what a function makes for so many features, as a scorer."""
    given = module if isinstance(module, nn.Module) else _made(module, n_features)
    _check_memory(given)
    _check_state(given, name_of(module))
    net = _copied(given, is_made=given is not module)
    for part in net.modules():
        for name, buffer in part.named_buffers(recurse=False):
            # One number spread over a shape cannot be written to when weights are put back.
            if 0 in buffer.stride() and buffer.numel() > 1:
                part._buffers[name] = buffer.contiguous()
    scorer = ModuleScorer(net)
    if any(is_lazy(p) for p in [*net.parameters(), *net.buffers()]):
        with torch.no_grad():
            scorer.eval()(torch.zeros(_TRIED_ON, n_features), None)
        scorer.train()
    return scorer


def _check_state(net: nn.Module, called: str) -> None:
    """Refuse what would get lost on the way into a vector of weights or a file."""
    if any(isinstance(part, torch.jit.ScriptModule) for part in net.modules()):
        raise UsageError(f"{called} is TorchScript; give the module that it was made from.")
    for name, value in net.state_dict().items():
        if isinstance(value, Tensor) and value.is_meta:
            raise UsageError(f"{name!r} of {called} is on the device meta and holds no numbers.")
        if not isinstance(value, Tensor) or value.layout is not torch.strided:
            what = type(value).__name__ if not isinstance(value, Tensor) else value.layout
            raise UsageError(
                f"the state of {called} holds {name!r}, which is {what}; only dense tensors can "
                "be kept."
            )


def _check_memory(net: nn.Module) -> None:
    """Refuse weights that look tied and would come apart in a copy."""
    trained = [(name, p) for name, p in net.named_parameters() if p.requires_grad]
    placed = [(name, p) for name, p in trained if not is_lazy(p) and p.data_ptr()]
    spans = sorted((p.data_ptr(), p.data_ptr() + p.nbytes, name) for name, p in placed)
    for (_, stop, first), (start, _, second) in pairwise(spans):
        if stop > start:
            raise UsageError(
                f"{first!r} and {second!r} of {name_of(net)} share memory and are not one "
                "parameter, so they would come apart in training; tie weights by assignment "
                "(net.b.weight = net.a.weight)."
            )


def name_of(module: object) -> str:
    """What to call a module, or a function that makes one, in messages."""
    kind = type(module) if isinstance(module, nn.Module) or not callable(module) else module
    return str(getattr(kind, "__qualname__", type(module).__qualname__))


class ModuleScorer(nn.Module):
    """A module of the user's own, with its answers checked."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, features: Tensor, offsets: Offsets | None) -> Tensor:  # noqa: ARG002 - for scorers of lists
        asked = f"{name_of(self.net)}, given {features.shape[0]} documents x "
        asked += f"{features.shape[1]} features,"
        try:
            scores = self.net(self._as_wide(features))
        except PlackettError:
            raise
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else "no reason given"
            raise UsageError(f"the module {asked} failed: {type(error).__name__}: {reason}") from (
                error
            )
        self._check(scores, len(features), asked)
        return scores.reshape(-1)

    def _as_wide(self, features: Tensor) -> Tensor:
        """Features in double precision where all weights are, else as they come."""
        kinds = {p.dtype for p in self.net.parameters()}
        return features.double() if kinds == {torch.float64} else features

    def _check(self, scores: Any, documents: int, asked: str) -> None:
        wanted = f"it must give one score per document, of shape ({documents},) or ({documents}, 1)"
        if not isinstance(scores, Tensor):
            raise UsageError(f"the module {asked} gave {type(scores).__name__}; {wanted}.")
        if tuple(scores.shape) not in ((documents,), (documents, 1)):
            raise UsageError(f"the module {asked} gave shape {tuple(scores.shape)}; {wanted}.")
        if not scores.is_floating_point():
            raise UsageError(f"the module {asked} gave {scores.dtype}; scores must be floats.")
        if self.training and torch.is_grad_enabled() and not scores.requires_grad:
            raise UsageError(
                f"the module {asked} gave scores that depend on no trained weight: has it any, "
                "or does it call detach() or torch.no_grad()?"
            )


def _copied(module: nn.Module, *, is_made: bool) -> nn.Module:
    """A copy; also of what a function made, which may give out the same module each time."""
    try:
        return copy.deepcopy(module)
    except Exception as error:
        if is_made:
            return module
        raise UsageError(
            f"{name_of(module)} cannot be copied ({error}); give a function of the number of "
            "features that makes it."
        ) from error


def _made(function: object, n_features: int) -> nn.Module:
    made: object = function
    if callable(function):
        try:
            made = function(n_features)
        except PlackettError:
            raise
        except Exception as error:
            raise UsageError(
                f"module={name_of(function)} failed to make a module for {n_features} features: "
                f"{type(error).__name__}: {error}"
            ) from error
        if isinstance(made, nn.Module):
            return made
    raise UsageError(
        "module must be a torch.nn.Module that maps documents x features to scores, or a function "
        f"of the number of features that makes one; got {type(made).__name__}."
    )
