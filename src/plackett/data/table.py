"""Rows as they came, before they are grouped into lists: what every reader produces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from plackett.base.ragged import Features, Ids, Labels

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True)
class Table:
    """Rows of (query, document, features, label) in the order of their source.

    Readers have checked the values (labels finite and not negative, features finite unless
    missing values were allowed); grouping and ordering is left to ``Dataset.from_table``.
    """

    features: Features | csr_array
    """float32; a reader gives its array away: ``Dataset.from_table`` may reorder it in place."""
    labels: Labels
    query_ids: Ids
    """One per row: int64 or str."""
    document_ids: Ids | None = None
    """One per row: int64 or str."""
    weights: NDArray[np.float64] | None = None
    """One per row, the same in all rows of a list."""
    document_weights: NDArray[np.float64] | None = None
    """One per row."""
    groups: Ids | None = None
    """One per row, the same in all rows of a list: int64 or str."""
    feature_names: tuple[str, ...] | None = None
    source: str | None = None
    """Name of the file, for messages."""
    full_rows: bool = True
    """False if rows of a text file leave features out, so that its width is only a lower bound."""

    @property
    def n_docs(self) -> int:
        """Number of rows."""
        return len(self.labels)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.features.shape[1])
