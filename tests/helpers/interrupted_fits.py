"""Fits that break off, for tests that take them up again."""

from __future__ import annotations

import pytest
import torch

from plackett.models.checkpoint import Checkpoint


class KilledError(Exception):
    """Stands for the end of a process."""


def weights(ranker):
    """Everything in the state of all nets."""
    return [value for net in ranker.networks_ for value in net.state_dict().values()]


def same(first, second) -> bool:
    """Whether two rankers have the same weights to the bit."""
    a, b = weights(first), weights(second)
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def interrupt_fit(ranker, parts, folder, monkeypatch, *, saves: int) -> None:
    """Fit until so many states are saved, then stop as if the process had died."""
    count = 0
    original = Checkpoint.saving

    def counted(self, step):
        nonlocal count
        count += 1
        if count > saves:
            raise KilledError
        return original(self, step)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "saving", counted)
        with pytest.raises(KilledError):
            ranker.fit(parts[0], parts[1], checkpoint=folder)


def states(folder, *, at_least: int) -> bool:
    """Whether a checkpoint holds a state after at least so many steps."""
    if not folder.is_dir():
        return False
    steps = [int(p.name[5:]) for p in folder.iterdir() if p.name.startswith("step-")]
    return bool(steps) and max(steps) >= at_least
