"""What a request asks for: lists of documents, ready to be scored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from plackett.base.ragged import Features, Offsets

Id: TypeAlias = str | int
Ids: TypeAlias = list[Id]


@dataclass(frozen=True, eq=False)
class Lists:
    """Lists of documents in the order of the request."""

    features: Features
    """float32, one row per document; NaN is missing, nothing is infinite."""
    offsets: Offsets
    ids: tuple[Ids | None, ...]
    """What the client calls the documents of each list, if it does."""
    top: int | None = None
    """How many documents of each list the order shall have."""
    single: bool = True
    """One list was asked for as such, not as a batch of one."""

    @property
    def n_lists(self) -> int:
        """Number of lists."""
        return len(self.offsets) - 1

    @property
    def n_docs(self) -> int:
        """Number of documents of all lists."""
        return int(self.offsets[-1])
