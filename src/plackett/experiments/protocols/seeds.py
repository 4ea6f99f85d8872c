"""Many seeds on one division of the data, to see what depends on chance in training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from plackett.base.errors import UsageError
from plackett.experiments.protocols.fixed import fixed_part, fixed_trial
from plackett.experiments.protocols.protocol import Part, Protocol, Trial
from plackett.experiments.protocols.source import Source


@dataclass(frozen=True)
class Seeds(Protocol):
    """Training repeated with other seeds; mean and 95 % interval over them (Bruch et al. 2020).

    Data without a division of their own are split 60/20/20 once. The interval of a system's mean
    is over seeds. A list's values are averaged over seeds before systems are compared on it, so
    that tests say whether the difference would hold on other lists.

    Parameters
    ----------
    count
        Number of seeds; the paper took 10.
    seed
        The first, and that of the division; the others count up from it.
    """

    account: ClassVar[str] = (
        "Each trial trains with another seed on the same lists. Intervals of means are Student's "
        "over seeds; tests pair the lists by their values averaged over seeds."
    )

    count: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count < 2:
            raise UsageError(
                f"seeds must be at least 2, got {self.count}; for a single one choose holdout."
            )

    def plan(self, source: Source) -> tuple[Part, ...]:
        first = fixed_part(source, name="", seed=self.seed, division_seed=self.seed, index=0)
        return tuple(
            replace(first, name=f"seed {self.seed + i}", seed=self.seed + i, index=i)
            for i in range(self.count)
        )

    def trial(self, source: Source, part: Part) -> Trial:
        return fixed_trial(source, part, division_seed=self.seed)

    def __str__(self) -> str:
        return f"seeds:{self.count}"
