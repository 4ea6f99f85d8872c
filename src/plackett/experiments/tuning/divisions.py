"""What a trial learns from and is judged on. Test lists have no part in tuning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plackett.base.errors import DataError, UsageError
from plackett.data.dataset import Dataset
from plackett.data.folds import split
from plackett.experiments.protocols import Source
from plackett.experiments.protocols.source import fold_fingerprint

Division = tuple[Dataset, Dataset]
"""Lists to learn from, and lists to choose on."""


@dataclass(frozen=True)
class Divisions:
    """How data are divided, in numbers that can be sent anywhere.

    Parameters
    ----------
    folds
        Cut the lists into so many parts: each is judged on in turn, the others are learnt from.
        None: take the parts that the data come with.
    share
        Of the lists, held out for validation where the data come without such a part.
    seed
        Of whatever is drawn.
    """

    folds: int | None = None
    share: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        if self.folds is not None and self.folds < 2:
            raise UsageError(f"folds must be at least 2, got {self.folds}.")
        if not 0 < self.share < 1:
            raise UsageError(f"the share for validation is between 0 and 1, got {self.share}.")

    def count(self, source: Source) -> int:
        """How many divisions a trial goes through."""
        if self.folds is not None:
            if source.pooled.n_lists < self.folds:
                raise DataError(
                    f"{source.pooled.n_lists} lists cannot be cut into {self.folds} folds."
                )
            return self.folds
        return max(len(source.folds), 1)

    def __call__(self, source: Source, place: int) -> Division:
        """One of them."""
        if self.folds is not None:
            data = source.pooled
            part = np.empty(data.n_lists, np.int64)
            order = np.random.default_rng(self.seed).permutation(data.n_lists)
            part[order] = np.arange(data.n_lists) % self.folds
            held_out = data.select(np.flatnonzero(part == place))
            return data.select(np.flatnonzero(part != place)), held_out
        if not source.folds:
            return self._halves(source.pooled)
        fold = source.folds[place]
        if fold.validation is None:
            return self._halves(fold.train)
        return fold.train, fold.validation

    def last(self, source: Source) -> Division:
        """For the model that is kept: the only division, or all lists with some held out."""
        return self(source, 0) if self.count(source) == 1 else self._halves(source.pooled)

    def _halves(self, data: Dataset) -> Division:
        kept, held_out = split(data, (1 - self.share, self.share), seed=self.seed)
        return kept, held_out

    def fingerprint(self, source: Source) -> str:
        """Names the contents of what is divided."""
        if self.folds is not None or not source.folds:
            return source.pooled_fingerprint
        return " ".join(fold_fingerprint(fold) for fold in source.folds)

    def __str__(self) -> str:
        if self.folds is not None:
            return f"{self.folds} folds, seed {self.seed}"
        return f"as given, or {self.share:g} for validation with seed {self.seed}"
