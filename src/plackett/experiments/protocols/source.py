"""The data that a protocol divides: one data set, or one that comes in folds."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from plackett.base.errors import UsageError
from plackett.data.dataset import Dataset, fingerprint
from plackett.data.folds import Fold, concat


@dataclass(frozen=True, eq=False)
class Source:
    """Data with a name; either ``whole`` or ``folds`` is there."""

    name: str
    whole: Dataset | None = None
    folds: tuple[Fold, ...] = ()

    @cached_property
    def pooled(self) -> Dataset:
        """All lists, each once.

        Of several folds these are their test lists, which together are the data set; of a single
        one its training, validation and test lists.
        """
        if self.whole is not None:
            return self.whole
        if len(self.folds) > 1:
            return concat([fold.test for fold in self.folds])
        return concat([part for part in parts_of(self.folds[0]) if part is not None])

    @cached_property
    def pooled_fingerprint(self) -> str:
        """Names the contents of :attr:`pooled`."""
        return fingerprint(self.pooled)

    def fixed(self) -> Fold | None:
        """The division that comes with the data, if there is exactly one; None for a whole set."""
        if len(self.folds) > 1:
            raise UsageError(
                f"{self.name} has {len(self.folds)} folds, and this protocol takes one division "
                f"of the data: give one of them ({', '.join(f.name for f in self.folds)}), or "
                "choose the protocol folds."
            )
        return self.folds[0] if self.folds else None


def as_source(data: Dataset | Fold | Sequence[Fold] | Source, *, name: str = "data") -> Source:
    """Data in any form, with a name for people."""
    if isinstance(data, Source):
        return data
    if isinstance(data, Dataset):
        return Source(name, whole=data)
    folds = (data,) if isinstance(data, Fold) else tuple(data)
    if not folds:
        raise UsageError("there are no data to compare on: the sequence of folds is empty.")
    return Source(name, folds=folds)


def parts_of(fold: Fold) -> tuple[Dataset, Dataset | None, Dataset]:
    """Its training, validation and test lists."""
    return fold.train, fold.validation, fold.test


def fold_fingerprint(fold: Fold) -> str:
    """Names the contents of a fold; its own name does not matter."""
    digest = hashlib.sha256()
    for part in parts_of(fold):
        digest.update((fingerprint(part) if part is not None else "none").encode())
    return digest.hexdigest()[:32]
