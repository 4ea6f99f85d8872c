r"""How likely each position is to be examined.

What a click log says about positions: how often each document was shown and clicked at each.

Under the position-based model a document i (of a query) at position k is clicked with chance
:math:`\theta_k\gamma_i`. Only products appear, so a common factor of all :math:`\theta` stays
open, and more than that where positions share no document: the graph that joins a document to the
positions it was shown at must hang together. A document that was never clicked says nothing about
ratios of :math:`\theta` (its :math:`\gamma` is 0) and is left out.

Propensities from an ordinary log, by expectation maximisation of the position-based model.

A document i that is shown :math:`n_{ik}` times at position k is clicked :math:`n_{ik}\theta_k
\gamma_i` times on average: it attracts at a rate :math:`\gamma_i`, and is examined with chance
:math:`\theta_k`. What is hidden is how often it would have attracted had it been examined.
Counted as Poisson numbers, its mean given the clicks :math:`c_{ik}` is

.. math:: a_{ik} = c_{ik} + n_{ik}\gamma_i(1 - \theta_k), \qquad\text{and then}\qquad
    \gamma_i = \frac{\sum_k a_{ik}}{\sum_k n_{ik}}, \quad
    \theta_k = \frac{\sum_i c_{ik}}{\sum_i a_{ik}}.

It needs no intervention and no features, but documents that were shown at several positions.

Clicks are 0 or 1 and no Poisson numbers, and the textbook's EM (Chuklin, Markov & de Rijke 2015,
section 4.1; Wang et al. 2018) takes them as such. But there the rate of each document, fitted to a
handful of impressions, spoils the estimate of the positions however many documents there are. The
fixed point here solves :math:`\sum_i (c_{ik} - n_{ik}\theta_k\hat\gamma_i) = 0`, which holds on
average for clicks of any law with the mean above, so it converges to the truth with few impressions
of each document (the Poisson estimator with fixed effects; Wooldridge 1999). With 10 impressions of
each of 1,000 lists it gives .48, .38, .26 for positions 2 to 4 where the truth is .5, .33, .25, and
the textbook's gives 1, 1, 1.

Plain steps crawl where positions are seldom examined, so every two of them are extrapolated
(SQUAREM; Varadhan & Roland 2008), and the extrapolation is kept if it raises the likelihood.

Propensities from interventions: the same document at two positions, by chance alone.

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

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csc_array
from scipy.sparse.csgraph import connected_components

from plackett.base.errors import ConvergenceWarning, DataError, UsageError
from plackett.base.ragged import Rows
from plackett.data.clicks.log import ClickLog, codes_of


@dataclass(frozen=True, eq=False)
class Propensities:
    """The chance of being examined at positions 1, 2, 3 ...

    Only ratios matter for learning, and only ratios can be estimated from clicks: estimates have
    1 as their largest.
    """

    values: NDArray[np.float64]
    """For positions from 1 on; NaN where it is not known."""
    method: str = "given"
    pooled: bool = False
    """True if positions beyond the last count like the last."""

    def __post_init__(self) -> None:
        known = ~np.isnan(self.values)
        if self.values.ndim != 1 or not known.any():
            raise DataError(f"propensities must be one number per position, got {self.values!r}.")
        bad = known & ~((self.values >= 0) & (self.values < np.inf))
        if bad.any():
            at = int(np.argmax(bad))
            raise DataError(
                f"the propensity of position {at + 1} is {self.values[at]}; propensities are "
                "finite and not negative."
            )
        self.values.flags.writeable = False

    @classmethod
    def of(cls, given: Propensities | Mapping[int, float] | ArrayLike) -> Propensities:
        """Propensities from a mapping of positions, or from one value per position from 1 on.

        >>> Propensities.of({1: 1.0, 3: 0.4}).values.tolist()
        [1.0, nan, 0.4]
        """
        if isinstance(given, Propensities):
            return given
        if isinstance(given, Mapping):
            return cls(_from_mapping(given))
        try:
            return cls(np.array(given, dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise DataError(f"propensities must be numbers: {error}.") from error

    @classmethod
    def power(cls, eta: float, n_positions: int) -> Propensities:
        """Position k is examined with chance k to the power -eta."""
        if not 0 <= eta < np.inf or n_positions < 1:
            raise UsageError(
                f"needs a finite eta >= 0 and n_positions >= 1, got {eta} and {n_positions}."
            )
        return cls(np.arange(1.0, n_positions + 1) ** -eta, method=f"power {eta:g}")

    def at(self, positions: Rows, *, clip: float | None = None) -> NDArray[np.float64]:
        """The propensity of each position; those below ``clip`` count as it."""
        if clip is not None and not 0 <= clip <= 1:
            raise UsageError(f"clip must lie between 0 and 1, got {clip}.")
        places = np.asarray(positions) - 1
        if self.pooled:
            places = np.minimum(places, len(self.values) - 1)
        known = places < len(self.values)
        found = np.full(len(places), np.nan)
        found[known] = self.values[places[known]]
        return found if clip is None else np.where(np.isnan(found), found, np.maximum(found, clip))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        known = np.flatnonzero(~np.isnan(self.values))
        return {
            "method": self.method,
            "pooled": self.pooled,
            "propensities": {str(k + 1): float(self.values[k]) for k in known},
        }


def _from_mapping(given: Mapping[int, float]) -> NDArray[np.float64]:
    if not given:
        raise DataError("propensities are given for no position.")
    for position in given:
        if not isinstance(position, (int, np.integer)) or position < 1:
            raise DataError(f"propensities are given for positions from 1 on, got {position!r}.")
    values = np.full(int(max(given)), np.nan)
    for position, value in given.items():
        values[position - 1] = value
    return values


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


_LEAST = 1e-12  # below it nothing is told apart, and logarithms stay finite
_HIGHEST = 50.0  # logarithm of a rate: no leap overflows


class _State(NamedTuple):
    positions: NDArray[np.float64]
    documents: NDArray[np.float64]


def estimate_by_em(
    log: ClickLog,
    *,
    deepest: int | None = None,
    iterations: int = 2000,
    tolerance: float = 1e-5,
) -> Propensities:
    """Estimate propensities by expectation maximisation.

    Parameters
    ----------
    log
        Documents must have been shown at several positions; positions that no chain of such
        documents joins are refused.
    deepest
        Positions from it on are taken together; None: each is estimated.
    iterations
        At most so many.
    tolerance
        Ends when no propensity moves by more than this share in a step.
    """
    if iterations < 1 or not tolerance > 0:
        raise UsageError(
            f"needs iterations >= 1 and tolerance > 0, got {iterations} and {tolerance}."
        )
    cells = count_cells(log, deepest)
    refuse_unlinked(
        cells.documents,
        cells.positions,
        cells.n_positions,
        "vary the order in which results are shown, or pass deepest= to take positions together.",
    )
    state = _start(cells)
    for _ in range(iterations):
        before = state.positions
        state = _accelerated(cells, state)
        if np.all(np.abs(state.positions - before) <= tolerance * np.maximum(before, _LEAST)):
            break
    else:
        warnings.warn(
            f"expectation maximisation of propensities has not settled after {iterations} "
            "iterations, and they may be off; raise iterations=, or take deep positions, which are "
            "seldom clicked, together with deepest=.",
            ConvergenceWarning,
            stacklevel=2,
        )
    values = np.full(cells.n_positions, np.nan)
    seen = np.unique(cells.positions)
    values[seen] = state.positions[seen] / state.positions[seen].max()
    # A position without any click is not examined as far as the log can tell.
    values[np.bincount(cells.positions, cells.clicked, cells.n_positions) == 0] *= 0.0
    return Propensities(values, method="em", pooled=deepest is not None)


def _start(cells: Cells) -> _State:
    """Start with what is clicked at each position and of each document."""
    positions = _ratio_of_sums(cells.clicked, cells.shown, cells.positions, cells.n_positions)
    documents = _ratio_of_sums(cells.clicked, cells.shown, cells.documents, cells.n_documents)
    return _State(np.clip(positions / positions.max(), 0.01, 1.0), documents)


def _ratio_of_sums(
    above: NDArray[np.float64], below: NDArray[np.float64], of: NDArray[np.int64], n: int
) -> NDArray[np.float64]:
    """Ratio of sums for each position or document."""
    total = np.bincount(of, below, n)
    found = np.bincount(of, above, n) / np.where(total > 0, total, 1.0)
    return np.maximum(found, _LEAST)


def _step(cells: Cells, state: _State) -> _State:
    hidden = cells.shown * state.documents[cells.documents]
    attracted = cells.clicked + hidden * (1.0 - state.positions[cells.positions])
    positions = _ratio_of_sums(cells.clicked, attracted, cells.positions, cells.n_positions)
    documents = _ratio_of_sums(attracted, cells.shown, cells.documents, cells.n_documents)
    # Only products count: with 1 as the largest of positions, steps are the longest.
    top = positions.max()
    return _State(positions / top, documents * top)


def _likelihood(cells: Cells, state: _State) -> float:
    rate = state.positions[cells.positions] * state.documents[cells.documents]
    return float(np.sum(cells.clicked * np.log(rate) - cells.shown * rate))


def _accelerated(cells: Cells, state: _State) -> _State:
    """Two steps and their extrapolation in the logarithms; the better of both."""
    once = _step(cells, state)
    twice = _step(cells, once)
    logs = [np.log(np.concatenate(s)) for s in (state, once, twice)]
    first, second = logs[1] - logs[0], logs[2] - 2.0 * logs[1] + logs[0]
    size = float(np.linalg.norm(second))
    if size == 0.0:
        return twice
    length = -max(1.0, float(np.linalg.norm(first)) / size)
    leap = logs[0] - 2.0 * length * first + length * length * second
    found = np.maximum(np.exp(np.minimum(leap, _HIGHEST)), _LEAST)
    n = cells.n_positions
    guess = _step(cells, _State(np.minimum(found[:n], 1.0), found[n:]))
    return guess if _likelihood(cells, guess) > _likelihood(cells, twice) else twice


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
            found = _log_ratio(shown, clicked, k, other)
            if found is not None:
                pairs.append((k, other))
                ratios.append(found[0])
                variances.append(found[1])
    return np.array(pairs, np.int64).reshape(-1, 2), np.array(ratios), np.array(variances)


def _log_ratio(
    shown: csc_array, clicked: csc_array, k: int, other: int
) -> tuple[float, float] | None:
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
