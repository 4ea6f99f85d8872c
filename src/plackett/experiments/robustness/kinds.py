"""Kinds of noise by name, with the levels of Bruch (2021)."""

from __future__ import annotations

from dataclasses import dataclass

from plackett.base.errors import UsageError
from plackett.experiments.robustness.augmentation import Augmentation
from plackett.experiments.robustness.clicks import LEVELS as CLICK_LEVELS
from plackett.experiments.robustness.clicks import Clicks
from plackett.experiments.robustness.corruption import Corruption
from plackett.experiments.robustness.curves import LEVELS
from plackett.experiments.robustness.labels import LabelNoise


@dataclass(frozen=True)
class NoiseKind:
    """What a name stands for."""

    corruption: Corruption
    levels: tuple[float, ...]
    """Those of the paper."""


KINDS: dict[str, NoiseKind] = {
    "negatives": NoiseKind(Augmentation(), LEVELS),
    "labels": NoiseKind(LabelNoise(), LEVELS),
    "clicks": NoiseKind(Clicks(), CLICK_LEVELS),
}
"""By name."""


def noise_kind(name: str) -> NoiseKind:
    """The kind of noise of this name."""
    if name not in KINDS:
        raise UsageError(f"there is no noise {name!r}. There are: {', '.join(KINDS)}.")
    return KINDS[name]
