r"""What a click log says about positions: how often each document was shown and clicked at each.

Under the position-based model a document i (of a query) at position k is clicked with chance
:math:`\theta_k\gamma_i`. Only products appear, so a common factor of all :math:`\theta` stays
open, and more than that where positions share no document: the graph that joins a document to the
positions it was shown at must hang together. A document that was never clicked says nothing about
ratios of :math:`\theta` (its :math:`\gamma` is 0) and is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import Rows
from plackett.data.clicks.log import ClickLog, codes_of


@dataclass(frozen=True)
class Cells:
    """Counts for each document (of a query) at each position it was shown at."""

    documents: Rows
    """Numbered from 0; only those that were clicked somewhere."""
    positions: Rows
    """From 0."""
    shown: NDArray[np.float64]
    clicked: NDArray[np.float64]
    n_documents: int
    n_positions: int

    @property
    def rates(self) -> NDArray[np.float64]:
        """Share of impressions that were clicked."""
        return self.clicked / self.shown


def count_cells(log: ClickLog, deepest: int | None = None) -> Cells:
    """Count; positions from ``deepest`` on are taken together."""
    if deepest is not None and deepest < 1:
        raise UsageError(f"deepest must be a position from 1 on, got {deepest}.")
    positions = log.positions - 1 if deepest is None else np.minimum(log.positions, deepest) - 1
    pairs = codes_of(log.documents)
    if log.queries is not None:
        queries = codes_of(log.queries)
        pairs = np.unique(queries * (pairs.max() + 1) + pairs, return_inverse=True)[1]
    ever = np.bincount(pairs, weights=log.clicks) > 0
    if not ever.any():
        raise DataError("the click log has no click: propensities cannot be estimated.")
    keep = ever[pairs]
    number = np.cumsum(ever) - 1  # of each document among those that were clicked
    pairs, positions, clicks = number[pairs[keep]], positions[keep], log.clicks[keep]
    n_positions = int(positions.max()) + 1
    cells, inverse = np.unique(pairs * n_positions + positions, return_inverse=True)
    return Cells(
        documents=cells // n_positions,
        positions=cells % n_positions,
        shown=np.bincount(inverse).astype(np.float64),
        clicked=np.bincount(inverse, clicks).astype(np.float64),
        n_documents=int(number[-1]) + 1,
        n_positions=n_positions,
    )


def refuse_unlinked(documents: Rows, positions: Rows, n_positions: int, remedy: str) -> None:
    """Refuse positions that no chain of documents, each shown at two positions, joins."""
    n_documents = int(documents.max()) + 1
    links = coo_array(
        (np.ones(len(documents)), (positions, n_positions + documents)),
        shape=(n_positions + n_documents,) * 2,
    )
    part = connected_components(links, directed=False)[1][:n_positions]
    seen = np.unique(positions)
    first = part[seen[0]]
    apart = seen[part[seen] != first]
    if len(apart):
        joined = seen[part[seen] == first]
        raise DataError(
            f"the propensities of positions {_spelt(joined)} and {_spelt(apart)} cannot be "
            "compared: no document that was clicked was shown in both groups (directly or through "
            f"others), so they are not identifiable; {remedy}"
        )


def _spelt(positions: Rows) -> str:
    shown = ", ".join(str(p + 1) for p in positions[:6])
    return shown + (f" ... ({len(positions)} in all)" if len(positions) > 6 else "")
