r"""Propensities: the probability that each position is examined, and two ways to estimate it.

Under the position-based model a document i (of a query) at position k is clicked with probability
:math:`\theta_k\gamma_i`. Only products appear, so the :math:`\theta` can be estimated up to a common factor, and only
if positions share documents: the graph that connects each document with the positions it was shown at must be
connected. A document that was never clicked gives no information about ratios of :math:`\theta` (its :math:`\gamma` is
0) and is left out.

**Expectation maximization** (:func:`estimate_by_em`) needs only an ordinary log in which documents
were shown at several positions. A document i that is shown :math:`n_{ik}` times at position k is
clicked :math:`n_{ik}\theta_k\gamma_i` times on average: it attracts at a rate :math:`\gamma_i`, and is
examined with probability :math:`\theta_k`. The hidden variable is how often it would have attracted if it
had always been examined. If counts are Poisson, its mean given the clicks :math:`c_{ik}` is

.. math:: a_{ik} = c_{ik} + n_{ik}\gamma_i(1 - \theta_k), \qquad\text{and then}\qquad
    \gamma_i = \frac{\sum_k a_{ik}}{\sum_k n_{ik}}, \quad
    \theta_k = \frac{\sum_i c_{ik}}{\sum_i a_{ik}}.

Clicks are 0 or 1, not Poisson, and the usual EM (Chuklin, Markov & de Rijke 2015, section 4.1; Wang et al. 2018) models
them as 0 or 1. But there the rate of each document is fitted to a few impressions, which biases the estimates of the
positions however many documents there are. The fixed point here solves :math:`\sum_i (c_{ik} -
n_{ik}\theta_k\hat\gamma_i) = 0`, which holds on average for any distribution of clicks with the mean above, so it
converges to the truth with few impressions of each document (the Poisson estimator with fixed effects; Wooldridge
1999). With 10 impressions of each of 1,000 lists it gives .48, .38, .26 for positions 2 to 4 where the truth is .5,
.33, .25, and the usual EM gives 1, 1, 1.

Plain steps converge slowly where positions are seldom examined, so every two of them are extrapolated (SQUAREM;
Varadhan & Roland 2008), and the extrapolation is kept if it raises the likelihood.

**Swaps** (:func:`estimate_by_swaps`) need interventions: the same document at two positions, at random. If results are
swapped at random (Joachims, Swaminathan & Schnabel 2017: the first with one drawn uniformly), a document's relevance
does not depend on its position, and for any two positions

.. math::

    \frac{\theta_l}{\theta_k} = \frac{E\big[\sum_i w_i\, c_{il}/n_{il}\big]}
                                      {E\big[\sum_i w_i\, c_{ik}/n_{ik}\big]}, \qquad
    w_i = \frac{n_{ik}n_{il}}{n_{ik}+n_{il}},

summed over the documents shown at both, with :math:`n` impressions and :math:`c` clicks. Rankers
that change over time give such interventions too (Agarwal et al. 2019). Any weights would do; these
favor documents that were shown often at both positions.

The logarithms of these ratios, for all pairs of positions, are fitted by least squares, each weighted by the inverse of
its variance: :math:`\sum_i w_i^2 c_i/n_i^2` over the squared sum, for both positions.
"""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csc_array
from scipy.sparse.csgraph import connected_components

from plackett.base.errors import ConvergenceWarning, DataError, Message, Parameter, UsageError
from plackett.base.files import require_regular, write_text
from plackett.base.ragged import Rows
from plackett.data.clicks.log import ClickLog, encode_ids
from plackett.data.files import PathLike

_LEAST = 1e-12  # lower bound on rates, so that logarithms are finite
_HIGHEST_LOG = 50.0  # upper bound on the logarithm of a rate, so that extrapolation does not overflow
_SWAP_REMEDY = "swap results at random over more positions, or pass deepest= to pool positions."


@dataclass(frozen=True, eq=False)
class Propensities:
    """The probability that positions 1, 2, 3 ... are examined.

    Only ratios matter for learning, and only ratios can be estimated from clicks: the largest estimate is 1.
    """

    values: NDArray[np.float64]
    """For positions from 1 on; NaN where unknown."""
    method: str = "given"
    pooled: bool = False
    """True if positions beyond the last have the propensity of the last."""

    def __post_init__(self) -> None:
        known = ~np.isnan(self.values)
        if self.values.ndim != 1 or not known.any():
            raise DataError(f"propensities must be one number per position, got {self.values!r}.")
        bad = known & ~((self.values >= 0) & (self.values < np.inf))
        if bad.any():
            index = int(np.argmax(bad))
            raise DataError(
                f"the propensity of position {index + 1} is {self.values[index]}; propensities are "
                "finite and not negative."
            )
        self.values.flags.writeable = False

    @classmethod
    def of(cls, values: Propensities | Mapping[int, float] | ArrayLike) -> Propensities:
        """Make propensities from a mapping of positions, or one value per position from 1 on.

        >>> Propensities.of({1: 1.0, 3: 0.4}).values.tolist()
        [1.0, nan, 0.4]
        """
        if isinstance(values, Propensities):
            return values
        if isinstance(values, Mapping):
            if not values:
                raise DataError("propensities are given for no position.")
            for position in values:
                if not isinstance(position, (int, np.integer)) or position < 1:
                    raise DataError(f"propensities are given for positions from 1 on, got {position!r}.")
            array = np.full(int(max(values)), np.nan)
            array[[position - 1 for position in values]] = list(values.values())
            return cls(array)
        try:
            return cls(np.array(values, dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise DataError(f"propensities must be numbers: {error}.") from error

    @classmethod
    def power(cls, eta: float, n_positions: int) -> Propensities:
        """Make propensities of k to the power -eta at position k."""
        if not 0 <= eta < np.inf or n_positions < 1:
            raise UsageError(f"needs a finite eta >= 0 and n_positions >= 1, got {eta} and {n_positions}.")
        return cls(np.arange(1.0, n_positions + 1) ** -eta, method=f"power {eta:g}")

    def at(self, positions: Rows, *, clip: float | None = None) -> NDArray[np.float64]:
        """The propensity of each position, NaN where unknown; ``clip`` is a lower bound."""
        if clip is not None and not 0 <= clip <= 1:
            raise UsageError(f"clip must lie between 0 and 1, got {clip}.")
        indices = np.asarray(positions) - 1
        if self.pooled:
            indices = np.minimum(indices, len(self.values) - 1)
        known = indices < len(self.values)
        result = np.full(len(indices), np.nan)
        result[known] = self.values[indices[known]]
        return result if clip is None else np.maximum(result, clip)  # NaN stays NaN

    def to_dict(self) -> dict[str, Any]:
        """Data for JSON."""
        known = np.flatnonzero(~np.isnan(self.values))
        return {
            "method": self.method,
            "pooled": self.pooled,
            "propensities": {str(k + 1): float(self.values[k]) for k in known},
        }


@dataclass(frozen=True)
class PositionCounts:
    """Counts for each document (of a query) at each position it was shown at."""

    documents: Rows
    """Numbered from 0; only those that were clicked at some position."""
    positions: Rows
    """From 0."""
    shown: NDArray[np.float64]
    clicked: NDArray[np.float64]
    n_documents: int
    n_positions: int


def count_positions(log: ClickLog, deepest: int | None = None) -> PositionCounts:
    """Count impressions and clicks; positions from ``deepest`` on are pooled."""
    if deepest is not None and deepest < 1:
        raise UsageError(f"deepest must be a position from 1 on, got {deepest}.")
    positions = log.positions - 1 if deepest is None else np.minimum(log.positions, deepest) - 1
    pairs = encode_ids(log.documents)
    if log.queries is not None:
        queries = encode_ids(log.queries)
        pairs = np.unique(queries * (pairs.max() + 1) + pairs, return_inverse=True)[1]
    ever = np.bincount(pairs, weights=log.clicks) > 0
    if not ever.any():
        raise DataError("the click log has no click: propensities cannot be estimated.")
    keep = ever[pairs]
    number = np.cumsum(ever) - 1  # renumbers the documents that were clicked
    pairs, positions, clicks = number[pairs[keep]], positions[keep], log.clicks[keep]
    n_positions = int(positions.max()) + 1
    cells, inverse = np.unique(pairs * n_positions + positions, return_inverse=True)
    return PositionCounts(
        documents=cells // n_positions,
        positions=cells % n_positions,
        shown=np.bincount(inverse).astype(np.float64),
        clicked=np.bincount(inverse, clicks).astype(np.float64),
        n_documents=int(number[-1]) + 1,
        n_positions=n_positions,
    )


def refuse_unlinked(documents: Rows, positions: Rows, n_positions: int, remedy: str) -> None:
    """Raise DataError for positions that no chain of documents, each shown at two positions, connects."""
    n_documents = int(documents.max()) + 1
    links = coo_array(
        (np.ones(len(documents)), (positions, n_positions + documents)), shape=(n_positions + n_documents,) * 2
    )
    component = connected_components(links, directed=False)[1][:n_positions]
    seen = np.unique(positions)
    connected = component[seen] == component[seen[0]]
    if not connected.all():
        one, other = _list_positions(seen[connected]), _list_positions(seen[~connected])
        raise DataError(
            Message(
                f"the propensities of positions {one} and {other} cannot be compared: no document that was clicked was "
                "shown in both groups (directly or through others), so they are not identifiable; ",
                remedy,
            )
        )


def _list_positions(positions: Rows) -> str:
    text = ", ".join(str(p + 1) for p in positions[:6])
    return text + (f" ... ({len(positions)} in all)" if len(positions) > 6 else "")


class _Rates(NamedTuple):
    """Examination of positions and attraction of documents."""

    positions: NDArray[np.float64]
    documents: NDArray[np.float64]


def estimate_by_em(
    log: ClickLog, *, deepest: int | None = None, iterations: int = 2000, tolerance: float = 1e-5
) -> Propensities:
    """Estimate propensities by expectation maximization.

    Parameters
    ----------
    log
        Documents must have been shown at several positions, and chains of such documents must connect
        all positions; otherwise the function raises.
    deepest
        Positions from this one on are pooled; None: each position is estimated.
    iterations
        Maximum number of iterations.
    tolerance
        Stop when no propensity changes by more than this share in an iteration.
    """
    if iterations < 1 or not tolerance > 0:
        raise UsageError(f"needs iterations >= 1 and tolerance > 0, got {iterations} and {tolerance}.")
    counts = count_positions(log, deepest)
    refuse_unlinked(
        counts.documents,
        counts.positions,
        counts.n_positions,
        Message("vary the order in which results are shown, or pass ", Parameter("deepest"), " to pool positions."),
    )
    # Start with the click-through rates of positions and documents.
    positions = _ratio_of_sums(counts.clicked, counts.shown, counts.positions, counts.n_positions)
    documents = _ratio_of_sums(counts.clicked, counts.shown, counts.documents, counts.n_documents)
    rates = _Rates(np.clip(positions / positions.max(), 0.01, 1.0), documents)
    for _ in range(iterations):
        before = rates.positions
        rates = _accelerated_step(counts, rates)
        if np.all(np.abs(rates.positions - before) <= tolerance * np.maximum(before, _LEAST)):
            break
    else:
        warnings.warn(
            Message(
                f"expectation maximization of propensities has not converged after {iterations} "
                "iterations, and they may be inaccurate; raise ",
                Parameter("iterations"),
                ", or pool low positions, which are seldom clicked, with ",
                Parameter("deepest"),
                ".",
            ),
            ConvergenceWarning,
            stacklevel=2,
        )
    values = np.full(counts.n_positions, np.nan)
    seen = np.unique(counts.positions)
    values[seen] = rates.positions[seen] / rates.positions[seen].max()
    # A position without a click counts as never examined.
    values[np.bincount(counts.positions, counts.clicked, counts.n_positions) == 0] *= 0.0
    return Propensities(values, method="em", pooled=deepest is not None)


def _ratio_of_sums(
    numerators: NDArray[np.float64], denominators: NDArray[np.float64], codes: Rows, n: int
) -> NDArray[np.float64]:
    """Ratio of the sums over each position or document; at least a tiny number."""
    total = np.bincount(codes, denominators, n)
    ratios = np.bincount(codes, numerators, n) / np.where(total > 0, total, 1.0)
    return np.maximum(ratios, _LEAST)


def _em_step(counts: PositionCounts, rates: _Rates) -> _Rates:
    hidden = counts.shown * rates.documents[counts.documents]
    attracted = counts.clicked + hidden * (1.0 - rates.positions[counts.positions])
    positions = _ratio_of_sums(counts.clicked, attracted, counts.positions, counts.n_positions)
    documents = _ratio_of_sums(attracted, counts.shown, counts.documents, counts.n_documents)
    # Only products matter: if the largest value of positions is 1, steps are longest.
    top = positions.max()
    return _Rates(positions / top, documents * top)


def _log_likelihood(counts: PositionCounts, rates: _Rates) -> float:
    rate = rates.positions[counts.positions] * rates.documents[counts.documents]
    return float(np.sum(counts.clicked * np.log(rate) - counts.shown * rate))


def _accelerated_step(counts: PositionCounts, rates: _Rates) -> _Rates:
    """Two EM steps, or their extrapolation in the logarithms if its likelihood is higher."""
    once = _em_step(counts, rates)
    twice = _em_step(counts, once)
    logs = [np.log(np.concatenate(r)) for r in (rates, once, twice)]
    first, second = logs[1] - logs[0], logs[2] - 2.0 * logs[1] + logs[0]
    size = float(np.linalg.norm(second))
    if size == 0.0:
        return twice
    length = -max(1.0, float(np.linalg.norm(first)) / size)
    far = logs[0] - 2.0 * length * first + length * length * second
    values = np.maximum(np.exp(np.minimum(far, _HIGHEST_LOG)), _LEAST)
    n = counts.n_positions
    guess = _em_step(counts, _Rates(np.minimum(values[:n], 1.0), values[n:]))
    better = _log_likelihood(counts, guess) > _log_likelihood(counts, twice)
    return guess if better else twice


def estimate_by_swaps(log: ClickLog, *, deepest: int | None = None) -> Propensities:
    """Estimate propensities from documents that were shown at several positions at random.

    Parameters
    ----------
    log
        A log of an experiment that swaps results at random, or of rankers that changed; the
        position of a document must not depend on its relevance.
    deepest
        Positions from this one on are pooled; None: each position is estimated.
    """
    counts = count_positions(log, deepest)
    pairs, ratios, variances = _log_ratios(counts)
    if len(pairs) == 0:
        raise DataError(
            "no document was shown, and clicked, at two positions: there is no intervention to "
            f"learn from; {_SWAP_REMEDY}"
        )
    # A pair of positions acts like a document that connects them.
    seen = np.unique(counts.positions[counts.clicked > 0])
    links = np.append(np.repeat(np.arange(len(pairs)), 2), len(pairs) + np.arange(len(seen)))
    refuse_unlinked(links, np.append(pairs, seen), counts.n_positions, _SWAP_REMEDY)
    values = np.full(counts.n_positions, np.nan)
    values[np.unique(counts.positions)] = 0.0  # shown, never clicked
    # Least-squares logarithms; the first is 0.
    columns, rows = np.searchsorted(seen, pairs), np.arange(len(pairs))
    design = np.zeros((len(pairs), len(seen)))
    design[rows, columns[:, 1]] = 1.0
    design[rows, columns[:, 0]] = -1.0
    scale = 1.0 / np.sqrt(variances)
    logs = np.linalg.lstsq(design[:, 1:] * scale[:, None], ratios * scale, rcond=None)[0]
    values[seen] = np.exp(np.concatenate([[0.0], logs]))
    return Propensities(values / np.nanmax(values), method="swap", pooled=deepest is not None)


def _log_ratios(counts: PositionCounts) -> tuple[Rows, NDArray[np.float64], NDArray[np.float64]]:
    """For each pair of positions with common documents, the log of the ratio and its variance."""
    shape = (counts.n_documents, counts.n_positions)
    place = (counts.documents, counts.positions)
    shown = csc_array((counts.shown, place), shape=shape)
    clicked = csc_array((counts.clicked, place), shape=shape)
    estimates = {pair: _log_ratio(shown, clicked, *pair) for pair in combinations(range(counts.n_positions), 2)}
    known = {pair: estimate for pair, estimate in estimates.items() if estimate is not None}
    ratios, variances = np.array(list(known.values())).reshape(-1, 2).T
    return np.array(list(known), np.int64).reshape(-1, 2), ratios, variances


def _log_ratio(shown: csc_array, clicked: csc_array, k: int, other: int) -> tuple[float, float] | None:
    parts = [slice(shown.indptr[p], shown.indptr[p + 1]) for p in (k, other)]
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


def write_propensities(propensities: Propensities, path: PathLike) -> None:
    """Write ``.json``, which records the method of estimation, or ``.csv``."""
    target, content = Path(path), propensities.to_dict()
    if _require_suffix(target) == ".json":
        text = json.dumps(content, indent=1)
    else:
        lines = [f"{position},{p!r}" for position, p in content["propensities"].items()]
        text = "\n".join(["position,propensity", *lines])
    write_text(target, text + "\n")


def read_propensities(path: PathLike) -> Propensities:
    """Read a file of :func:`write_propensities`; JSON may also be a list or a mapping."""
    source = Path(path)
    suffix = _require_suffix(source)
    try:
        require_regular(source)
        text = source.read_text(encoding="utf-8")
        return _parse_json(text) if suffix == ".json" else _parse_csv(text)
    except DataError as error:
        raise DataError(error.message, path=str(source), line=error.line) from error
    except FileNotFoundError as error:
        raise DataError("there is no such file", path=str(source)) from error
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise DataError(f"not readable propensities: {error}", path=str(source)) from error


def _require_suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in (".json", ".csv"):
        raise UsageError(f"{path}: propensities are .json or .csv files, not {path.suffix!r}.")
    return suffix


def _parse_json(text: str) -> Propensities:
    content = json.loads(text)
    if isinstance(content, list):
        return Propensities.of(content)
    if not isinstance(content, dict):
        raise DataError("propensities must be a list, or a mapping from positions.")
    mapping = content.get("propensities", content)
    values = Propensities.of({int(position): float(value) for position, value in mapping.items()})
    method, pooled = content.get("method", "given"), content.get("pooled", False)
    if not (isinstance(method, str) and isinstance(pooled, bool)):
        raise DataError("method must be text, and pooled true or false.")
    return Propensities(values.values, method=method, pooled=pooled)


def _parse_csv(text: str) -> Propensities:
    values: dict[int, float] = {}
    for number, row in enumerate(csv.reader(text.splitlines()), start=1):
        if number == 1 and row[:1] == ["position"]:
            continue
        try:
            position, value = row
            values[int(position)] = float(value)
        except ValueError as error:
            raise DataError(f"expected a position and its propensity, got {','.join(row)!r}", line=number) from error
    return Propensities.of(values)
