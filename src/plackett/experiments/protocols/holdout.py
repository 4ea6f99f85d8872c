"""One division of the data, each system trained once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from plackett.experiments.protocols.fixed import fixed_part, fixed_trial
from plackett.experiments.protocols.protocol import Part, Protocol, Trial
from plackett.experiments.protocols.source import Source


@dataclass(frozen=True)
class Holdout(Protocol):
    """The division that the data come with, or one random split 60/20/20.

    Parameters
    ----------
    seed
        Of models and of the split.
    """

    account: ClassVar[str] = "One division of the lists; tests pair the test lists."

    seed: int = 0

    def plan(self, source: Source) -> tuple[Part, ...]:
        part = fixed_part(source, name="holdout", seed=self.seed, division_seed=self.seed, index=0)
        return (part,)

    def trial(self, source: Source, part: Part) -> Trial:
        return fixed_trial(source, part, division_seed=self.seed)

    def __str__(self) -> str:
        return "holdout"
