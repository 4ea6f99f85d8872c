"""What makes training data worse by a given amount."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import UsageError
from plackett.data.dataset import Dataset


class Corruption(ABC):
    """A kind of noise; subclasses are frozen dataclasses whose ``repr`` says all that matters."""

    name: ClassVar[str]
    """For people."""
    unit: ClassVar[str]
    """What a level is the share of."""
    validation: ClassVar[bool] = False
    """Whether validation lists get the noise too; test lists never do."""

    def apply(self, train: Dataset, *, level: float, seed: int) -> Dataset:
        """Training lists with noise; at level 0 they stay as they are.

        Parameters
        ----------
        train
            The lists to learn from, or to choose by.
        level
            Share of each list's documents, not negative.
        seed
            Of the noise: the same seed and level give the same data.
        """
        if not 0 <= level < np.inf:
            raise UsageError(f"a level of noise is a share that is not negative, got {level}.")
        if level == 0:
            return train
        # Parts per million of the level, so that noise differs from level to level.
        rng = np.random.default_rng([seed, round(level * 1_000_000)])
        return self._corrupted(train, level, rng)

    @abstractmethod
    def _corrupted(self, train: Dataset, level: float, rng: np.random.Generator) -> Dataset:
        """Noise at a level above 0."""


def share_of_lists(train: Dataset, level: float) -> NDArray[np.int64]:
    """For each list, the share of its documents as a whole number, halves up."""
    return np.floor(level * np.diff(train.offsets) + 0.5).astype(np.int64)
