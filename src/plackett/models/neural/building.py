"""Nets out of settings: the same seed, the same weights, whatever else draws random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from plackett.base.random import combine
from plackett.models.neural.attention import AttentionScorer
from plackett.models.neural.groupwise import GroupScorer
from plackett.models.neural.mlp import mlp
from plackett.models.neural.own import own_scorer
from plackett.models.neural.recurrent import LevelScorer
from plackett.models.neural.settings import NetSettings

_WEIGHTS = 0x77656967687473  # keeps first weights apart from the noise of steps
_STEPS = 0x7374657073


def build(given: NetSettings, n_features: int, *, learner: int = 0) -> nn.Module:
    """A net with its first weights, which depend on the seed and the number of the learner."""
    with seeded(_seed(given.seed, _WEIGHTS, learner)):
        return outline(given, n_features, learner=learner)


def outline(given: NetSettings, n_features: int, *, learner: int = 0) -> nn.Module:
    """The net itself; its weights are as PyTorch leaves them.

    Nets that correct a recurrent one are plain.
    """
    if given.module is not None:
        return own_scorer(given.module, n_features)
    with _single_precision():
        return _layered(given, n_features, learner)


def _layered(given: NetSettings, n_features: int, learner: int) -> nn.Module:
    if given.recurrent is not None and learner == 0:
        return LevelScorer(given, n_features)
    if given.attention:
        return AttentionScorer(given, n_features)
    if given.group_size > 1:
        return GroupScorer(given, n_features)
    return mlp(given, n_features)


@contextmanager
def seeded(number: int) -> Iterator[None]:
    """Draw first weights in the block by this number, on the processor."""
    cpu = torch.device("cpu")
    with restored_randomness(cpu), cpu:
        torch.default_generator.manual_seed(number)
        yield


@contextmanager
def restored_randomness(device: torch.device) -> Iterator[None]:
    """Let the block seed PyTorch as it likes; afterwards the user's state is back."""
    devices = [] if device.type == "cpu" else [device]
    with torch.random.fork_rng(devices=devices, device_type=device.type):
        yield


@contextmanager
def gradients() -> Iterator[None]:
    """Let the block take gradients, though the caller may have turned them off."""
    inference = torch.is_inference_mode_enabled()
    with torch.inference_mode(False) if inference else torch.enable_grad():
        yield


@contextmanager
def _single_precision() -> Iterator[None]:
    """Make weights of the type of features, whatever the user has set for tensors of their own."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def seed_step(seed: int, step: int, device: torch.device) -> None:
    """Make whatever a net draws in this step depend on seed and step alone."""
    number = _seed(seed, _STEPS, step)
    if device.type == "cpu":
        torch.default_generator.manual_seed(number)  # leaves the generators of GPUs alone
    else:
        torch.manual_seed(number)


def draws(given: NetSettings) -> bool:
    """Whether a net may draw random numbers while it is trained."""
    if given.module is not None or given.group_size > 1:
        return True
    return given.dropout > 0


def _seed(seed: int, purpose: int, number: int) -> int:
    base = combine(np.uint64(seed % 2**64) ^ np.uint64(purpose), np.uint64(number))
    return int(base) % 2**63
