r"""Propensities from interventions: the same document at two positions, by chance alone.

Where results are swapped at random (Joachims, Swaminathan & Schnabel 2017: the first with one drawn
evenly), a document's relevance does not depend on where it was shown, and for any two positions

.. math::

    \frac{\theta_l}{\theta_k} = \frac{E\big[\sum_i w_i\, c_{il}/n_{il}\big]}
                                      {E\big[\sum_i w_i\, c_{ik}/n_{ik}\big]}, \qquad
    w_i = \frac{n_{ik}n_{il}}{n_{ik}+n_{il}},

summed over the documents shown at both, with :math:`n` impressions and :math:`c` clicks. The same
counts where rankers change from time to time (Agarwal et al. 2019 harvest such interventions).
The weights favour documents that were seen often at both; any weights would do.

The logarithms of these ratios, for all pairs of positions, are fitted by least squares, each
weighed by the inverse of its variance: :math:`\sum_i w_i^2 c_i/n_i^2` over the squared sum, for
both positions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from plackett.base.errors import DataError
from plackett.base.ragged import Rows
from plackett.data.clicks.cells import Cells, count_cells, refuse_unlinked
from plackett.data.clicks.log import ClickLog
from plackett.data.clicks.propensities import Propensities

_REMEDY = "swap results at random over more positions, or pass deepest= to take positions together."


def estimate_by_swaps(log: ClickLog, *, deepest: int | None = None) -> Propensities:
    """Estimate propensities from documents that were shown at several positions by chance.

    Parameters
    ----------
    log
        Of an experiment that swaps results at random, or of rankers that changed; what decides
        where a document is shown must not look at how relevant it is.
    deepest
        Positions from it on are taken together; None: each is estimated.
    """
    cells = count_cells(log, deepest)
    pairs, ratios, variances = _ratios(cells)
    if len(pairs) == 0:
        raise DataError(
            "no document was shown, and clicked, at two positions: there is no intervention to "
            f"learn from; {_REMEDY}"
        )
    # A pair of positions joins them as a document would.
    number = np.repeat(np.arange(len(pairs)), 2)
    seen = np.unique(cells.positions[cells.clicked > 0])
    joined = np.concatenate([number, len(pairs) + np.arange(len(seen))])
    refuse_unlinked(joined, np.concatenate([pairs.ravel(), seen]), cells.n_positions, _REMEDY)
    values = np.full(cells.n_positions, np.nan)
    values[np.unique(cells.positions)] = 0.0  # shown, never clicked
    values[seen] = np.exp(_fit(pairs, ratios, variances, seen))
    return Propensities(values / np.nanmax(values), method="swap", pooled=deepest is not None)


def _ratios(cells: Cells) -> tuple[Rows, NDArray[np.float64], NDArray[np.float64]]:
    """For each pair of positions with common documents, the log of the ratio and its variance."""
    shape = (cells.n_documents, cells.n_positions)
    place = (cells.documents, cells.positions)
    shown = csc_array((cells.shown, place), shape=shape)
    clicked = csc_array((cells.clicked, place), shape=shape)
    pairs, ratios, variances = [], [], []
    for k in range(cells.n_positions):
        for other in range(k + 1, cells.n_positions):
            found = _ratio(shown, clicked, k, other)
            if found is not None:
                pairs.append((k, other))
                ratios.append(found[0])
                variances.append(found[1])
    return np.array(pairs, np.int64).reshape(-1, 2), np.array(ratios), np.array(variances)


def _ratio(shown: csc_array, clicked: csc_array, k: int, other: int) -> tuple[float, float] | None:
    parts = [slice(shown.indptr[at], shown.indptr[at + 1]) for at in (k, other)]
    _, first, second = np.intersect1d(
        shown.indices[parts[0]], shown.indices[parts[1]], assume_unique=True, return_indices=True
    )
    n = [shown.data[p][i] for p, i in zip(parts, (first, second), strict=True)]
    c = [clicked.data[p][i] for p, i in zip(parts, (first, second), strict=True)]
    weights = n[0] * n[1] / (n[0] + n[1])
    sums = [float(np.sum(weights * c[j] / n[j])) for j in (0, 1)]
    if min(sums, default=0.0) <= 0.0:
        return None
    spread = [float(np.sum((weights / n[j]) ** 2 * c[j])) / sums[j] ** 2 for j in (0, 1)]
    return float(np.log(sums[1] / sums[0])), spread[0] + spread[1]


def _fit(
    pairs: Rows, ratios: NDArray[np.float64], variances: NDArray[np.float64], seen: Rows
) -> NDArray[np.float64]:
    """Logarithms of the propensities of the seen positions; that of the first is 0."""
    column = np.searchsorted(seen, pairs)
    design = np.zeros((len(pairs), len(seen)))
    rows = np.arange(len(pairs))
    design[rows, column[:, 1]] = 1.0
    design[rows, column[:, 0]] = -1.0
    scale = 1.0 / np.sqrt(variances)
    solved = np.linalg.lstsq(design[:, 1:] * scale[:, None], ratios * scale, rcond=None)[0]
    return np.concatenate([[0.0], solved])
