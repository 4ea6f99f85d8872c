"""Nets out of settings: the same seed, the same weights, whatever else draws random numbers."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from plackett.base.errors import UsageError
from plackett.base.mixing import combine
from plackett.models.neural.attention import AttentionScorer
from plackett.models.neural.groupwise import GroupScorer
from plackett.models.neural.mlp import DocumentScorer, mlp
from plackett.models.neural.recurrent import LevelScorer
from plackett.models.neural.settings import NetSettings

_WEIGHTS = 0x77656967687473  # keeps first weights apart from the noise of steps
_STEPS = 0x7374657073


def build(given: NetSettings, n_features: int, *, learner: int = 0) -> nn.Module:
    """A net with its first weights, which depend on the seed and the number of the learner."""
    with restored_randomness(torch.device("cpu")):
        torch.manual_seed(_seed(given.seed, _WEIGHTS, learner))
        return outline(given, n_features, learner=learner)


def outline(given: NetSettings, n_features: int, *, learner: int = 0) -> nn.Module:
    """The net itself; its weights are as PyTorch leaves them.

    Nets that correct a recurrent one are plain.
    """
    if given.module is not None:
        return DocumentScorer(_own(given.module, n_features))
    if given.recurrent is not None and learner == 0:
        return LevelScorer(given, n_features)
    if given.attention:
        return AttentionScorer(given, n_features)
    if given.group_size > 1:
        return GroupScorer(given, n_features)
    return mlp(given, n_features)


@contextmanager
def restored_randomness(device: torch.device) -> Iterator[None]:
    """Let the block seed PyTorch as it likes; afterwards the user's state is back."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        yield


def seed_step(seed: int, step: int) -> None:
    """Make whatever a net draws in this step depend on seed and step alone."""
    torch.manual_seed(_seed(seed, _STEPS, step))


def draws(given: NetSettings) -> bool:
    """Whether a net may draw random numbers while it is trained."""
    if given.module is not None or given.group_size > 1:
        return True
    return given.dropout > 0


def _own(module: object, n_features: int) -> nn.Module:
    if isinstance(module, nn.Module):
        return copy.deepcopy(module)
    if callable(module):
        made = module(n_features)
        if isinstance(made, nn.Module):
            return made
        module = made
    raise UsageError(
        "module must be a torch.nn.Module that maps documents x features to scores, or a function "
        f"of the number of features that makes one; got {type(module).__name__}."
    )


def _seed(seed: int, purpose: int, number: int) -> int:
    base = combine(np.uint64(seed % 2**64) ^ np.uint64(purpose), np.uint64(number))
    return int(base) % 2**63
