"""A protocol under noise: each of its trials at each level."""

from __future__ import annotations

from dataclasses import dataclass, replace

from plackett.base.errors import UsageError
from plackett.experiments.protocols import Part, Protocol, Source, Trial
from plackett.experiments.robustness.corruption import Corruption


@dataclass(frozen=True)
class UnderNoise(Protocol):
    """The trials of a protocol, their training lists corrupted at each of several levels.

    Noise that is meant for them corrupts validation lists as well.

    Trials at level 0 are those of the protocol itself: a store that has them need not run them
    again.
    """

    protocol: Protocol
    corruption: Corruption
    levels: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(set(self.levels)) < len(self.levels) or not self.levels:
            raise UsageError(f"levels of noise must be different numbers, got {self.levels}.")

    def plan(self, source: Source) -> tuple[Part, ...]:
        inner = self.protocol.plan(source)
        return tuple(
            self._noisy(part, level, i * len(inner) + part.index)
            for i, level in enumerate(self.levels)
            for part in inner
        )

    def _noisy(self, part: Part, level: float, index: int) -> Part:
        if level == 0:
            return replace(part, index=index)
        where = "training and validation lists" if self.corruption.validation else "training lists"
        noise = f"{self.corruption!r} at level {level:g}, seed {part.seed}, on the {where}"
        name = f"{part.name}, {self.corruption.name} {level:.0%}"
        return replace(part, name=name, division=f"{part.division}; {noise}", index=index)

    def trial(self, source: Source, part: Part) -> Trial:
        inner = self.protocol.plan(source)
        level, own = self.levels[part.index // len(inner)], inner[part.index % len(inner)]
        trial = self.protocol.trial(source, own)
        train = self.corruption.apply(trial.train, level=level, seed=part.seed)
        validation = trial.validation
        if self.corruption.validation:
            validation = self.corruption.apply(validation, level=level, seed=part.seed)
        return replace(trial, name=part.name, train=train, validation=validation)

    def __str__(self) -> str:
        levels = ", ".join(f"{level:g}" for level in self.levels)
        return f"{self.protocol} under {self.corruption.name} ({levels})"
