"""Many random splits of one data set, to see what depends on the division."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from plackett.base.errors import UsageError
from plackett.experiments.protocols.protocol import (
    SHARES,
    Part,
    Protocol,
    Trial,
    Unit,
    at_random,
    split_division,
)
from plackett.experiments.protocols.source import Source


@dataclass(frozen=True)
class Splits(Protocol):
    """Random splits 60/20/20 by list; means of trials are compared by a paired t-test (Bruch 2021).

    Trials share most of their lists, so their differences are not independent and the plain t-test
    finds too much. The corrected one (:func:`plackett.experiments.significance.resampled_t_test`)
    is reported beside it.

    Parameters
    ----------
    count
        Number of splits; the paper made 100.
    seed
        Of the first split and its models; the others count up from it.
    """

    unit: ClassVar[Unit] = "trials"
    alpha: ClassVar[float] = 0.01
    test_share: ClassVar[float] = SHARES[2]
    train_share: ClassVar[float] = SHARES[0]
    account: ClassVar[str] = (
        "Each trial splits the lists at random, 60/20/20 for training, validation and test; tests "
        "pair the trials by their means. Splits overlap, which makes the plain t-test optimistic: "
        "the corrected resampled t-test (Nadeau & Bengio 2003) stands beside it."
    )

    count: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count < 2:
            raise UsageError(
                f"splits must be at least 2, got {self.count}; for a single one choose holdout."
            )

    def plan(self, source: Source) -> tuple[Part, ...]:
        data = source.pooled_fingerprint
        return tuple(
            Part(f"split {i + 1}", data, split_division(self.seed + i), self.seed + i, i)
            for i in range(self.count)
        )

    def trial(self, source: Source, part: Part) -> Trial:
        return at_random(source.pooled, name=part.name, seed=part.seed, division_seed=part.seed)

    def __str__(self) -> str:
        return f"splits:{self.count}"
