"""Rows as a reader produces them, before they are grouped into lists."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.errors import DataWarning
from plackett.base.ragged import Features, Ids, Labels, Rows
from plackett.data.inputs import Categories


@dataclass(frozen=True)
class Table:
    """Rows of (query, document, features, label) in the order of their source.

    Readers check the values (labels finite and not negative, features finite unless missing values
    are allowed); ``Dataset.from_table`` groups the rows into lists.
    """

    features: Features | csr_array
    """float32; ``Dataset.from_table`` takes the array over."""
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
    categories: Categories | None = None
    """For each feature that holds categories, what its values 0, 1, 2 ... stand for."""
    source: str | None = None
    """Name of the file, for error messages."""
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


def take(values: NDArray[Any] | None, positions: Rows | slice) -> NDArray[Any] | None:
    """The values at these positions, or None for an array that is absent."""
    return None if values is None else values[positions]


def warn_scattered(source: str | None) -> None:
    """Warn that the rows of some queries are not next to each other."""
    warnings.warn(f"{_describe_scattered(source)}.", DataWarning, stacklevel=5)


def _describe_scattered(source: str | None) -> str:
    return (
        f"{source or 'the data'}: the rows of some queries are not next to each other; rows with "
        "the same query id form one list"
    )
