r"""Simulated clicks on the lists of a data set: click models, and impressions drawn from them.

An impression depends only on the seed, the key of its list and its number: not on threads, other
lists or the number of impressions.

Both click models give each label a probability :math:`c_y` that an examined document is clicked; that of label
0 is noise: clicks on irrelevant documents. The models differ in which documents are examined:

- :class:`PositionModel`: position k with probability :math:`k^{-\eta}`, whatever is above it (Richardson
  et al. 2007; the simulations of Joachims et al. 2017 and Ai et al. 2018).
- :class:`CascadeModel`: documents from the top, one after the other; after a click the user stops with a probability
  that may depend on the label (Craswell et al. 2008: always; Guo et al. 2009: not always).

=========================  ========================================================================
preset                     definition
=========================  ========================================================================
bruch2021                  cascade, first click ends, .05 .3 .5 .7 .95 (Bruch 2021, section 5.5)
hofmann2013-perfect        cascade, never stops, 0 .2 .4 .8 1 (Hofmann et al. 2013)
hofmann2013-navigational   cascade, .05 .3 .5 .7 .95, a click is the last with .2 .3 .5 .7 .9
hofmann2013-informational  cascade, .4 .6 .7 .8 .9, a click is the last with .1 .2 .3 .4 .5
joachims2017               position, eta 1, labels 3 and 4 always clicked, others with .1: binary
                           relevance (Joachims et al. 2017)
ai2018                     position, eta 1, .1 + .9 (2^y - 1)/15 (Ai et al. 2018)
=========================  ========================================================================
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np
from numba import prange, uint64
from numpy.typing import ArrayLike, NDArray

from plackett.base.arithmetic import stable_order
from plackett.base.errors import DataError, UsageError
from plackett.base.kernels import compiled, parallel
from plackett.base.ragged import Labels, list_of_document, offsets_from_sizes
from plackett.base.random import combine
from plackett.data.clicks.log import ClickLog
from plackett.data.dataset import Dataset
from plackett.data.inputs import as_column
from plackett.data.synthetic.generators import uniform

Model = TypeVar("Model", bound="ClickModel")


def _check_chances(what: str, chances: tuple[float, ...]) -> None:
    if not chances or not all(0 <= chance <= 1 for chance in chances):
        raise UsageError(f"{what} must be chances from 0 to 1, one per label, got {chances}.")


@dataclass(frozen=True)
class ClickModel(ABC):
    """Base of click models: the probability of a click on an examined document, by label.

    Parameters
    ----------
    clicks
        Probabilities for the labels 0, 1, 2 ...; data may have fewer levels.
    """

    clicks: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_chances("clicks", self.clicks)

    @abstractmethod
    def examination(self, n_positions: int) -> NDArray[np.float64]:
        """Probability that each position is examined; 1 in a cascade, until the user stops."""

    @abstractmethod
    def stopping(self, labels: Labels) -> NDArray[np.float64]:
        """For each document, the probability that a click on it is the last."""

    def attraction(self, labels: Labels) -> NDArray[np.float64]:
        """For each document, the probability of a click if it is examined."""
        return _look_up(self.clicks, labels)

    def with_noise(self: Model, chance: float) -> Model:
        """Return the same model with another probability of a click on an irrelevant document."""
        return replace(self, clicks=(chance, *self.clicks[1:]))


@dataclass(frozen=True)
class PositionModel(ClickModel):
    """Position-based model: position k is examined with probability k to the power -eta.

    Parameters
    ----------
    clicks
        Probabilities of a click on an examined document of label 0, 1, 2 ...
    eta
        Strength of the bias; 0: every position is examined.
    """

    clicks: tuple[float, ...] = (0.1, 0.16, 0.28, 0.52, 1.0)
    eta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.eta < np.inf:
            raise UsageError(f"eta must be a finite number >= 0, got {self.eta}.")

    def examination(self, n_positions: int) -> NDArray[np.float64]:
        return np.arange(1.0, n_positions + 1) ** -self.eta

    def stopping(self, labels: Labels) -> NDArray[np.float64]:
        return np.zeros(len(labels))


@dataclass(frozen=True)
class CascadeModel(ClickModel):
    """Cascade model: documents are examined from the top until a click ends the session.

    Parameters
    ----------
    clicks
        Probabilities of a click on an examined document of label 0, 1, 2 ...
    stops
        Probabilities, by label, that a click is the last; None: the first click is the last.
    """

    clicks: tuple[float, ...] = (0.05, 0.3, 0.5, 0.7, 0.95)
    stops: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stops is not None:
            _check_chances("stops", self.stops)
            if len(self.stops) != len(self.clicks):
                raise UsageError(f"stops must be {len(self.clicks)} chances, one per label, got {self.stops}.")

    def examination(self, n_positions: int) -> NDArray[np.float64]:
        return np.ones(n_positions)

    def stopping(self, labels: Labels) -> NDArray[np.float64]:
        return np.ones(len(labels)) if self.stops is None else _look_up(self.stops, labels)


PRESETS: dict[str, ClickModel] = {
    "bruch2021": CascadeModel(),
    "hofmann2013-perfect": CascadeModel((0.0, 0.2, 0.4, 0.8, 1.0), (0.0,) * 5),
    "hofmann2013-navigational": CascadeModel((0.05, 0.3, 0.5, 0.7, 0.95), (0.2, 0.3, 0.5, 0.7, 0.9)),
    "hofmann2013-informational": CascadeModel((0.4, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5)),
    "joachims2017": PositionModel((0.1, 0.1, 0.1, 1.0, 1.0)),
    "ai2018": PositionModel(),
}
"""Click models of papers, for labels 0 to 4."""


def click_model(name: str | ClickModel) -> ClickModel:
    """Return a click model by the name of its preset; a model is returned as it is.

    >>> click_model("bruch2021").with_noise(0.1).clicks
    (0.1, 0.3, 0.5, 0.7, 0.95)
    """
    if isinstance(name, ClickModel):
        return name
    if name not in PRESETS:
        raise UsageError(f"there is no click model {name!r}; there are {', '.join(PRESETS)}.")
    return PRESETS[name]


def _look_up(chances: tuple[float, ...], labels: Labels) -> NDArray[np.float64]:
    """The probability for each label."""
    levels = labels.astype(np.int64)
    unknown = (levels != labels) | (levels >= len(chances))
    if unknown.any():
        raise DataError(
            f"the click model has chances for the labels 0 to {len(chances) - 1}, but the data has "
            f"{labels[unknown][0]:g}; give chances for all of them."
        )
    return np.asarray(chances, dtype=np.float64)[levels]


_CLICKS = 0x636C69636B73  # makes clicks independent of other noise with the same seed and list


def simulate(
    dataset: Dataset,
    model: str | ClickModel = "ai2018",
    *,
    impressions: int = 10,
    seed: int = 0,
    scores: ArrayLike | None = None,
    temperature: float = 0.0,
    top: int | None = None,
    swap: bool = False,
    log: Literal["shown", "examined"] = "shown",
) -> ClickLog:
    """Show each list to simulated users and log their clicks.

    Parameters
    ----------
    dataset
        Its labels give the relevance. Documents are named by their ids, or by their rows if they have none.
    model
        A click model, or the name of a preset of :data:`plackett.data.clicks.PRESETS`.
    impressions
        How often each list is shown.
    seed
        The same seed gives the same log.
    scores
        Scores of the ranker that orders the lists, one per document; None: a random order each time.
    temperature
        Gumbel noise of this scale is added to the scores in each impression, so that a document is
        shown at several positions; 0: always the same order.
    top
        Number of documents shown; None: all.
    swap
        In each impression, swap the first document with the one at a position drawn uniformly from all positions shown,
        the first included: the intervention that :func:`~plackett.data.clicks.estimate_by_swaps` needs.
    log
        ``"shown"``: all documents shown. ``"examined"``: for the cascade, only those down to the
        last one examined, which real logs do not record; Bruch 2021 trains on these.

    Examples
    --------
    >>> import plackett as pk
    >>> from plackett.data.clicks import simulate
    >>> simulate(pk.synthetic("web", n_lists=50), "ai2018", impressions=4, top=10)
    ClickLog(200 impressions of 50 queries, 1,964 rows, 110 clicks)
    """
    chosen = click_model(model)
    if impressions < 1 or (top is not None and top < 1) or not 0 <= temperature < np.inf:
        raise UsageError(
            "a simulation needs impressions >= 1, top >= 1 and a finite temperature >= 0, got "
            f"impressions={impressions}, top={top}, temperature={temperature}."
        )
    if log not in ("shown", "examined"):
        raise UsageError(f'log must be "shown" or "examined", got {log!r}.')
    # Within a list, random numbers are drawn in the canonical order of its documents.
    keys, rows = dataset.keys, np.lexsort((dataset.order.places, dataset.list_of_row))
    score_array = np.empty(0)
    if scores is not None:
        values = np.ascontiguousarray(as_column(scores), dtype=np.float64)
        if values.shape != rows.shape or not np.all(np.isfinite(values)):
            raise UsageError(f"scores must be {len(rows)} finite numbers, one per document, got shape {values.shape}.")
        score_array = values[rows]
    dataset = dataset.without_features().rearrange(rows)
    sizes = np.minimum(np.diff(dataset.offsets), top or dataset.n_docs)
    starts = offsets_from_sizes(np.repeat(sizes, impressions))
    order, clicked = np.empty(starts[-1], np.int64), np.zeros(starts[-1], np.bool_)
    ends = np.empty(len(starts) - 1, np.int64)
    attraction, stopping = chosen.attraction(dataset.labels), chosen.stopping(dataset.labels)
    behavior = (chosen.examination(int(sizes.max())), isinstance(chosen, CascadeModel), attraction, stopping)
    ranking = (score_array, scores is not None, float(temperature), swap)
    out = (starts, order, clicked, ends)
    _simulate(np.uint64(seed % 2**64), keys, dataset.offsets, ranking, behavior, impressions, out)
    impression, ids = list_of_document(starts), dataset.document_ids
    positions = np.arange(len(order)) - starts[impression] + 1
    documents = dataset.rows[order] if ids is None else ids[order]
    shown = ClickLog(impression, dataset.query_ids[order], documents, positions, clicked, by_rows=ids is None)
    return shown.take(positions <= ends[impression]) if log == "examined" else shown


@compiled
def _fill_random_order(state, low, order, size):  # type: ignore[no-untyped-def]
    """Shuffle the documents of a list; only the first ``size`` are drawn."""
    n = len(order)
    for k in range(n):
        order[k] = low + k
    for k in range(size):
        other = k + int(uniform(state) * (n - k))
        order[k], order[other] = order[other], order[k]


@compiled
def _fill_order(state, low, scores, temperature, order):  # type: ignore[no-untyped-def]
    sinking = np.empty(len(scores))
    for i in range(len(scores)):
        noise = 0.0
        if temperature > 0.0:
            noise = temperature * np.log(-np.log(uniform(state)))
        sinking[i] = noise - scores[i]
    best_first = stable_order(sinking, False)
    for k in range(len(scores)):
        order[k] = low + best_first[k]


@compiled
def _click(state, shown, examination, cascade, attraction, stopping, clicked):  # type: ignore[no-untyped-def]
    """Simulate the clicks of one impression; returns the number of documents examined."""
    for k in range(len(shown)):
        # Three numbers are drawn for each document, so that its outcome never shifts later draws.
        looks, clicks, ends = uniform(state), uniform(state), uniform(state)
        document = shown[k]
        if looks < examination[k] and clicks < attraction[document]:
            clicked[k] = True
            if cascade and ends < stopping[document]:
                return k + 1
    return len(shown)


@parallel
def _simulate(seed, keys, offsets, ranking, behavior, impressions, out):  # type: ignore[no-untyped-def]
    scores, ranked, temperature, swap = ranking
    examination, cascade, attraction, stopping = behavior
    starts, order, clicked, ends = out
    for q in prange(len(keys)):
        low, high = offsets[q], offsets[q + 1]
        full = np.empty(high - low, np.int64)
        state = np.empty(1, np.uint64)
        for m in range(impressions):
            at = q * impressions + m
            first, last = starts[at], starts[at + 1]
            size = last - first
            state[0] = combine(combine(combine(seed, uint64(_CLICKS)), keys[q]), uint64(m))
            if ranked:
                _fill_order(state, low, scores[low:high], temperature, full)
            else:
                _fill_random_order(state, low, full, size)
            if swap:
                other = int(uniform(state) * size)
                full[0], full[other] = full[other], full[0]
            order[first:last] = full[:size]
            shown, marks = order[first:last], clicked[first:last]
            ends[at] = _click(state, shown, examination, cascade, attraction, stopping, marks)
