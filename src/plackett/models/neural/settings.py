"""The parameters that all neural rankers share, and their checks. Nothing here needs PyTorch."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import Any, Literal

from plackett.base.errors import UsageError
from plackett.models.ranker import Ranker
from plackett.objectives import Objective

ACTIVATIONS = ("relu", "elu", "gelu", "tanh", "sigmoid", "silu")
OPTIMISERS = ("adam", "adamw", "adagrad")
SCHEDULES = ("constant", "cosine", "linear")
REDUCTIONS = ("mean", "sum")
CELLS = (None, "rnn", "lstm", "gru")
POOLINGS = ("max", "mean")
CARRIES = ("both", "state")


@dataclass
class NetSettings(Ranker, ABC):
    """Parameters of a net and of its training; :class:`NeuralRanker` describes them."""

    objective: str | Objective = "urank"
    layers: tuple[int, ...] = (128, 64)
    activation: str = "relu"
    batch_norm: float | None = None
    dropout: float = 0.0
    attention: int = 0
    heads: int = 1
    group_size: int = 1
    recurrent: Literal["rnn", "lstm", "gru"] | None = None
    pooling: Literal["max", "mean"] = "max"
    score_from: Literal["both", "state"] = "both"
    module: Any = None
    optimiser: str = "adam"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    schedule: str = "constant"
    clip: float | None = None
    epochs: int = 100
    patience: int = 20
    batch_lists: int | None = 32
    batch_documents: int | None = None
    reduction: str = "mean"
    seed: int = 0
    device: Any = "auto"
    threads: int | None = None
    transforms: tuple[str, ...] = ("standard",)

    def __setattr__(self, name: str, value: Any) -> None:
        # A torch.device is kept as its text, which files and other processes can take.
        is_device = name == "device" and type(value).__module__ == "torch"
        super().__setattr__(name, str(value) if is_device else value)


def check_settings(given: NetSettings) -> None:
    """Refuse what no net can be built from or trained with."""
    _check_choices(given)
    _check_numbers(given)
    _check_structure(given)
    _check_surroundings(given)


def _check_choices(given: NetSettings) -> None:
    choices: dict[str, tuple[Any, ...]] = {
        "activation": ACTIVATIONS,
        "optimiser": OPTIMISERS,
        "schedule": SCHEDULES,
        "reduction": REDUCTIONS,
        "recurrent": CELLS,
        "pooling": POOLINGS,
        "score_from": CARRIES,
    }
    for name, allowed in choices.items():
        value = getattr(given, name)
        if value not in allowed:
            listed = ", ".join(repr(each) for each in allowed)
            raise UsageError(f"{name} must be one of {listed}, got {value!r}.")


def _check_numbers(given: NetSettings) -> None:
    if not isinstance(given.layers, (tuple, list)) or not all(_count(w) for w in given.layers):
        raise UsageError(f"layers must be positive whole numbers, got {given.layers!r}.")
    for name in ("heads", "group_size", "epochs", "patience"):
        if not _count(getattr(given, name)):
            value = getattr(given, name)
            raise UsageError(f"{name} must be a positive whole number, got {value!r}.")
    if type(given.attention) is not int or given.attention < 0:
        raise UsageError(f"attention is a number of blocks, 0 for none, got {given.attention!r}.")
    for name, lowest in (("learning_rate", 0.0), ("clip", 0.0), ("batch_norm", 0.0)):
        value = getattr(given, name)
        if not (value is None and name != "learning_rate") and not _number(value, lowest):
            raise UsageError(f"{name} must be a positive number, got {value!r}.")
    if given.batch_norm is not None and not given.batch_norm < 1:
        raise UsageError(f"batch_norm is a momentum below 1, got {given.batch_norm!r}.")
    if not _number(given.weight_decay, -1.0) or given.weight_decay < 0:
        raise UsageError(f"weight_decay must not be negative, got {given.weight_decay!r}.")
    if not _number(given.dropout, -1.0) or not 0 <= given.dropout < 1:
        raise UsageError(f"dropout must be at least 0 and below 1, got {given.dropout!r}.")


def _check_surroundings(given: NetSettings) -> None:
    if type(given.seed) is not int:
        raise UsageError(f"seed must be a whole number, got {given.seed!r}.")
    if given.threads is not None and not _count(given.threads):
        raise UsageError(f"threads must be a positive number or None for all: {given.threads!r}.")
    if not isinstance(given.device, str):
        raise UsageError(
            'device must be "auto", "cpu", "cuda", "cuda:1" or a torch.device, got '
            f"{given.device!r}."
        )


def _check_structure(given: NetSettings) -> None:
    for name in ("batch_lists", "batch_documents"):
        value = getattr(given, name)
        if value is not None and not _count(value):
            raise UsageError(f"{name} must be a positive whole number or None, got {value!r}.")
    if given.batch_lists is None and given.batch_documents is None:
        raise UsageError("give batch_lists, batch_documents or both: batches need a limit.")
    extras = {
        "attention": given.attention > 0,
        "group_size": given.group_size > 1,
        "recurrent": given.recurrent is not None,
        "module": given.module is not None,
    }
    used = [name for name, on in extras.items() if on]
    if len(used) > 1:
        raise UsageError(f"{' and '.join(used)} cannot be combined; choose one.")
    if (given.attention or given.recurrent) and not given.layers:
        raise UsageError(f"{used[0]} works on the last of the layers; give at least one.")
    if given.attention and given.layers[-1] % given.heads:
        raise UsageError(
            f"heads must divide the last of the layers, got {given.heads} and {given.layers[-1]}."
        )


def _count(value: Any) -> bool:
    return type(value) is int and value >= 1


def _number(value: Any, above: float) -> bool:
    return type(value) in (int, float) and above < value < float("inf")
